"""Derivatives of compiled functions whose indices are computed from the input that they are taken in."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F = sg.nn.functional
CALLS = {
    "gather of argmax": lambda t: t.gather(1, t.argmax(1, keepdim=True)),
    "gather of argsort": lambda t: t.gather(1, t.argsort(1)),
    "gather of sort": lambda t: t.gather(1, t.sort(1)[1]) * t.sort(1)[0],
    "scatter": lambda t: sg.zeros(3, 4, dtype=t.dtype).scatter(1, t.argsort(1), t),
    "scatter_add": lambda t: (t * 2).scatter_add(1, t.argsort(1) // 2, t),
    "index_select": lambda t: t.index_select(1, t[0].argsort()),
    "take": lambda t: t.take(t.argsort(1)),
    "take_along_dim": lambda t: sg.take_along_dim(t, t.argsort(1), dim=1),
    "take_along_dim, flat": lambda t: sg.take_along_dim(t, t.argsort() % 12),
    "take_along_axis": lambda t: np.take_along_axis(t, np.argsort(t, 1), 1),
    "index_add": lambda t: (t * 3).index_add(1, t[1].argsort(), t),
    "embedding": lambda t: F.embedding(t.argmax(0), t),
    "indexing": lambda t: t[t.argmax(0), t[0].argsort()],
    "max_unpool": lambda t: F.max_unpool1d(*F.max_pool1d(t[None], 2, return_indices=True), 2),
}


def squares(f):
    return lambda t: (f(t) ** 2 * 0.5 + f(t)).sum()


def backward(f, x):
    leaf = x.clone().requires_grad_()
    f(leaf).backward()
    return leaf.grad


def assert_same(found, wanted):
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name, backend):
    f = CALLS[name]
    rng = np.random.default_rng(1)
    x, v = (sg.tensor(rng.normal(size=(3, 4))) for _ in range(2))
    g = sg.tensor(rng.normal(size=f(x).shape))
    fast, loss = sg.compile(lambda t: f(t), backend=backend), squares(f)
    scalar = sg.compile(lambda t: loss(t), backend=backend)
    assert_same(scalar.grad(x, wrt=0), backward(loss, x))
    assert_same(backward(scalar, x), backward(loss, x))
    assert_same(scalar.hessian(x, wrt=0), sg.func.hessian(loss)(x))
    assert_same(fast.vjp(x, wrt=0)(g), sg.func.vjp(f, x)[1](g)[0])
    assert_same(fast.jvp(x, wrt=0)(v), sg.func.jvp(f, (x,), (v,))[1])
    assert_same(fast.jacobian(x, wrt=0), sg.func.jacrev(f)(x))
