"""compile(f, check_assumptions=True) finds what is not as it is assumed to be, at every call and derivative."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import AssumptionError

rng = np.random.default_rng(4)
M = rng.standard_normal((4, 4))
SYMMETRIC, PLAIN, X = sg.tensor(M + M.T), sg.tensor(M), sg.tensor(rng.standard_normal(4))


def f(A, x):
    B = sg.assume(A, "symmetric")  # the line that errors name
    return (B.T @ x).tanh().sum()


HERE = f"{__file__}:{f.__code__.co_firstlineno + 1}"
NOT_SYMMETRIC = re.escape(HERE) + r": a tensor of shape \(4, 4\) is assumed to be symmetric: it differs from its transpose by 1.* times the"

CALLS = {
    "call": lambda fast, A: fast(A, X),
    "grad": lambda fast, A: fast.grad(A, X, wrt="x"),
    "grad in it": lambda fast, A: fast.grad(A, X, wrt="A"),
    "hessian": lambda fast, A: fast.hessian(A, X, wrt="x"),
    "sparse": lambda fast, A: fast.jacobian(A, X, wrt="x", sparse=True),
    "structured": lambda fast, A: fast.hessian(A, X, wrt="x", structured=True),
    "vjp": lambda fast, A: fast.vjp(A, X, wrt="x")(sg.tensor(1.0, dtype=sg.float64)),
    "jvp": lambda fast, A: fast.jvp(A, X, wrt="x")(X),
    "hvp": lambda fast, A: fast.hvp(A, X, wrt="x", v=X),
    "array": lambda fast, A: fast(A.numpy(), X.numpy()),
    "recorded": lambda fast, A: fast(A, X.clone().requires_grad_()).backward(),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_finds_a_violation_at_every_call(name):
    fast = sg.compile(f, backend="numpy", check_assumptions=True)
    with pytest.raises(AssumptionError, match=NOT_SYMMETRIC):
        CALLS[name](fast, PLAIN)  # while it is traced
    for _ in range(3):
        CALLS[name](fast, SYMMETRIC)
    for _ in range(2):
        with pytest.raises(AssumptionError, match=NOT_SYMMETRIC):
            CALLS[name](fast, PLAIN)


@pytest.mark.parametrize("name", ["call", "grad"])
def test_kernels_of_xla_are_checked(name):
    fast = sg.compile(f, check_assumptions=True)
    for _ in range(3):
        CALLS[name](fast, SYMMETRIC)
    with pytest.raises(AssumptionError, match=NOT_SYMMETRIC):
        CALLS[name](fast, PLAIN)


def test_results_are_those_without_the_check():
    fast = sg.compile(f, backend="numpy", check_assumptions=True)
    plain = sg.compile(f, backend="numpy")
    for _ in range(2):
        assert fast(SYMMETRIC, X).item() == plain(SYMMETRIC, X).item()
        np.testing.assert_array_equal(*(each.grad(SYMMETRIC, X, wrt="x").numpy() for each in (fast, plain)))


def test_nothing_is_checked_unless_that_is_asked_for():
    fast = sg.compile(f, backend="numpy")
    for _ in range(3):
        np.testing.assert_allclose(fast(PLAIN, X).numpy(), (PLAIN @ X).tanh().sum().numpy())  # as if it were symmetric
    assert fast._latest.assumptions is None
    assert f(PLAIN, X).item() == pytest.approx((PLAIN.T @ X).tanh().sum().item())  # eager code is what it says


def test_values_on_the_way_and_unused_ones_are_checked():
    def g(A, x):
        y = sg.assume(A @ x, "positive").log().sum()
        sg.assume(x, "integer")
        return y

    fast = sg.compile(g, backend="numpy", check_assumptions=True)
    one, whole = sg.eye(4, dtype=sg.float64), sg.tensor([1.0, 2.0, 3.0, 4.0], dtype=sg.float64)
    fast(one, whole)
    with pytest.raises(AssumptionError, match="is assumed to be positive: its smallest element is -4"):
        fast(-one, whole)
    with pytest.raises(AssumptionError, match=r"is assumed to be integer: an element differs from the next integer by 0\.5"):
        fast(one, whole - 0.5)


def test_captured_tensors_are_checked():
    W = SYMMETRIC.clone()
    fast = sg.compile(lambda x: sg.assume(W, "symmetric").T @ x, backend="numpy", check_assumptions=True)
    fast(X)
    W[0, 1] += 1
    with pytest.raises(AssumptionError, match="symmetric: it differs from its transpose"):
        fast(X)


def test_loops_are_checked():
    def g(A, x):
        return sg.scan(lambda c, _: (sg.assume(A, "symmetric").T @ c, c.sum()), x, None, length=2)[0]

    fast = sg.compile(g, backend="numpy", check_assumptions=True)
    fast(SYMMETRIC, X)
    with pytest.raises(AssumptionError, match="is assumed to be symmetric"):
        fast(PLAIN, X)


def test_other_paths_are_not_checked():
    def g(A, x):
        return (sg.assume(A, "symmetric") if x.sum() > 0 else A).T @ x

    fast, x = sg.compile(g, backend="numpy", check_assumptions=True), X.abs()
    fast(SYMMETRIC, x)
    np.testing.assert_allclose(fast(PLAIN, -x).numpy(), (PLAIN.T @ -x).numpy())
    np.testing.assert_allclose(fast(PLAIN, -x).numpy(), (PLAIN.T @ -x).numpy())
    with pytest.raises(AssumptionError):
        fast(PLAIN, x)


def test_a_step_that_fails_its_check_has_no_effects():
    w = sg.eye(4, dtype=sg.float64).requires_grad_()
    optimizer = sg.optim.SGD([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (sg.assume(w, "symmetric").T @ x).square().sum() + sg.assume(x, "positive").log().sum()
        loss.backward()
        optimizer.step()
        return loss

    for backend in ("numpy", "xla"):
        fast, x = sg.compile(step, backend=backend, check_assumptions=True), sg.ones(4, dtype=sg.float64)
        for _ in range(3):
            fast(x)  # w stays symmetric
        before = w.detach().clone()
        with pytest.raises(AssumptionError, match="is assumed to be positive"):
            fast(-x)
        np.testing.assert_array_equal(w.detach().numpy(), before.numpy())


def test_functions_that_run_eagerly_are_checked():
    g = lambda A, x: sg.assume(A, "symmetric").T @ x * x.sum().item()
    fast = sg.compile(g, backend="numpy", fallback="eager", check_assumptions=True)
    with pytest.warns(UserWarning, match="runs eagerly"):
        fast(SYMMETRIC, X)
    with pytest.raises(AssumptionError, match="symmetric"):
        fast(PLAIN, X)
