"""fast.taylor: coefficients of compiled functions in one kernel, in every form of arguments and results."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.runtime.derivative_graphs import taylor_name, taylor_order

X, V = sg.tensor([0.5, 2.0], dtype=sg.float64), sg.tensor([1.0, -0.5], dtype=sg.float64)


def wave(x):
    return sg.sin(x) * x


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("v", [None, V], ids=["along ones", "along v"])
def test_coefficients_are_those_of_func_taylor(backend, v):
    found = sg.compile(wave, backend=backend).taylor(X, v=v, order=5)
    expected = sg.func.taylor(wave, 5)(X, v)
    assert len(found) == 6
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-11, atol=1e-13)
        assert not ours.requires_grad


def test_results_keep_their_form_and_wrt_selects_the_arguments():
    fast = sg.compile(lambda x, w: {"product": x * w**2, "sum": x.sum()})
    found = fast.taylor(X, V, order=2, wrt="w", v=X)
    assert [c["product"].tolist() for c in found] == [(X * V**2).tolist(), (X * 2 * V * X).tolist(), (X * X**2).tolist()]
    assert [c["sum"].item() for c in found] == [2.5, 0, 0]
    both = fast.taylor(X, V, order=1, wrt=("x", "w"), v=(V, X))[1]["product"]
    np.testing.assert_allclose(both.numpy(), (V * V**2 + X * 2 * V * X).numpy())


def test_arrays_give_arrays_and_numbers_are_points():
    fast = sg.compile(lambda x: x**3)
    assert [type(c) for c in fast.taylor(np.array([1.0, 2.0]), order=1)] == [np.ndarray] * 2
    assert [float(c) for c in fast.taylor(2.0, order=3, wrt="x")] == [8, 12, 6, 1]


def test_a_function_of_the_eager_fallback_has_the_same_coefficients():
    @sg.compile(fallback="eager")
    def branching(x):
        return x**3 if float(x.sum()) > 0 else x

    with pytest.warns(UserWarning, match="computed eagerly"):
        found = branching.taylor(X, v=V, order=4)
    for ours, theirs in zip(found, sg.func.taylor(lambda x: x**3, 4)(X, V), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)


def test_inside_of_another_compiled_function_it_is_inlined():
    fast = sg.compile(wave)
    found = sg.compile(lambda x: fast.taylor(x, order=3)[3] * 6)(X)
    np.testing.assert_allclose(found.numpy(), -X * np.cos(X) - 3 * np.sin(X), rtol=1e-11)


def test_order_eight_is_quick_and_keeps_few_arrays():
    fast = sg.compile(lambda x: 1 / (1 + x * x), backend="numpy")
    found = fast.taylor(sg.tensor([0.0, 1.0], dtype=sg.float64), order=8)
    np.testing.assert_allclose(found[8].numpy(), [1, 1 / 32], rtol=1e-12)
    assert len(fast._latest.kernel(taylor_name(8, True), (0,)).graph.values) < 80


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), (2.0, TypeError), (None, TypeError)])
def test_bad_orders_are_refused(given, error):
    with pytest.raises(error, match="taylor: order must be"):
        sg.compile(wave).taylor(X, order=given)


def test_a_direction_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="v of x must be"):
        sg.compile(wave).taylor(X, v=sg.ones(3), order=2)


def test_names_of_series_are_read_back():
    assert [taylor_order(taylor_name(k, ones)) for k in (1, 12) for ones in (True, False)] == [1, 1, 12, 12]
    assert [taylor_order(name) for name in ("grad", "taylor", "taylor x", "8")] == [None] * 4
