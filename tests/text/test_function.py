"""parse(): the function that a text gives, in eager calls, derivations and kernels."""

from __future__ import annotations

import copy
import inspect
import math
import pathlib
import pickle
import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TextError
from symgrad.text.functions import ALIASES, FUNCTIONS

RNG = np.random.default_rng(3)
V = {name: RNG.uniform(0.2, 0.9, 3) for name in "xyvw"}
M = {name: RNG.uniform(0.2, 0.9, (3, 3)) + 2 * np.eye(3) for name in "ABCX"}
S = {"a": 1.5, "b": 0.7, "alpha": 0.4}
ALL = {**V, **M, **S}
NAME = re.compile("[A-Za-z]+")
x, y, v, w, A, B, C, X, a, b = *(V[n] for n in "xyvw"), *(M[n] for n in "ABCX"), S["a"], S["b"]
FRONT_PAGE = {
    "0.5*x'*A*x": 0.5 * x @ A @ x,
    "A*exp(x)": A @ np.exp(x),
    "sin(x)'*y": np.sin(x) @ y,
    "(y.*v)'*x": (y * v) @ x,
    "a^b": a**b,
    "norm1(A*x-y)": np.abs(A @ x - y).sum(),
    "norm2(A*x-y)^2": ((A @ x - y) ** 2).sum(),
    "sum(log(exp(-y.*(X*w)) + vector(1)))": np.log(np.exp(-y * (X @ w)) + 1).sum(),
    "tr(A*X'*B*X*C)": np.trace(A @ X.T @ B @ X @ C),
    "log(det(inv(X)))": np.log(np.linalg.det(np.linalg.inv(X))),
}
"""The examples of matrixcalculus.org."""
MORE = {
    "x'*y": x @ y,
    "x*y'": np.outer(x, y),
    "x'*A": x @ A,
    "(x'*A)'": A.T @ x,
    "A'*B'": A.T @ B.T,
    "a*x + x*b - x/a": a * x + x * b - x / a,
    "x + 1 - a": x + 1 - a,
    "x'.*y'": x * y,
    "x./y.^2": x / y**2,
    "2.^x": 2**x,
    "x.^y": x**y,
    "A.^2 + A.*B - A./B": A**2 + A * B - A / B,
    "A^3": A @ A @ A,
    "A^-2": np.linalg.inv(A) @ np.linalg.inv(A),
    "A^0": np.eye(3),
    "A + matrix(2)": A + 2,
    "A - a*eye": A - a * np.eye(3),
    "eye(3)*x": x,
    "vector(a)'*x": a * x.sum(),
    "ones(3) + zeros(3) + x": 1 + x,
    "ones(3, 3)*x": np.full(3, x.sum()),
    "diag(x)*y + diag(A)": x * y + np.diag(A),
    "logdet(A) - log(det(A))": 0.0,
    "adj(A)": np.linalg.det(A) * np.linalg.inv(A),
    "pinv(A)": np.linalg.inv(A),
    "mean(A) + sum(A)": A.mean() + A.sum(),
    "max(x) - min(A)": x.max() - A.min(),
    "max(x, y) + min(x, 0.5)": np.maximum(x, y) + np.minimum(x, 0.5),
    "norm(A) + norminf(x)": np.sqrt((A**2).sum()) + np.abs(x).max(),
    "logsumexp(x) + logsumexp(A)": np.log(np.exp(x).sum()) + np.log(np.exp(A).sum()),
    "softmax(x)": np.exp(x) / np.exp(x).sum(),
    "softplus(x) - log(1 + exp(x))": 0 * x,
    "sigmoid(a) + relu(-a) + sign(b)": 1 / (1 + np.exp(-a)) + 1,
    "arcsin(x) + acos(x) + ln(x)": math.pi / 2 + np.log(x),
    "pi*alpha": math.pi * S["alpha"],
    "1/3 + 2^-1 + sqrt(2)": 1 / 3 + 0.5 + math.sqrt(2),
    "-x.^2 + (-x).^2": 0 * x,
    "sum(2) + norm(-3)": 5.0,
}


@pytest.mark.parametrize("text", [*FRONT_PAGE, *MORE])
def test_values(text):
    f = sg.parse(text, **{name: () for name in ("a", "b") if name in NAME.findall(text)})
    given = {name: sg.tensor(ALL[name], dtype=sg.float64) for name in inspect.signature(f).parameters}
    found, wanted = f(**given).numpy(), np.asarray({**FRONT_PAGE, **MORE}[text])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if not given else 1e-12, atol=1e-12)


@pytest.mark.parametrize("text", [text for text in FRONT_PAGE if text not in ("A*exp(x)", "a^b")])
def test_the_front_page_has_formulas_that_are_certified(text):
    f = sg.parse(text)
    sizes = [{"vector": 3, "matrix": (3, 3)}[kind] for kind in f.types.values()]
    assert sg.derive(f)(*map(sg.spec, sizes)).certify()


def test_every_function_is_tried():
    tried = " ".join([*FRONT_PAGE, *MORE])
    elementwise = {name for name, f in FUNCTIONS.items() if f.row or name in ALIASES}
    assert [name for name in FUNCTIONS if f"{name}(" not in tried and name not in elementwise] == []


def test_the_page_lists_every_function():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "text-input.md").read_text("utf-8")
    table = page[page.index("| function | value |") : page.index("Errors point at the column and say")]
    assert {name.partition("(")[0] for name in re.findall("`([^`]+)`", table)} - {"a", "exp(A)"} >= set(FUNCTIONS)


@pytest.mark.parametrize("name", [name for name, f in FUNCTIONS.items() if f.row])
def test_elementwise_functions(name):
    values = sg.tensor([1.25, 1.75], dtype=sg.float64) - (1 if FUNCTIONS[name].row in ("asin", "acos", "atanh") else 0)
    row = FUNCTIONS[name].row
    ours = getattr(sg, row) if hasattr(sg, row) else getattr(sg.special, row)
    assert sg.parse(f"{name}(x)")(values).tolist() == ours(values).tolist()


def test_numbers_stay_exact_in_formulas():
    f = sg.parse("x/3 + 0.1*x + sqrt(2)*x*2^0.5 + pi*x - sin(pi/6)*x", x=())
    assert str(sg.derive(f)(1.0)).splitlines()[1] == "∂f/∂x = 29/15 + pi"


def test_it_is_a_function_with_a_signature():
    f = sg.parse("sum((X*w - y).^2) + lam*norm(w)^2", X=("n", "p"))
    assert str(inspect.signature(f)) == "(X, w, y, lam)"
    assert repr(f) == "<f(X: n × p, w: p, y: n, lam: scalar) = sum((X*w - y).^2) + lam*norm(w)^2>"
    data = [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], [0.0, 1.0]
    assert f(*data, 0.5).item() == f(*data, lam=0.5).item() == f(lam=0.5, y=data[2], w=data[1], X=data[0]).item() == 9 + 36 + 1
    for again in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        assert repr(again) == repr(f)
    with pytest.raises(TypeError, match=r"f\(X, w, y, lam\): missing a required argument: 'y'"):
        f(*data[:2])
    with pytest.raises(TypeError, match=r"the arguments of a formula are tensors, arrays and numbers, got .* lam: str 'a'"):
        f(*data, "a")


def test_a_long_text_is_shortened_in_its_repr():
    assert len(repr(sg.parse("+".join(["x"] * 200)))) < 150


def test_names_that_python_reserves():
    f = sg.parse("lambda*x'*x")
    assert str(inspect.signature(f)) == "(lambda_, x)"
    assert f(2, [1.0, 2.0]).item() == f(x=[1.0, 2.0], lambda_=2).item() == 10
    with pytest.raises(ValueError, match="lambda and lambda_ would be one argument"):
        sg.parse("lambda*lambda_")


def test_derive():
    f = sg.parse("sum((X*w - y).^2) + lam*norm(w)^2", X=("n", "p"))
    d = sg.derive(f, wrt="w")(sg.spec((5, 2)), sg.spec(2), sg.spec(5), 0.5)
    assert str(d) == "f(X, w, y, lam) = lam*‖w‖² + ‖X w - y‖²\n∂f/∂w = 2 (Xᵀ (X w - y) + lam w)"
    assert d.certify()
    with pytest.raises(ValueError, match="size of w"):
        sg.derive(f)(sg.spec((5, 2)), sg.spec(3), sg.spec(5), 0.5)


def test_vectors_of_ones_have_formulas():
    assert str(sg.derive(sg.parse("vector(1)'*x"), wrt="x")(sg.spec(3))).endswith("∂f/∂x = 1")
    assert str(sg.derive(sg.parse("log(1 + exp(x))"))(sg.spec(3))).startswith("f(x) = softplus(x)")


def test_compile():
    f = sg.parse("sum((X*w - y).^2) + lam*norm(w)^2", X=("n", "p"))
    given = sg.ones(3, 2), sg.tensor([1.0, 2.0]), sg.tensor([1.0, 2.0, 3.0])
    fast = sg.compile(f, backend="numpy")
    assert fast(*given, 0.5).item() == fast(X=given[0], w=given[1], y=given[2], lam=0.5).item() == f(*given, 0.5).item() == 7.5
    assert fast(*given, 1.5).item() == 12.5
    assert fast.grad(*given, 0.5, wrt="w").tolist() == [7.0, 8.0]
    assert "f(X, w, y, lam): 2 programs" in repr(fast)


def test_autograd_and_transforms():
    f = sg.parse("x'*A*x")
    a, x = sg.tensor([[1.0, 2.0], [3.0, 4.0]]), sg.tensor([1.0, 2.0], requires_grad=True)
    f(x, a).backward()
    assert x.grad.tolist() == sg.func.grad(f)(x.detach(), a).tolist() == [12.0, 21.0]
    assert sg.vmap(f, in_dims=(0, None))(sg.eye(2), a).tolist() == [1.0, 4.0]


def test_the_square_of_a_norm_has_a_slope_at_zero():
    x = sg.zeros(2, requires_grad=True)
    sg.parse("norm(x)^2")(x).backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_dtypes():
    f = sg.parse("A*x + alpha*x")
    assert f(np.ones((2, 2), np.float32), np.ones(2), 1).dtype == sg.float64
    assert f(sg.ones(2, 2), sg.ones(2), 0.1).dtype == sg.float32
    assert f([[1, 2], [3, 4]], [1, 2], 2).tolist() == [7.0, 15.0]
    assert sg.parse("inv(A)")([[2, 0], [0, 4]]).tolist() == [[0.5, 0.0], [0.0, 0.25]]


def test_errors_of_numbers_that_depend_on_sizes_point_at_the_column():
    f = sg.parse("sum(x)*(1/(n - 1))", x="n")
    assert f([1.0, 2.0, 3.0]).item() == 3
    with pytest.raises(TextError, match="column 10: division by zero"):
        f([1.0])
