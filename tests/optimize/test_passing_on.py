"""What is passed on to SciPy, and in which form it gets and gives things."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import scipy.optimize as so

import symgrad as sg
from symgrad.optimize import minimization, objective
from symgrad.optimize.packing import Packing

minimize, root, least_squares = (
    functools.partial(f, backend="numpy") for f in (sg.optimize.minimize, sg.optimize.root, sg.optimize.least_squares)
)


def bowl(x):
    return ((x - 3) ** 4).sum()


def test_tolerances_and_options_reach_the_method():
    loose, tight = (minimize(bowl, np.zeros(2), "BFGS", tol=tol).nit for tol in (1.0, 1e-10))
    assert loose < tight
    assert minimize(bowl, np.zeros(2), "BFGS", options={"maxiter": 2}).nit == 2
    loose, tight = (root(lambda x: x**3 - 2, np.ones(1), tol=tol).nfev for tol in (1e-1, 1e-12))
    assert loose < tight
    assert not root(lambda x: x**3 - 2, np.ones(1), options={"maxfev": 2}).success
    assert least_squares(lambda x: (x - 3) ** 3, np.zeros(2), max_nfev=2).nfev == 2


def test_a_root_tells_its_callback_x_in_its_form_and_the_residual():
    seen = []
    root(lambda p: {"u": p["u"] ** 2 - 4}, {"u": 3.0}, "krylov", callback=lambda x, residual: seen.append((x, residual)))
    assert seen
    for x, residual in seen:
        assert residual == pytest.approx([x["u"] ** 2 - 4])


def test_gradients_of_least_squares_have_the_form_of_x0():
    """By hand: the gradient of half the sum of squares of 2a and b - 1."""
    found = least_squares(lambda p: [2 * p["a"], p["b"] - 1], {"a": 1.0, "b": sg.zeros(1, dtype=sg.float64)}, max_nfev=1)
    assert found.x["a"] == 1.0
    assert found.grad["a"] == pytest.approx(4)
    assert found.grad["b"].tolist() == pytest.approx([-1])
    assert found.vector.tolist() == [1, 0]


@pytest.mark.parametrize(("size", "given"), [(100, "hess"), (101, "hessp")])
def test_large_problems_get_products_with_the_hessian(size, given):
    class Kernels:
        sparse = False
        hessian, hessian_times = "hess", "hessp"

    assert minimization._second("trust-constr", Kernels, size) == {given: given}
    for method in ("newton-cg", "trust-ncg", "trust-krylov"):
        assert minimization._second(method, Kernels, 2) == {"hessp": "hessp"}
    for method in ("dogleg", "trust-exact"):
        assert minimization._second(method, Kernels, size) == {"hess": "hess"}
    assert minimization._second("bfgs", Kernels, size) == {}


@pytest.mark.parametrize("keep", [True, False])
def test_constraints_keep_what_they_were_told(keep):
    from symgrad.optimize.constraints import compiled_constraints

    given = so.NonlinearConstraint(lambda x: x.sum(), -1.0, 2.0, keep_feasible=keep)
    (made,) = compiled_constraints(given, Packing(np.zeros(2)), "numpy", False)
    assert (made.lb, made.ub, made.keep_feasible) == (-1.0, 2.0, keep)
    np.testing.assert_array_equal(made.fun(np.array([1.0, 2.0])), [3.0])
    np.testing.assert_array_equal(made.jac(np.array([1.0, 2.0])), [[1.0, 1.0]])
    with pytest.raises(TypeError, match="the fun of a constraint must be a function of tensors, got int 3"):
        compiled_constraints({"type": "eq", "fun": 3}, Packing(np.zeros(2)), "numpy", False)


def test_the_hessian_of_a_constraint_is_of_the_multipliers_given():
    from symgrad.optimize.constraints import Weighted

    weighted = Weighted(lambda x: [x[0] ** 2, x[0] * x[1]], Packing(np.zeros(2)), "numpy")
    at = np.array([1.0, 2.0])
    for v in ([1.0, 0.0], [0.0, 3.0], [2.0, 1.0]):
        np.testing.assert_array_equal(weighted.hessian(at, np.array(v)), [[2 * v[0], v[1]], [v[1], 0]])


def test_names_of_numbers_in_containers():
    packing = Packing({"a": np.zeros((2, 3)), "b": 1.0, "c": [sg.zeros(2), 2]})
    names = [packing.name_of(i) for i in range(packing.size)]
    matrix = [f"x0.a[{i}, {j}]" for i in range(2) for j in range(3)]
    assert names == [*matrix, "x0.b", "x0.c.0[0]", "x0.c.0[1]", "x0.c.1"]
    wrong = np.zeros(packing.size, bool)
    wrong[[7, 8]] = True
    assert packing.first(wrong) == "x0.c.0[0]"


def test_values_that_are_given_out_are_copies():
    """SciPy writes to what it gets."""
    kernels = objective.Kernels(lambda x: (x * x).sum(), Packing(np.zeros(2)), (), "numpy", objective.scalar("f"))
    at = np.array([1.0, 2.0])
    for ask in (lambda: kernels.value(at), lambda: kernels.value_and_grad(at)[1], lambda: kernels.hessian(at)):
        expected = ask().copy()
        ask()[...] = 9.0
        np.testing.assert_array_equal(ask(), expected)
    moved = at.copy()
    kernels.value_and_grad(moved)
    moved[0] = 5.0
    assert kernels.value(moved) == 29.0
    assert kernels.value_and_grad(moved)[1].tolist() == [10, 4]
    np.testing.assert_array_equal(kernels.hessian_times(at, np.array([1.0, 3.0])), [2.0, 6.0])


def test_bounds_of_each_number():
    packing = Packing({"a": np.zeros(2), "b": 1.0})
    pairs = packing.pairs({"a": (np.array([1.0, 2.0]), None), "b": None})
    assert pairs == [(1, np.inf), (2, np.inf), (-np.inf, np.inf)]
    plain = Packing(np.zeros(3))
    assert plain.bounds(None) is None
    assert plain.bounds((None, 2.0)) == [(-np.inf, 2.0)] * 3
    assert plain.bounds(((0, 1), (0, 2), (0, 3))) == ((0, 1), (0, 2), (0, 3))
    both = ([0, 0, 0], [1, 2, 3])
    assert plain.bounds(both) is both


@pytest.mark.parametrize(
    ("given", "kind", "shown"),
    [(2, float, 1.5), (np.float32(2), np.ndarray, 1.5), (True, float, 1.5), (np.array([2], np.float32), np.ndarray, [1.5])],
)
def test_numbers_come_back_as_numbers_and_arrays_in_their_type(given, kind, shown):
    packing = Packing({"x": given})
    made = packing.form(np.array([1.5]))["x"]
    assert isinstance(made, kind)
    assert np.asarray(made).tolist() == shown
    if kind is np.ndarray:
        assert made.dtype == np.float32
    assert packing.start.tolist() == [float(np.asarray(given).reshape(()) if np.ndim(given) == 0 else given[0])]


def module_level(x):
    return (x * x).sum()


def test_programs_do_not_travel_with_copies_of_a_function():
    minimize(module_level, np.ones(2))
    kept = vars(module_level)[objective._KEPT]
    assert len(kept) == 1
    assert pickle.loads(pickle.dumps(kept)) == {}
    minimize(module_level, np.ones(2))
    assert vars(module_level)[objective._KEPT] is kept
    assert len(kept) == 1
    sg.optimize.minimize(module_level, np.ones(2), "Nelder-Mead", options={"maxiter": 1}, backend="xla")
    assert len(kept) == 2  # another back end has a program of its own


def test_the_backend_is_that_of_the_programs():
    for backend in ("numpy", "xla"):
        kernels = objective.Kernels(module_level, Packing(np.ones(3)), (), backend, objective.scalar("f"))
        assert kernels.compiled.options.backend == backend
