"""Hessians in float64 beside the closed form by hand in JAX: full, as structured matrices, and solves beside dense ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from harness import Task

import symgrad as sg
from symgrad.device_tensor import storage_of

rng = np.random.default_rng(0)
X64 = {"by hand": lambda: jax.enable_x64(True), "compressed by hand": lambda: jax.enable_x64(True)}


def on_device(*arrays):
    """Return arrays as JAX arrays, and as tensors on the device."""
    with jax.enable_x64(True):
        mine = [jnp.asarray(a) for a in arrays]
    tensors = sg.compile(lambda *ts: [t * 1 for t in ts], returns="tensor")(*arrays)
    return mine, tensors


def by_hand(function, arrays):
    with jax.enable_x64(True):
        jitted = jax.jit(function)
    return lambda: jax.block_until_ready(jitted(*arrays))


def ready(t):
    return jax.block_until_ready(storage_of(t))


def compressed(matrix):
    """Wait for the arrays of a structured matrix; return the first, for a comparison of its size only."""
    return jax.block_until_ready([storage_of(t) for t in matrix._given])


def task(title, function, hand, arrays, limit):
    theirs, ours = on_device(*arrays)
    fast = sg.compile(function)
    contenders = {"by hand": by_hand(hand, theirs), "symgrad": lambda: ready(fast.hessian(*ours, wrt=0))}
    return Task(title, contenders, unit="us", rtol=1e-9, targets={"by hand": limit}, contexts=X64)


def compressed_task(title, function, hand, arrays, limit):
    """The arrays of a structured matrix, beside the full matrix by hand."""
    theirs, ours = on_device(*arrays)
    fast, full = sg.compile(function), by_hand(hand, theirs)

    def run():
        compressed(fast.hessian(*ours, wrt=0, structured=True))
        return 0.0

    return Task(title, {"by hand": lambda: (full(), 0.0)[1], "symgrad": run}, unit="us", targets={"by hand": limit}, contexts=X64)


def quadratic(n):
    return (lambda x, A: x @ A @ x), (lambda x, A: A + A.T), (rng.standard_normal(n), rng.standard_normal((n, n)))


def logistic(n):
    def hand(w, X, y):
        s = jax.nn.sigmoid(-y * (X @ w))
        return X.T @ ((s * (1 - s))[:, None] * X)

    X, y = rng.standard_normal((2 * n, n)) / np.sqrt(n), np.sign(rng.standard_normal(2 * n))
    return (lambda w, X, y: (1 + (-y * (X @ w)).exp()).log().sum()), hand, (rng.standard_normal(n), X, y)


def factorisation(n, k=5):
    def hand(U, T, mask, V):
        weight = 2 * mask * mask
        blocks = (weight @ (V[:, :, None] * V[:, None, :]).reshape(n, k * k)).reshape(n, k, k)
        i = jnp.arange(n)
        return jnp.zeros((n, k, n, k)).at[i, :, i, :].set(blocks)

    mask = (rng.random((n, n)) < 0.5).astype(float)
    arrays = rng.standard_normal((n, k)), rng.standard_normal((n, n)), mask, rng.standard_normal((n, k))
    return (lambda U, T, mask, V: (mask * (T - U @ V.T)).square().sum()), hand, arrays


def net(n, layers=10):
    """log Σ exp(W₁₀ relu(... relu(W₁ x))): its Hessian in W₁ is a matrix times x x'."""

    def function(W, x, *rest):
        h = W @ x
        for each in rest:
            h = each @ h.relu()
        return sg.logsumexp(h, 0)

    def hand(W, x, *rest):
        h, J = W @ x, jnp.eye(n)
        for each in rest:
            J = (each * (h > 0)) @ J
            h = each @ jax.nn.relu(h)
        p = jax.nn.softmax(h)
        Jp = J.T @ p
        core = J.T @ (p[:, None] * J) - jnp.outer(Jp, Jp)
        return core[:, None, :, None] * (x[:, None] * x)[None, :, None, :]

    weights = [rng.standard_normal((n, n)) * np.sqrt(2 / n) for _ in range(layers)]
    return function, hand, (weights[0], rng.standard_normal(n), *weights[1:])


def dense_hessians():
    for n in (400, 1000):
        yield task(f"x'Ax, n = {n}", *quadratic(n), 1.1)
    for n in (300, 1000):
        yield task(f"logistic regression, n = {n}", *logistic(n), 1.1)
    for n in (100, 200):
        yield task(f"factorisation, n = {n}", *factorisation(n), 1.15)
    for n in (20, 40):
        yield task(f"net, n = {n}", *net(n), 1.1)


def structured_hessians():
    for n in (100, 200):
        yield compressed_task(f"factorisation, n = {n}, compressed", *factorisation(n), 0.3)
    for n, limit in ((20, 0.4), (40, 0.1)):
        yield compressed_task(f"net, n = {n}, compressed", *net(n), limit)


def positive(n):
    a = rng.standard_normal((n, n))
    return a @ a.T + np.eye(n)


def solves():
    """Solving with new numbers in the structure, factorisation included, beside a dense solve."""
    U, d = rng.standard_normal((2000, 20)), rng.uniform(1, 2, 2000)
    V = rng.standard_normal((200, 5))
    weight = rng.uniform(1, 2, (200, 200))
    cases = {
        "blocks(200, 5x5)": ((lambda U, w, V: (w * (U @ V.T - 1).square()).sum()), (rng.standard_normal((200, 5)), weight, V)),
        "diagonal + rank 20": ((lambda x, d, U: (d * x * x).sum() + (x @ U).square().sum()), (rng.standard_normal(2000), d, U)),
        "Kronecker(40x40, 40x40)": (
            (lambda X, A, B: 0.5 * (X * (A @ X @ B)).sum()), (rng.standard_normal((40, 40)), positive(40), positive(40)),
        ),
    }  # fmt: skip
    for title, (function, arrays) in cases.items():
        fast = sg.compile(function)
        H = fast.hessian(*arrays, wrt=0, structured=True)
        full, g = np.asarray(H), rng.standard_normal(arrays[0].shape)

        def solve(H=H, g=g):
            H.__dict__.pop("_solver", None)
            return H.solve(g)

        dense = lambda full=full, g=g: np.linalg.solve(full, g.ravel()).reshape(g.shape)
        yield Task(f"solve, {title}", {"dense": dense, "symgrad": solve}, unit="us", rtol=1e-7, targets={"dense": 0.01})


def tasks():
    yield from dense_hessians()
    yield from structured_hessians()
    yield from solves()
