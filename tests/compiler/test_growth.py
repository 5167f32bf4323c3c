"""The work of deriving and compiling grows linearly with the program.

Each step of these programs uses the result of the one before twice: written out without sharing, n steps have 2ⁿ parts.
"""

import itertools
import sys

import pytest

import symgrad as sg

DEPTH = 8
N = 64
"""Large enough for products to be reordered at every depth."""
EYE = sg.eye(N, dtype=sg.float64)
STEPS = {
    "x + x / 2": lambda x: x + 0.5 * x,
    "x - (1 - x)": lambda x: x - (1 - 0.3 * x),
    "x * x": lambda x: x * x,
    "(x + 1) (x - 1)": lambda x: (x + 1) * (x - 1),
    "x / (1 + x²)": lambda x: x / (1 + x * x),
    "x² - x³": lambda x: x.pow(2) - x.pow(3),
    "sqrt(x² + 1)": lambda x: (x * x + 1).sqrt(),
    "Newton": lambda x: x - (x * x - 2) / (2 * x),
    "logistic map": lambda x: 3.5 * x * (1 - x),
    "exp(x) - 1": lambda x: (0.1 * x).exp() - 1 + x,
    "log(1 + exp(x))": lambda x: (1 + x.exp()).log() * x,
    "x / (exp(x) - 1)": lambda x: x / (x.exp() - 1),
    "tanh(x) x": lambda x: x.tanh() * x,
    "sigmoid": lambda x: x.sigmoid() * (1 - x.sigmoid()) + x,
    "where": lambda x: sg.where(x > 0, x.sin() * x, x),
    "maximum": lambda x: sg.maximum(x, 0.5 * x) + x,
    "A A": lambda x: x @ x + x,
    "A A'": lambda x: x @ x.T - x,
    "A sum(A)": lambda x: x * x.sum() + x,
    "A trace(A)": lambda x: x * x.trace() + x,
    "diag(A) A": lambda x: sg.diag(x.diagonal()) @ x + x,
    "einsum": lambda x: sg.einsum("ij,jk,kl->il", x, x, x) + x,
    "softmax": lambda x: x.softmax(0) + x,
    "normalized": lambda x: (x - x.mean()) / (x.var() + 1).sqrt() + x,
    "A⁻¹ A": lambda x: sg.linalg.inv(x + 9 * EYE) @ x + x,
    "solve": lambda x: sg.linalg.solve(x + 9 * EYE, x) + x,
    "reversed": lambda x: x.flip(0) + x,
    "rolled": lambda x: x.roll(1, 0) * x + x,
    "joined": lambda x: sg.cat([x[1:], x[:1]]) + x,
    "reshaped": lambda x: x.reshape(N * N).reshape(N, N).T + x,
    "lower part": lambda x: x.tril() @ x + x,
    "cumulative": lambda x: x.cumsum(0) * 0.1 + x,
    "gathered": lambda x: x[sg.tensor([2, 0, 0, *range(3, N)])] + x,
    "written": lambda x: written(x) + x,
}
LIVES = {
    "value": lambda f, x: sg.compile(f, backend="numpy")(x),
    "gradient": lambda f, x: sg.compile(f, backend="numpy").grad(x),
    "formula": lambda f, x: str(sg.derive(f)(x)),
    "tangent": lambda f, x: sg.compile(f, backend="numpy").jvp(x)(x),
}

MORE_LIVES = {
    "Taylor coefficients": lambda f, x: sg.compile(f, backend="numpy").taylor(x, order=2),
    "sparse Jacobian": lambda f, x: sg.compile(f, backend="numpy").jacobian(x, sparse=True),
    "sparse Hessian": lambda f, x: sg.compile(f, backend="numpy").hessian(x, sparse=True),
    "structured Hessian": lambda f, x: sg.compile(f, backend="numpy").hessian(x, structured=True),
}
MORE_STEPS = ["x + x / 2", "x - (1 - x)", "(x + 1) (x - 1)", "x / (1 + x²)", "x² - x³", "tanh(x) x", "where"]


def written(x):
    y = x.clone()
    y[0] = x[1] * x[2]
    return y


def calls(run, at_most=10**9):
    """Count the calls of Python functions. Raise an error above the limit, so that exponential work does not hang."""
    count = 0

    def see(_frame, event, _argument):
        nonlocal count
        count += event == "call"
        if count > at_most:
            raise AssertionError(f"more than {at_most} calls")

    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def repeated(step, depth):
    def f(x):
        for _ in range(depth):
            x = step(x)
        return x.sum() if isinstance(x, sg.Tensor) else x

    return f


@pytest.mark.parametrize(
    ("step", "life"), [*itertools.product(STEPS, LIVES), *itertools.product(MORE_STEPS, MORE_LIVES)]
)
def test_twice_the_steps_are_at_most_three_times_the_work(step, life):
    x = sg.linspace(1e-4, 5e-4, N * N, dtype=sg.float64).reshape(N, N)
    run = (LIVES | MORE_LIVES)[life]
    run(repeated(STEPS[step], 2), x)
    once = calls(lambda: run(repeated(STEPS[step], DEPTH), x))
    assert calls(lambda: run(repeated(STEPS[step], 2 * DEPTH), x), at_most=3 * once) <= 3 * once


@pytest.mark.parametrize("step", ["x + x / 2", "x * x", "(x + 1) (x - 1)", "x / (1 + x²)", "Newton", "logistic map"])
def test_parts_of_python_numbers_are_computed_once(step):
    def run(depth):
        fast = sg.compile(repeated(STEPS[step], depth), backend="numpy")
        fast(0.7)
        fast(0.8)
        fast.grad(0.7)

    run(2)
    once = calls(lambda: run(DEPTH))
    assert calls(lambda: run(2 * DEPTH), at_most=3 * once) <= 3 * once


def test_a_sum_of_python_numbers_is_deeper_than_the_stack():
    def f(x):
        total = 0.0
        for i in range(2000):
            total = total + x * i
        return total

    fast = sg.compile(f, backend="numpy")
    assert fast(2.0).item() == f(2.0)
    assert fast.grad(2.0)[0].item() == 1999 * 1000


def test_the_text_of_a_long_condition_is_shortened():
    def f(x):
        for _ in range(40):
            x = x + x * 0.5
        return x if x < 1e9 else -x

    fast = sg.compile(f, backend="numpy")
    assert fast(1.0).item() > 0
    assert fast(100.0).item() < 0
    reason = fast.recompiles()[-1].reasons[-1]
    assert "... * 0.5" in reason
    assert reason.endswith("< 1000000000.0: True -> False")
    assert len(reason) < 500
