"""Solvers of SciPy, and Newton's method, with sparse derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import NonlinearConstraint
from scipy.sparse import issparse

import symgrad as sg
from symgrad.optimize import least_squares, minimize, root


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bratu(u):
    side = round(u.numel() ** 0.5)
    p = sg.nn.functional.pad(u.reshape(side, side), (1, 1, 1, 1))
    laplacian = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * p[1:-1, 1:-1]
    return (laplacian * (side + 1) ** 2 + 2 * sg.exp(p[1:-1, 1:-1])).reshape(-1)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_newton_finds_a_root_of_many_equations(backend):
    seen = []
    found = root(bratu, np.zeros(900), method="newton", backend=backend, callback=lambda x, fx: seen.append(np.abs(fx).max()))
    assert found.success
    assert found.nit == len(seen) <= 6
    assert np.abs(bratu(sg.tensor(found.x)).numpy()).max() < 1e-6
    np.testing.assert_allclose(found.vector, root(bratu, np.zeros(900), method="krylov").x, rtol=1e-4, atol=1e-6)


def test_newton_shortens_steps():
    found = root(lambda x: sg.atan(x), np.full(3, 5.0), method="newton")  # whole steps diverge from there
    assert found.success
    assert found.nfev > found.nit + 1
    np.testing.assert_allclose(found.x, 0, atol=1e-8)


def test_newton_says_why_it_stops():
    assert "singular" in root(lambda x: x[[0, 0]] ** 2 + 1, np.ones(2), method="newton").message
    found = root(lambda x: x**2 + 1, np.ones(2) * 0.9, method="newton", options={"maxiter": 3})
    assert not found.success
    assert "3 steps" in found.message or "no step" in found.message
    with pytest.raises(ValueError, match="'maxiter', 'ftol', got 'steps'"):
        root(lambda x: x, np.ones(2), method="newton", options={"steps": 3})


def test_trust_constr_with_a_sparse_hessian_and_sparse_constraints():
    x0, limit = np.full(200, 0.8), NonlinearConstraint(lambda x: x[1:] * x[:-1], -np.inf, 0.9)
    options = {"maxiter": 400, "gtol": 1e-6}
    found = minimize(rosenbrock, x0, method="trust-constr", constraints=[limit], options=options, sparse=True)
    assert (found.x[1:] * found.x[:-1]).max() < 0.9 + 1e-6
    free = minimize(rosenbrock, x0, method="trust-constr", options=options, sparse=True)
    np.testing.assert_allclose(free.x, 1, rtol=1e-3)
    with pytest.raises(ValueError, match="only method='trust-constr'"):
        minimize(rosenbrock, x0, method="BFGS", sparse=True)


def test_least_squares_with_a_sparse_jacobian():
    found = least_squares(lambda x: sg.cat([10 * (x[1:] - x[:-1] ** 2), 1 - x]), np.full(60, 0.7), sparse=True)
    assert issparse(found.jac)
    np.testing.assert_allclose(found.x, 1, rtol=1e-6)


def test_solve_ivp_takes_jacobian_and_pattern():
    def heat(u):
        p = sg.nn.functional.pad(u, (1, 1))
        return (p[2:] - 2 * u + p[:-2]) * 1e3 - u**3

    fast = sg.compile(heat)
    u0 = np.sin(np.linspace(0, np.pi, 50))
    pattern = fast.sparsity(u0, wrt="u")
    def solved(**options):
        points = []
        run = solve_ivp(lambda t, u: points.append(t) or fast(u), (0, 0.1), u0, method="BDF", rtol=1e-6, atol=1e-9, **options)
        assert run.success
        return run.y[:, -1], len(points)

    wanted, most = solved()
    found, fewest = solved(jac=lambda t, u: fast.jacobian(u, wrt="u", sparse=True))
    by_pattern, some = solved(jac_sparsity=pattern.to_scipy())
    assert fewest < some < most - 30  # differences take a call for each of 50 unknowns, or for each group of columns
    for end in (found, by_pattern):
        np.testing.assert_allclose(end, wanted, rtol=1e-4, atol=1e-7)
