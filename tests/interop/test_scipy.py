"""Compiled functions and their derivatives, handed to SciPy as they are."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special

import symgrad as sg

METHODS = (
    "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP", "trust-constr", "dogleg",
    "trust-ncg", "trust-exact", "trust-krylov",
)  # fmt: skip
HESSIAN = ("Newton-CG", "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov")
PRODUCTS = ("Newton-CG", "trust-constr", "trust-ncg", "trust-krylov")
NO_GRADIENT = ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")
BACKENDS = ("xla", "numpy")


def bowl(p):
    return ((p - 2) ** 2).sum() + 0.1 * ((p[1:] * p[:-1]) ** 2).sum()


@pytest.fixture(scope="module", params=BACKENDS)
def compiled(request):
    return sg.compile(bowl, backend=request.param)


@pytest.fixture(scope="module")
def minimum():
    return scipy.optimize.minimize(lambda p: float(((p - 2) ** 2).sum() + 0.1 * ((p[1:] * p[:-1]) ** 2).sum()), np.ones(3), tol=1e-12).x


def test_the_list_of_methods_is_complete():
    assert set(scipy.optimize._minimize.MINIMIZE_METHODS) == {m.lower() for m in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_minimize(compiled, minimum, method):
    given = {} if method in NO_GRADIENT else {"jac": lambda p: compiled.grad(p, wrt="p")}
    if method in HESSIAN:
        given["hess"] = lambda p: compiled.hessian(p, wrt="p")
    found = scipy.optimize.minimize(compiled, np.ones(3), method=method, tol=1e-8, **given)
    assert found.success
    np.testing.assert_allclose(found.x, minimum, atol=2e-4)


@pytest.mark.parametrize("method", PRODUCTS)
def test_minimize_with_hessian_vector_products(compiled, minimum, method):
    given = {"jac": lambda p: compiled.grad(p, wrt="p"), "hessp": lambda p, v: compiled.hvp(p, v=v, wrt="p")}
    found = scipy.optimize.minimize(compiled, np.ones(3), method=method, tol=1e-8, **given)
    assert found.success
    np.testing.assert_allclose(found.x, minimum, atol=2e-4)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP", "TNC", "CG"])
def test_value_and_gradient_in_one_call(compiled, minimum, method):
    found = scipy.optimize.minimize(lambda p: compiled.value_and_grad(p, wrt="p"), np.ones(3), method=method, jac=True, tol=1e-8)
    np.testing.assert_allclose(found.x, minimum, atol=2e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA"])
def test_constraints(compiled, method):
    circle = sg.compile(lambda p: (p * p).sum(), backend=compiled.options.backend)
    slopes = {} if method == "COBYLA" else {"jac": lambda p: circle.grad(p, wrt="p")}
    constraint = scipy.optimize.NonlinearConstraint(circle, -np.inf, 1, **slopes)
    given = {} if method == "COBYLA" else {"jac": lambda p: compiled.grad(p, wrt="p")}
    found = scipy.optimize.minimize(compiled, np.zeros(3), method=method, constraints=constraint, **given)
    assert abs(float(circle(found.x)) - 1) < 1e-3


ROOTS = ("hybr", "lm", "broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "krylov", "df-sane")


@pytest.mark.parametrize("method", ROOTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_root(backend, method):
    f = sg.compile(lambda p: -0.2 * (p - 2) - 0.05 * sg.sin(p - 2), backend=backend)
    given = {"jac": lambda p: f.jacobian(p, wrt="p")} if method in ("hybr", "lm") else {}
    found = scipy.optimize.root(f, np.array([1.5, 2.5]), method=method, **given)
    assert found.success
    np.testing.assert_allclose(found.x, [2, 2], atol=1e-3)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_least_squares(backend, method):
    t = np.linspace(0, 2, 12)
    f = sg.compile(lambda p, t, y: p[0] * sg.exp(-p[1] * t) - y, backend=backend)
    y = 3 * np.exp(-0.7 * t)
    found = scipy.optimize.least_squares(f, np.ones(2), lambda p, t, y: f.jacobian(p, t, y, wrt="p"), method=method, args=(t, y))
    np.testing.assert_allclose(found.x, [3, 0.7], atol=1e-6)
    curve, _ = scipy.optimize.curve_fit(
        sg.compile(lambda t, a, b: a * sg.exp(-b * t), backend=backend), t, y, p0=(1.0, 1.0), method=method
    )
    np.testing.assert_allclose(curve, [3, 0.7], atol=1e-6)


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_solve_ivp(backend, method):
    f = sg.compile(lambda t, y: sg.stack([y[1], -y[0] + 0 * t]), backend=backend)
    jac = {"jac": lambda t, y: f.jacobian(t, y, wrt="y")} if method in ("Radau", "BDF", "LSODA") else {}
    found = scipy.integrate.solve_ivp(f, (0, 1), np.array([1.0, 0.0]), method=method, rtol=1e-6, atol=1e-8, **jac)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], [np.cos(1), -np.sin(1)], atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_odeint(backend):
    f = sg.compile(lambda y, t, k: sg.stack([y[1], -k * y[0] + 0 * t]), backend=backend)
    times = np.linspace(0, 1, 5)
    path = scipy.integrate.odeint(f, np.array([1.0, 0.0]), times, args=(1.0,), Dfun=lambda y, t, k: f.jacobian(y, t, k, wrt="y"))
    np.testing.assert_allclose(path[:, 0], np.cos(times), atol=1e-6)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_functions_that_make_arrays_are_named_with_ours(name):
    def program(x):
        return getattr(scipy.special, name)(x).sum()

    wanted = rf"test_scipy\.py:\d+: .*scipy\.special\.{name}\b.* use sg\.{name}\("
    for run in (sg.compile(program, backend="numpy"), sg.derive(program)):
        with pytest.raises(sg.errors.TraceError, match=wanted):
            run(np.ones(3))
    with pytest.raises(RuntimeError, match=wanted):
        sg.func.grad(program)(sg.ones(3))
    with pytest.raises(RuntimeError, match=rf"Can't call numpy\(\) .* use sg\.{name}\("):
        program(sg.ones(3, requires_grad=True))
    np.testing.assert_allclose(program(sg.ones(3)), program(np.ones(3, np.float32)))
