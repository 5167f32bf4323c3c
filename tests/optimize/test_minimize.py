"""sg.optimize.minimize: SciPy's methods with derivatives that are compiled from the function. Most tests use kernels on NumPy, which are
compiled sooner."""

from __future__ import annotations

import functools
import typing

import numpy as np
import pytest
import scipy.optimize as so

import symgrad as sg

START = np.array([-1.2, 1.0, 0.5])


minimize = functools.partial(sg.optimize.minimize, backend="numpy")


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


GRADIENT = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP"]
HESSIAN = ["Newton-CG", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"]


OPTIONS = {"TNC": {"maxfun": 1000}}  # 100 are too few for it


def scipys(method):
    """SciPy alone, with its own exact derivatives of this function."""
    second = {"hess": so.rosen_hess} if method in HESSIAN else {}
    return so.minimize(so.rosen, START, method=method, jac=so.rosen_der, options=OPTIONS.get(method), **second)


@pytest.mark.parametrize("backend", ["numpy", pytest.param("xla", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", [None, *GRADIENT, *HESSIAN])
def test_rosenbrock_with_every_method_that_has_derivatives(method, backend):
    expected = scipys(method)
    found = sg.optimize.minimize(rosenbrock, START, method, options=OPTIONS.get(method), backend=backend)
    assert expected.success
    assert found.success, found.message
    np.testing.assert_allclose(found.x, 1, atol=1e-3)
    assert found.fun == pytest.approx(0, abs=1e-6)
    assert found.nfev <= 1.05 * expected.nfev + 2  # roundings differ, and some methods go their ways by them
    assert isinstance(found.x, np.ndarray)
    np.testing.assert_allclose(found.grad, so.rosen_der(found.x), atol=1e-8)


@pytest.mark.parametrize("method", ["Nelder-Mead", "COBYLA", *(pytest.param(m, marks=pytest.mark.slow) for m in ("Powell", "COBYQA"))])
def test_methods_without_derivatives(method):
    found = minimize(lambda x: (x - 1).abs().sum(), sg.zeros(2), method)
    np.testing.assert_allclose(found.x.numpy(), 1, atol=1e-2)
    assert found.grad is None


def test_a_gradient_from_differences_costs_more():
    found = minimize(rosenbrock, START, "BFGS")
    assert found.nfev < so.minimize(so.rosen, START, method="BFGS").nfev / 2


class Layer(typing.NamedTuple):
    w: typing.Any
    b: typing.Any


def trees():
    rng = np.random.default_rng(0)
    x = sg.tensor(rng.standard_normal((50, 3)))
    y = (x @ sg.tensor([1.0, -2.0, 0.5], dtype=sg.float64) + 0.7).tanh()
    start = {"layers": [Layer(sg.zeros(3, dtype=sg.float64, requires_grad=True), 0.0)], "scale": sg.ones((), dtype=sg.float64)}
    return x, y, start


def misfit(p, x, y):
    (layer,) = p["layers"]
    return ((x @ layer.w + layer.b).tanh() * p["scale"] - y).square().mean()


@pytest.mark.parametrize("method", ["BFGS", "trust-ncg"])
def test_parameters_in_containers(method):
    x, y, start = trees()
    found = minimize(misfit, start, method, args=(x, y), options={"gtol": 1e-9})
    (layer,) = found.x["layers"]
    assert isinstance(layer, Layer)
    assert isinstance(layer.b, float)
    assert isinstance(layer.w, sg.Tensor)
    assert not layer.w.requires_grad
    np.testing.assert_allclose(layer.w.numpy(), [1, -2, 0.5], atol=1e-5)
    assert layer.b == pytest.approx(0.7, abs=1e-5)
    assert found.x["scale"].item() == pytest.approx(1, abs=1e-5)
    assert found.grad["layers"][0].w.abs().max() < 1e-8
    assert start["layers"][0].w.tolist() == [0, 0, 0]

    def alone(v):
        return float(np.mean((np.tanh(x.numpy() @ v[:3] + v[3]) * v[4] - y.numpy()) ** 2))

    expected = so.minimize(alone, [0, 0, 0, 0, 1.0], options={"gtol": 1e-9})
    np.testing.assert_allclose(found.vector, expected.x, atol=1e-3)
    assert found.nfev < expected.nfev


def test_bounds_in_the_form_of_x0_and_scipys():
    x, y, start = trees()
    bounds = {"layers": [Layer((-1.0, 1.0), (None, 0.5))], "scale": None}
    found = minimize(misfit, start, "L-BFGS-B", args=(x, y), bounds=bounds)
    (layer,) = found.x["layers"]
    assert layer.w.numpy()[1] == -1
    assert layer.b <= 0.5
    for bounds in ([(0, 0.5)] * 3, so.Bounds(0, 0.5)):
        assert minimize(rosenbrock, START.clip(0, 0.5), bounds=bounds).x.max() <= 0.5
    for wrong in ({"layers": [Layer((0, 1), None)]}, {"layers": [Layer(5, None)], "scale": None}):
        with pytest.raises(ValueError, match=r"the form of x0, with None or \(lower, upper\) for each of x0.layers.0.w"):
            minimize(misfit, start, args=(x, y), bounds=wrong)
    with pytest.raises(ValueError, match=r"the bounds of x0.layers.0.w must broadcast to its shape \(3,\)"):
        minimize(misfit, start, args=(x, y), bounds={"layers": [Layer((np.zeros(2), None), None)], "scale": None})


def disc(x):
    return x[0] ** 2 + x[1] ** 2


def target(x):
    return (x[0] - 2) ** 2 + (x[1] - 1) ** 2


NONLINEAR = so.NonlinearConstraint(disc, -np.inf, 1)
CONSTRAINED = {
    "SLSQP": {"type": "ineq", "fun": lambda x: 1 - disc(x)},
    "trust-constr": NONLINEAR,
    "COBYLA": {"type": "ineq", "fun": lambda x: 1 - disc(x)},
    "SLSQP of two": [NONLINEAR, so.LinearConstraint([1, 1], -5, 5)],
}


@pytest.mark.parametrize("name", CONSTRAINED)
def test_constraints_with_compiled_jacobians(name):
    found = minimize(target, np.zeros(2), name.partition(" ")[0], constraints=CONSTRAINED[name], tol=1e-8)
    np.testing.assert_allclose(found.x, np.array([2, 1]) / np.sqrt(5), atol=1e-3)


def test_constraints_cost_no_more_than_with_derivatives_by_hand():
    ours = minimize(target, np.zeros(2), "SLSQP", constraints={"type": "eq", "fun": lambda x, r: disc(x) - r, "args": (1.0,)})
    by_hand = so.minimize(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, np.zeros(2), method="SLSQP", jac=lambda x: np.array([2 * (x[0] - 2), 2 * (x[1] - 1)]),
        constraints={"type": "eq", "fun": lambda x: x @ x - 1, "jac": lambda x: 2 * x},
    )  # fmt: skip
    np.testing.assert_allclose(ours.x, by_hand.x, atol=1e-5)
    assert (ours.nfev, ours.njev) == (by_hand.nfev, by_hand.njev)


def test_the_hessian_of_a_constraint_is_weighted():
    """trust-constr asks for v·c''(x); a wrong one would not converge so fast."""
    two = so.NonlinearConstraint(lambda x: [disc(x), x[0] * x[1]], [-np.inf, 0.2], [1, np.inf])
    ours = minimize(target, np.full(2, 0.5), "trust-constr", constraints=two)
    np.testing.assert_allclose(ours.x, np.array([2, 1]) / np.sqrt(5), atol=1e-3)
    by_hand = so.NonlinearConstraint(
        lambda x: np.array([x @ x, x[0] * x[1]]), [-np.inf, 0.2], [1, np.inf], jac=lambda x: np.array([2 * x, x[::-1]]),
        hess=lambda x, v: v[0] * 2 * np.eye(2) + v[1] * (1 - np.eye(2)),
    )  # fmt: skip
    expected = so.minimize(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, np.full(2, 0.5), method="trust-constr", constraints=by_hand,
        jac=lambda x: np.array([2 * (x[0] - 2), 2 * (x[1] - 1)]), hess=lambda x: 2 * np.eye(2),
    )  # fmt: skip
    assert ours.nit == expected.nit


@pytest.mark.parametrize("method", ["BFGS", "trust-constr", "TNC", "Nelder-Mead"])
def test_callbacks_get_x_in_its_form(method):
    seen = []

    def look(x):
        seen.append(x["a"])
        if len(seen) == 2:
            raise StopIteration

    start = {"a": sg.tensor([3.0, 4.0], dtype=sg.float64)}
    if method == "TNC":  # the one whose callback SciPy does not let stop
        minimize(lambda p: (p["a"] ** 4).sum(), start, method, callback=lambda x: seen.append(x["a"]))
    else:
        minimize(lambda p: (p["a"] ** 4).sum(), start, method, callback=look)
        assert len(seen) == 2
    assert all(isinstance(a, sg.Tensor) for a in seen)


def test_a_callback_may_ask_for_the_intermediate_result():
    values = []
    minimize(rosenbrock, START, callback=lambda intermediate_result: values.append(intermediate_result.fun))
    assert values[-1] < 1e-8 < values[0]


FORMS = [2.0, [2.0, 3.0], (2, 3), np.array([2, 3]), sg.tensor([2.0, 3.0]), sg.tensor([[2.0], [3.0]], dtype=sg.float64)]


@pytest.mark.parametrize("x0", FORMS)
def test_forms_and_types_of_x0(x0):
    seen = []

    def f(x):
        seen.append(x)
        return ((x - 1) ** 2).sum()

    found = minimize(f, x0)
    assert found.success
    np.testing.assert_allclose(np.asarray(found.x), 1, atol=1e-3)
    wanted = x0 if isinstance(x0, sg.Tensor) else sg.tensor(np.asarray(x0, "float64"))
    assert {(tuple(x.shape), x.dtype) for x in seen} == {(tuple(wanted.shape), wanted.dtype)}
    assert isinstance(found.x, float if isinstance(x0, float) else sg.Tensor if isinstance(x0, sg.Tensor) else np.ndarray)
    assert isinstance(found.fun, float)


def test_functions_are_compiled_once_and_arguments_are_inputs():
    seen = []

    def f(x, shift):
        seen.append(shift)
        return ((x - shift) ** 2).sum()

    found = minimize(f, sg.zeros(3, dtype=sg.float64), args=(sg.ones(3, dtype=sg.float64),))
    assert found.nfev > 1
    assert len(seen) == 1
    compiled = minimize(sg.compile(f), sg.zeros(3, dtype=sg.float64), args=(sg.ones(3, dtype=sg.float64),))
    assert compiled.x.tolist() == found.x.tolist()


def test_each_point_is_computed_once(monkeypatch):
    points = []
    original = sg.optimize.objective.Kernels._found

    def counted(self, what, x, find):
        return original(self, what, x, lambda v: (points.append((what, tuple(x))), find(v))[1])

    monkeypatch.setattr(sg.optimize.objective.Kernels, "_found", counted)
    found = minimize(rosenbrock, START, "BFGS")
    assert len(points) == len(set(points)) == found.nfev


def test_branches_on_values_are_followed():
    """Each path is a program; the minimum is on the one that is not the first."""

    def joined(x):
        return (x * x).sum() if x.sum() > 1 else ((x**4).sum() + 1) / 2

    found = minimize(joined, np.array([3.0]), "BFGS")
    assert found.x[0] == pytest.approx(0, abs=0.05)
    assert found.fun == pytest.approx(0.5, abs=1e-4)


def test_modules_are_trained_by_functional_call():
    sg.manual_seed(0)
    net = sg.nn.Sequential(sg.nn.Linear(2, 4), sg.nn.Tanh(), sg.nn.Linear(4, 1)).double()
    x = sg.randn(30, 2, dtype=sg.float64)
    y = x[:, :1] * x[:, 1:]
    before = {k: p.detach().clone() for k, p in net.named_parameters()}
    found = minimize(
        lambda params: sg.nn.functional.mse_loss(sg.func.functional_call(net, params, (x,)), y), dict(net.named_parameters()), "L-BFGS-B",
        options={"maxiter": 60},
    )  # fmt: skip
    assert found.fun < 0.05
    assert all((p == before[k]).all() for k, p in net.named_parameters())


def test_the_usual_back_end():
    assert sg.optimize.minimize(rosenbrock, START).x == pytest.approx([1, 1, 1], abs=1e-4)


def test_refusals():
    with pytest.raises(ValueError, match=r"test_minimize.py:\d+: square must return one number.*sum or average"):
        minimize(sg.square, sg.ones(3))
    with pytest.raises(TypeError, match="must return a tensor with one number, got"):
        minimize(lambda x: 3.0, sg.ones(3))
    with pytest.raises(ValueError, match=r"x0\.a\[0, 1\] is nan"):
        minimize(lambda p: p["a"].sum(), {"b": 1.0, "a": sg.tensor([[1.0, float("nan")]])})
    with pytest.raises(ValueError, match=r"logarithm is nan at x0: start where it is finite"):
        minimize(_named("logarithm", lambda x: x.log().sum()), -np.ones(2))
    with pytest.raises(ValueError, match=r"the derivative of .* in x0\[1\] is inf at x0"):
        minimize(lambda x: x.sqrt().sum(), np.array([1.0, 0.0]))
    with pytest.raises(TypeError, match=r"x0 is .*an optimizer changes floating-point numbers; pass x0.double\(\)"):
        minimize(rosenbrock, sg.tensor([1, 2]))
    with pytest.raises(TypeError, match="x0 must be a tensor, an array, or containers of them, got"):
        minimize(rosenbrock, {})
    with pytest.raises(TypeError, match=r"a constraint is a scipy.optimize.LinearConstraint"):
        minimize(rosenbrock, START, constraints=[3])
    with pytest.raises(ValueError, match="Unknown solver"):
        minimize(rosenbrock, START, "nonsense")


def _named(name, function):
    function.__name__ = name
    return function


def test_one_pair_of_bounds_is_for_all_numbers():
    start = sg.tensor([[0.0, 0.1], [0.2, 5.0]], dtype=sg.float64)
    found = minimize(lambda x: (x - 2).square().sum(), start, "L-BFGS-B", bounds=(None, 1.5))
    assert found.x.tolist() == [[1.5, 1.5], [1.5, 1.5]]
    each = minimize(lambda x: (x - 2).square().sum(), np.zeros(2), "L-BFGS-B", bounds=((0, 1), (0, 3)))
    assert each.x.tolist() == pytest.approx([1, 2])


def test_one_more_argument_needs_no_tuple():
    assert minimize(lambda x, a: (x - a).square().sum(), np.zeros(2), "BFGS", args=2.0).x.tolist() == pytest.approx([2, 2])


def test_nothing_to_change():
    with pytest.raises(ValueError, match=r"x0 has no numbers: x0\.a \[0\], x0\.b \[2, 0\]"):
        minimize(lambda x: x["a"].sum(), {"a": sg.zeros(0), "b": sg.zeros(2, 0)})
