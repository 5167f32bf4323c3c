"""Half precision with Python numbers: eager code rounds them where PyTorch does, and compiled code computes the same."""

import operator

import numpy as np
import pytest

import symgrad as sg

NUMBERS = (1e5, 0.1, 1e-9, 70000)
OPS = {
    "mul": operator.mul, "rmul": lambda a, n: n * a, "div": operator.truediv, "rdiv": lambda a, n: n / a, "floordiv": operator.floordiv,
    "add": operator.add, "rsub": lambda a, n: n - a, "remainder": operator.mod, "fmod": sg.fmod,
    "mul_div": lambda a, n: a * n / n, "lt": operator.lt, "ge": operator.ge, "eq": operator.eq, "where": lambda a, n: sg.where(a > 1, a, n),
    "mul_": lambda a, n: a.clone().mul_(n), "lerp": lambda a, n: sg.lerp(a, a * 2, n),
}  # fmt: skip
DATA = [0.5, 1.0, 0.1, 3.0, 250.0]


def gradient(f, x):
    x = x.detach().requires_grad_()
    f(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPS)
def test_compiled_as_eager(name, dtype):
    f, x = OPS[name], sg.tensor(DATA, dtype=getattr(sg, dtype))
    for backend in ("xla", "numpy"):
        as_argument = sg.compile(f, backend=backend)
        for n in NUMBERS:
            wanted = f(x, n)
            found = sg.compile(lambda a: f(a, n), backend=backend)(x)  # noqa: B023
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.tolist(), wanted.tolist())
            np.testing.assert_array_equal(as_argument(x, n).tolist(), wanted.tolist())


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_derivatives(backend):
    x = sg.tensor([0.5, 0.25], dtype=sg.float16)
    f = lambda x: (x * 1e5) / 3e5
    compiled = sg.compile(f, backend=backend)
    wanted = gradient(f, x)
    assert gradient(compiled, x) == wanted
    compiled(x)
    assert gradient(compiled, x) == wanted


def test_values():
    x = sg.tensor([0.5], dtype=sg.float16)
    assert (x * 1e5).tolist() == [49984.0]
    assert (x / 1e5).tolist() == [float(np.float16(5e-6))]
    assert (sg.tensor([0.1], dtype=sg.float16) == 0.1).tolist() == [True]  # rounded first
