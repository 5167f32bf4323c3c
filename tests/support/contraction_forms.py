"""Linear-algebra forms and losses as users write them, and by hand with the least number of operations.

`FORMS` and `GRADIENTS` (in A, of the sum) have the form, the same by hand, and the operations by hand as a function of n. `LOSSES` have the
operations of value and gradient in all inputs by hand: products of a matrix and a vector take 2n², outer products n².
"""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.trace.trace import trace

FORMS = {
    "(A B) x": (lambda A, B, H, x: (A @ B) @ x, lambda A, B, H, x: A @ (B @ x), lambda n: 4 * n**2),
    "A'A x": (lambda A, B, H, x: A.T @ A @ x, lambda A, B, H, x: A.T @ (A @ x), lambda n: 4 * n**2),
    "(A - H'H) x": (lambda A, B, H, x: (A - H.T @ H) @ x, lambda A, B, H, x: A @ x - H.T @ (H @ x), lambda n: 6 * n**2 + n),
    "A B + A H": (lambda A, B, H, x: A @ B + A @ H, lambda A, B, H, x: A @ (B + H), lambda n: 2 * n**3 + n**2),
    "tr(A B)": (lambda A, B, H, x: sg.trace(A @ B), lambda A, B, H, x: (A * B.T).sum(), lambda n: 2 * n**2),
    "diag(A B)": (lambda A, B, H, x: sg.diag(A @ B), lambda A, B, H, x: (A * B.T).sum(1), lambda n: 2 * n**2),
    "sum(A B)": (lambda A, B, H, x: (A @ B).sum(), lambda A, B, H, x: A.sum(0) @ B.sum(1), lambda n: 2 * n**2 + 2 * n),
    "(A B)[2, 2]": (lambda A, B, H, x: (A @ B)[2, 2], lambda A, B, H, x: A[2] @ B[:, 2], lambda n: 2 * n),
    "diag(x) A": (lambda A, B, H, x: sg.diag(x) @ A, lambda A, B, H, x: x.reshape(-1, 1) * A, lambda n: n**2),
    "sum of (x x') A": (
        lambda A, B, H, x: (sg.outer(x, x) @ A).sum(), lambda A, B, H, x: x.sum() * (x @ A.sum(1)), lambda n: n**2 + 3 * n + 1,
    ),
    "(A'B)'(A'B)": (lambda A, B, H, x: (A.T @ B).T @ (A.T @ B), lambda A, B, H, x: (A.T @ B).T @ (A.T @ B), lambda n: 4 * n**3),
}  # fmt: skip

_rows = lambda v: v.reshape(1, -1).expand(len(v), len(v))

GRADIENTS = {
    "(A B) x": (lambda A, B, H, x: _rows(B @ x), lambda n: 2 * n**2),
    "A'A x": (lambda A, B, H, x: (A @ x).reshape(-1, 1) + A.sum(1).reshape(-1, 1) * x, lambda n: 5 * n**2),
    "(A - H'H) x": (lambda A, B, H, x: _rows(x), lambda n: 0),
    "A B + A H": (lambda A, B, H, x: _rows(B.sum(1) + H.sum(1)), lambda n: 2 * n**2 + n),
    "tr(A B)": (lambda A, B, H, x: B.T, lambda n: 0),
    "diag(A B)": (lambda A, B, H, x: B.T, lambda n: 0),
    "sum(A B)": (lambda A, B, H, x: _rows(B.sum(1)), lambda n: n**2),
    "(A B)[2, 2]": (lambda A, B, H, x: sg.nn.functional.pad(B[:, 2].reshape(1, -1), (0, 0, 2, len(x) - 3)), lambda n: n**2),
    "diag(x) A": (lambda A, B, H, x: x.reshape(-1, 1).expand(len(x), len(x)), lambda n: 0),
    "sum of (x x') A": (lambda A, B, H, x: (x * x.sum()).reshape(-1, 1).expand(len(x), len(x)), lambda n: 2 * n),
    "(A'B)'(A'B)": (lambda A, B, H, x: B.sum(1).reshape(-1, 1) * ((B.sum(1) @ A) * 2), lambda n: 4 * n**2 + n),
}

LOSSES = {
    "|(A B) x - x|²": (lambda A, B, H, x: (((A @ B) @ x - x) ** 2).sum(), lambda n: 10 * n**2 + 5 * n),
    "|A'A x - x|²": (lambda A, B, H, x: ((A.T @ A @ x - x) ** 2).sum(), lambda n: 11 * n**2 + 5 * n),
    "tanh((A - H'H) x)": (lambda A, B, H, x: ((A - H.T @ H) @ x).tanh().sum(), lambda n: 16 * n**2 + 8 * n),
    "sin(tr(A B))": (lambda A, B, H, x: sg.trace(A @ B).sin(), lambda n: 4 * n**2 + 2),
    "sum(diag(A B)²)": (lambda A, B, H, x: (sg.diag(A @ B) ** 2).sum(), lambda n: 4 * n**2 + 3 * n),
    "|diag(x) A x|²": (lambda A, B, H, x: ((sg.diag(x) @ A @ x) ** 2).sum(), lambda n: 5 * n**2 + 7 * n),
    "x' A B H x": (lambda A, B, H, x: x @ A @ B @ H @ x, lambda n: 15 * n**2 + 3 * n),
    "|A x|² |B x|²": (lambda A, B, H, x: ((A @ x) ** 2).sum() * ((B @ x) ** 2).sum(), lambda n: 10 * n**2 + 9 * n + 1),
    "batched (A B) x": (
        lambda A, B, H, x: ((((A.reshape(len(x) // 4, 4, -1) @ B) @ x) - 1) ** 2).sum(), lambda n: 10 * n**2 + 4 * n,
    ),
}  # fmt: skip


def shapes(n):
    return [(n, n), (n, n), (n, n), (n,)]


def graph_of(function, n, dtype=np.float64):
    """Return the graph of a function of A, B, H and x."""
    return trace(lambda ts: function(*ts), [np.ones(s, dtype) for s in shapes(n)], ["A", "B", "H", "x"]).graph


def gradient_graph(function, n, dtype=np.float64):
    """Return the graph of the gradient in A of the sum of a function."""
    return grad(graph_of(lambda *args: function(*args).sum(), n, dtype), (0,))


def loss_graph(function, n, dtype=np.float64):
    """Return the graph of value and gradient in all inputs."""
    graph = graph_of(function, n, dtype)
    return Graph(graph.inputs, (*graph.outputs, *grad(graph, (0, 1, 2, 3)).outputs), graph.labels)
