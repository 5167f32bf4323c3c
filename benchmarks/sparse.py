"""Sparse Hessians and Jacobians of Rosenbrock's function and Bratu's equation, against closed forms by hand in JAX.

By hand means: a jitted function computes the diagonals from the formula, joins them, and brings them into the order of CSR by one index
vector; constants stand in a template that is made once. Both return matrices of SciPy that own their memory; "values" is what the kernels
compute, on the device, in an order that each may choose.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import Task

import symgrad as sg


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosenbrock_by_hand(n):
    """The Hessian in CSR: diagonals below, on and above the main one."""
    i = np.arange(n)
    rows, cols = np.concatenate([i[1:], i, i[:-1]]), np.concatenate([i[:-1], i, i[1:]])
    order = np.lexsort((cols, rows))
    indices, indptr = cols[order].astype(np.int32), np.searchsorted(rows[order], np.arange(n + 1)).astype(np.int32)

    @jax.jit
    def values(x, order):
        beside = -400 * x[:-1]
        diagonal = jnp.zeros_like(x).at[:-1].set(1200 * x[:-1] ** 2 - 400 * x[1:] + 2).at[1:].add(200)
        return jnp.concatenate([beside, diagonal, beside])[order]

    return _csr(values, order, indices, indptr, n)


def bratu(side):
    def residual(u):
        grid = u.reshape(side, side)
        p = sg.nn.functional.pad(grid, (1, 1, 1, 1))
        laplacian = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * grid
        return (laplacian + 0.1 * sg.exp(grid)).reshape(-1)

    return residual


def bratu_by_hand(side):
    """The Jacobian in CSR: only the main diagonal depends on u."""
    n = side * side
    line = sp.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    pattern = (sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line) + sp.diags_array(np.full(n, 7.0))).tocsr()
    pattern.sort_indices()
    diagonal = np.flatnonzero(pattern.data == 7)
    template = jnp.asarray(np.where(pattern.data == 7, 0.0, 1.0))

    @jax.jit
    def values(u, diagonal):
        return template.at[diagonal].set(0.1 * jnp.exp(u) - 4, unique_indices=True, indices_are_sorted=True)

    return _csr(values, diagonal, pattern.indices, pattern.indptr, n)


def _csr(values, places, indices, indptr, n):
    places = jax.device_put(places)

    def matrix(x):
        return sp.csr_array((np.array(values(x, places)), indices.copy(), indptr.copy()), shape=(n, n))

    matrix.values = lambda x: values(x, places)
    return matrix


def tasks():
    jax.config.update("jax_enable_x64", True)
    found = []
    cases = [(f"Rosenbrock {n:,}", rosenbrock, rosenbrock_by_hand(n), n, "hessian", 1.3) for n in (10**4, 10**5)]
    cases += [(f"Bratu {side}²", bratu(side), bratu_by_hand(side), side**2, "jacobian", 1.1) for side in (100, 316)]
    for title, function, by_hand, n, what, target in cases:
        x = np.random.default_rng(0).uniform(0.5, 1.5, n)
        derivative = getattr(sg.compile(function), what)
        for form, wanted in (("coo", 0.4 if what == "hessian" else None), ("csr", target)):
            contenders = {"symgrad": _matrix(derivative, x, form), "JAX by hand": lambda by_hand=by_hand, x=x: by_hand(x)}
            targets = {} if wanted is None else {"JAX by hand": wanted}
            found.append(Task(f"{title}, {form.upper()}", contenders, targets=targets, rtol=1e-12))
        found.append(_values(title, derivative, by_hand, x, 0.4 if what == "hessian" else None))
    return found


def _values(title, derivative, by_hand, x, target):
    """Values alone: those of a BCOO on the device."""
    on_device = jax.device_put(x)
    tensor = sg.tensor(x)

    contenders = {
        "symgrad": lambda: _InAnyOrder(derivative(tensor, wrt=0, sparse="bcoo").data.block_until_ready()),
        "JAX by hand": lambda: _InAnyOrder(by_hand.values(on_device).block_until_ready()),
    }
    return Task(f"{title}, values", contenders, targets={} if target is None else {"JAX by hand": target}, rtol=1e-12)


class _InAnyOrder:
    """Values that are compared as sets."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.sort(np.asarray(self.values))


def _matrix(derivative, x, form):
    return lambda: derivative(x, wrt=0, sparse=form)


def pattern_seconds(n):
    """The time in which the pattern of Rosenbrock's Hessian is found, from the function on."""
    times = []
    for _ in range(3):
        fast = sg.compile(rosenbrock)
        start = time.perf_counter()
        fast.sparsity(np.ones(n), wrt=0)
        times.append(time.perf_counter() - start)
    return min(times)
