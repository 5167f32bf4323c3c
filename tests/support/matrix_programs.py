"""Functions whose Jacobians and Hessians have a normal form, with arguments; the derivative is taken in the first one."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.compiler.trace.trace import trace
from symgrad.nn import functional as F

rng = np.random.default_rng(0)
x, M, X = rng.standard_normal(6), rng.standard_normal((6, 6)), rng.standard_normal((12, 6))
W, v = rng.standard_normal((3, 4)), rng.standard_normal(4)
idx = np.array([0, 3, 3, 5, -1])

HESSIANS = {
    "factorisation": (lambda U, T, mask, V: (mask * (T - U @ V.T)).square().sum(), M[:, :2], M, M > 0, M[:, 2:4]),
    "quadratic form": (lambda x, A: x @ A @ x, x, M),
    "logistic regression": (lambda w, X: (1 + (-(X @ w)).exp()).log().sum(), x, X),
    "Rosenbrock": (lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), x),
    "gather": (lambda x, i: (x[i] ** 3).sum(), x, idx),
    "two gathers": (lambda x, i, j: (x[i] ** 2 * x[j].sin()).sum(), x, idx, idx[::-1].copy()),
    "rows of a table": (lambda U, i, V: (sg.embedding(U, i) * V).sum(1).square().sum(), M, idx % 6, M[:5]),
    "Kronecker product": (lambda x, A, B: x @ sg.kron(A, B) @ x, x, M[:2, :2], M[:3, :3]),
    "net": (lambda W, v, A: sg.logsumexp(A @ (W @ v).relu(), 0), W, v, M[:, :3]),
    "joined": (lambda x: (sg.cat([x[:3], x[2:]]) ** 3).sum() + sg.stack([x, x.exp()]).square().sum(), x),
    "padded": (lambda x: (F.pad(x, (1, 2)) ** 4).sum(), x),
    "convolution": (lambda x, k: (F.conv1d(x.reshape(1, 1, 6), k.reshape(1, 1, 3)) ** 3).sum(), x, v[:3]),
    "rolled": (lambda x: ((x.roll(1) - x) ** 4).sum(), x),
    "rolled along two axes": (lambda W: ((W.roll((1, -2), (0, 1)) - W) ** 3).sum(), W),
    "reshaped": (lambda x, A: (x.reshape(2, 3).T @ A).square().sum(), x, M[:2]),
    "softmax": (lambda x, A: ((A @ x).softmax(0) * x).sum(), x, M),
    "masked": (lambda x: sg.where(x > 0, x**3, x.sin()).sum() + (x / (2 + x * x)).sum(), x),
    "one element": (lambda x: x[2] ** 2 * x.sum(), x),
    "numbers that occur several times": (
        lambda x, c, m: ((c * (c * (x @ m))).sin() * (c * (c * (x @ m))) ** 2).sum(), x, np.array(1.5), M[0],
    ),
    "linear": (lambda x: (3 * x).sum(), x),
}
JACOBIANS = {
    "matrix": (lambda x, A: A @ x, x, M),
    "elementwise": (lambda x: x.exp() * x.sin(), x),
    "flipped": (lambda x: x.flip(0) ** 2, x),
    "outer product": (lambda x: sg.outer(x, x), x),
    "product of matrices": (lambda W, A: A @ W @ W.T, W, M[:2, :3]),
    "scattered": (lambda x, i: (0 * x).index_add(0, i, x[:5] ** 2), x, idx % 6),
    "differences": (lambda x: x[1:] - x[:-1], x),
}


def graph_of(function, *arrays):
    return trace(lambda ts: function(*ts), list(arrays), [f"x{i}" for i in range(len(arrays))]).graph
