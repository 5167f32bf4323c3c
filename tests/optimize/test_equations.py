"""sg.optimize.root and least_squares: SciPy's solvers with compiled Jacobians."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.optimize as so

import symgrad as sg

root, least_squares = (functools.partial(f, backend="numpy") for f in (sg.optimize.root, sg.optimize.least_squares))


def system(x):
    return sg.stack((x[0] + x[1] ** 3 / 2 - 1, (x[1] - x[0]) ** 3 / 2 + x[1]))


def by_numpy(x):
    return [x[0] + 0.5 * x[1] ** 3 - 1, 0.5 * (x[1] - x[0]) ** 3 + x[1]]


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov"])
def test_root(method):
    found = root(system, np.zeros(2), method)
    assert found.success
    np.testing.assert_allclose(found.x, so.root(by_numpy, [0, 0]).x, atol=1e-5)


def test_root_with_the_jacobian_of_ours():
    ours = root(system, np.zeros(2))
    assert ours.nfev < so.root(by_numpy, [0, 0]).nfev
    assert ours.njev >= 1


def test_root_of_containers():
    found = root(lambda p, c: [p["a"] ** 2 - c, p["b"] - p["a"]], {"a": 1.0, "b": sg.ones(1, dtype=sg.float64)}, args=(np.array(4.0),))
    assert found.x["a"] == pytest.approx(2)
    assert found.x["b"].item() == pytest.approx(2)
    with pytest.raises(ValueError, match="gives 1 numbers for the 2 of x0"):
        root(lambda x: x.sum(), np.zeros(2))


def decay(p, t):
    return p["height"] * (-p["rate"] * t).exp()


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method):
    t = sg.linspace(0, 3, 30, dtype=sg.float64)
    y = decay({"height": 2.0, "rate": 1.3}, t)
    found = least_squares(lambda p, t, y: decay(p, t) - y, {"height": 1.0, "rate": 0.5}, method, args=(t, y), xtol=1e-12)
    assert found.success
    assert found.x == {"height": pytest.approx(2), "rate": pytest.approx(1.3)}
    alone = so.least_squares(lambda v: v[0] * np.exp(-v[1] * t.numpy()) - y.numpy(), [1, 0.5], method=method, xtol=1e-12)
    assert found.nfev <= alone.nfev + 1


def test_bounds_of_least_squares():
    t = sg.linspace(0, 3, 30, dtype=sg.float64)
    y = decay({"height": 2.0, "rate": 1.3}, t)
    start, residual = {"height": 1.0, "rate": 0.5}, lambda p: decay(p, t) - y
    found = least_squares(residual, start, bounds={"height": (0, 1.5), "rate": None}, loss="soft_l1")
    assert found.x["height"] == pytest.approx(1.5)
    assert least_squares(lambda x: x - 3, np.full(2, 0.5), bounds=(0, 1)).x.tolist() == pytest.approx([1, 1])


def test_equations_may_be_in_containers():
    found = root(lambda p: {"u": p["u"] ** 2 - 4, "v": (p["v"] - p["u"],)}, {"u": 3.0, "v": 1.0})
    assert found.x == {"u": pytest.approx(2), "v": pytest.approx(2)}
    assert least_squares(lambda x, a: x - a, np.zeros(2), args=3.0).x.tolist() == pytest.approx([3, 3])
    with pytest.raises(TypeError, match="containers of nothing else, got dict"):
        root(lambda x: {"u": x, "n": 1}, np.zeros(2))


def test_refusals():
    with pytest.raises(TypeError, match="must return a tensor, or containers of nothing else, got int 3"):
        least_squares(lambda x: 3, np.zeros(2))
    with pytest.raises(ValueError, match=r"x0\[1\] is nan"):
        root(system, np.array([0, np.nan]))
