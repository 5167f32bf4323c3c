"""func.taylor and func.laplacian: coefficients against SymPy and nested derivatives, in eager code, under transforms and compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.errors import TraceError
from symgrad.func import grad, hessian, jvp, laplacian, taylor, vmap

X = sympy.Symbol("x")
SERIES = {
    "exp(sin x) tanh x": (lambda x: sg.exp(sg.sin(x)) * sg.tanh(x), sympy.exp(sympy.sin(X)) * sympy.tanh(X)),
    "1 / (1 + x²)": (lambda x: 1 / (1 + x**2), 1 / (1 + X**2)),
    "exp(-x²/2)": (lambda x: sg.exp(-(x**2) / 2), sympy.exp(-(X**2) / 2)),
    "log(1 + exp(sin² x))": (lambda x: sg.log(1 + sg.exp(sg.sin(x) ** 2)), sympy.log(1 + sympy.exp(sympy.sin(X) ** 2))),
    "sqrt(1 + x)": (lambda x: sg.sqrt(1 + x), sympy.sqrt(1 + X)),
    "x to 2.5": (lambda x: x**2.5, X ** sympy.Rational(5, 2)),
    "x to the 7": (lambda x: x**7, X**7),
    "x to the x": (lambda x: x**x, X**X),
    "atan": (sg.atan, sympy.atan(X)),
    "erf": (sg.erf, sympy.erf(X)),
    "log gamma": (lambda x: sg.lgamma(x + 1), sympy.loggamma(X + 1)),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_order_eight_agrees_with_sympy(name, compiled):
    function, expression = SERIES[name]
    series = taylor(function, 8)
    points = sg.tensor([0.37, 1.2], dtype=sg.float64)
    found = (sg.compile(series, backend="numpy") if compiled else series)(points)
    assert len(found) == 9
    for k, c in enumerate(found):
        derivative = sympy.diff(expression, X, k) / sympy.factorial(k)
        expected = [float(derivative.subs(X, sympy.Float(p, 40)).evalf(30)) for p in ("0.37", "1.2")]
        np.testing.assert_allclose(c.numpy(), expected, rtol=1e-12, atol=1e-12 * max(map(abs, expected)))


def test_an_integer_power_has_a_series_at_zero():
    assert [c.item() for c in taylor(lambda x: x**3, 4)(sg.tensor(0.0))] == [0, 0, 0, 1, 0]


def test_several_arguments_have_directions_in_tuples_and_results_keep_their_form():
    a, b = sg.tensor([1.0, 2.0]), sg.tensor([3.0, -1.0])
    found = taylor(lambda x, y: {"product": x * y, "sum": (x + y).sum()}, 2)((a, b), (b, a))
    assert [c["product"].tolist() for c in found] == [[3, -2], [10, 5], [3, -2]]
    assert [c["sum"].item() for c in found] == [5, 5, 0]


def test_numbers_are_points_and_directions():
    assert [c.item() for c in taylor(lambda x: x**3, 3)(2.0)] == [8, 12, 6, 1]
    assert [c.item() for c in taylor(lambda x: x**2, 2)(3.0, 2.0)] == [9, 12, 4]


def test_coefficients_can_be_differentiated():
    w = sg.tensor([0.5, 0.2], dtype=sg.float64, requires_grad=True)
    x = sg.tensor([0.3, 1.2], dtype=sg.float64)
    taylor(lambda x: sg.sin(w * x).sum(), 3)(x)[3].backward()
    expected = grad(lambda w: -(w**3 * sg.cos(w * x)).sum() / 6)(w.detach())
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-12)


def test_results_have_no_history_of_their_own():
    assert not taylor(sg.sin, 2)(sg.tensor(1.0))[1].requires_grad
    assert not laplacian(lambda x: (x**3).sum())(sg.ones(2)).requires_grad


def test_python_may_branch_on_values_in_eager_code():
    series = taylor(lambda x: x**2 if x.sum() > 0 else -x, 2)
    assert [c.item() for c in series(sg.tensor(3.0))] == [9, 6, 1]
    assert [c.item() for c in series(sg.tensor(-3.0))] == [3, -1, 0]


def test_a_branch_on_values_in_a_compiled_function_is_an_error_that_says_what_to_use():
    compiled = sg.compile(taylor(lambda x: x**2 if x.sum() > 0 else -x, 2))
    with pytest.raises(TraceError, match=r"sg.cond\(pred, true_fn, false_fn\)"):
        compiled(sg.tensor(3.0))


def test_a_function_that_writes_outside_is_refused():
    seen = sg.zeros(2)

    def function(x):
        seen.add_(x.detach())
        return x * 2

    with pytest.raises(TraceError):
        taylor(function, 2)(sg.ones(2))
    assert seen.tolist() == [0, 0]


@pytest.mark.parametrize(("order", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)])
def test_bad_orders_are_refused(order, error):
    with pytest.raises(error, match="taylor: order must be"):
        taylor(sg.sin, order)


def test_a_direction_of_another_shape_is_refused():
    with pytest.raises(RuntimeError, match=r"Tensor is of size \[2\] while the given forward gradient is of size \[3\]"):
        taylor(sg.sin, 2)(sg.ones(2), sg.ones(3))


W = sg.tensor(np.random.default_rng(1).standard_normal((4, 3)))


def net(x):
    return sg.tanh(x @ W).sum()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_laplacian_is_the_trace_of_the_hessian(compiled):
    points = sg.tensor(np.random.default_rng(2).standard_normal((5, 4)))
    mapped = vmap(laplacian(net))
    found = (sg.compile(mapped) if compiled else mapped)(points)
    expected = [sg.trace(hessian(net)(x)).item() for x in points]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


def test_second_derivatives_of_a_linear_layer_are_no_work():
    fast = sg.compile(vmap(laplacian(lambda x: (sg.tanh(sg.tanh(x @ W) @ W.T) @ W).sum())), backend="numpy")
    fast(sg.tensor(np.ones((5, 4))))
    values = fast._latest.kernel("forward", ()).graph.values
    assert not [v for v in values if v.op == "tanh_backward" and v.args[0].op == "literal"]


def test_laplacian_in_another_argument_and_its_gradient():
    x = sg.tensor([1.0, 2.0], dtype=sg.float64)
    assert laplacian(lambda a, b: (a * b**3).sum(), argnum=1)(sg.tensor([2.0, 1.0], dtype=sg.float64), x).item() == 24
    assert grad(lambda x: laplacian(lambda z: (z**4).sum())(x))(x).tolist() == [24, 48]


def test_biharmonic_is_the_laplacian_of_the_laplacian():
    x = sg.tensor([1.0, 2.0, 0.5], dtype=sg.float64)
    found = laplacian(laplacian(lambda z: (z**2).sum() ** 3))(x)
    r2 = float((x**2).sum())
    assert found.item() == pytest.approx(6 * 7 * 4 * 5 * r2, rel=1e-10)  # in three dimensions, the Laplacian of rⁿ is n (n + 1) rⁿ⁻²


def test_laplacian_wants_one_tensor_at_a_position_that_exists():
    with pytest.raises(ValueError, match="laplacian: argument 0 must be one tensor, got tuple of 2"):
        laplacian(lambda x: x[0])((sg.ones(2), sg.ones(2)))
    with pytest.raises(RuntimeError, match="Got argnum=3, but only 1 positional inputs"):
        laplacian(net, argnum=3)(sg.ones(4))


def test_coefficients_agree_with_nested_forward_derivatives():
    x, v = (sg.tensor(np.random.default_rng(k).standard_normal(4)) for k in (3, 4))
    function = net
    for k, c in enumerate(taylor(net, 4)(x, v)):
        np.testing.assert_allclose(c.numpy(), function(x).numpy() / math.factorial(k), rtol=1e-9)
        function = (lambda f: lambda x: jvp(f, (x,), (v,))[1])(function)
