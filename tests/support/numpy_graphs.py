"""Random graphs for the NumPy back end: chains that share, views of what is overwritten later, outputs that look at one another."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value

UNARY = ("tanh", "sigmoid", "neg", "square", "relu", "exp", "sin", "rsqrt", "softplus")
BINARY = ("add", "sub", "mul", "maximum", "tanh_backward", "matmul", "rsub")
SHAPES = ((4, 4), (4, 4), (4, 4), (4,), (1, 4), (), (2, 4, 4))


def random_graph(seed, dtype=np.float64):
    """A graph of about twenty values, and a function that draws inputs for it."""
    rng = np.random.default_rng(seed)
    shapes = [SHAPES[i] for i in rng.integers(len(SHAPES), size=3)] + [(4, 4)]
    inputs = [input_value(i, shape, dtype) for i, shape in enumerate(shapes)]
    values = list(inputs)
    for _ in range(rng.integers(3, 25)):
        values.append(_grown(rng, values))
    outputs = [values[i] for i in rng.integers(len(values), size=rng.integers(1, 5))]

    def draw(number):
        source = np.random.default_rng((seed, number))
        return [source.uniform(0.1, 0.9, shape).astype(dtype) for shape in shapes]

    return Graph(inputs, outputs), draw


def _grown(rng, values):
    x, y = (values[i] for i in rng.integers(len(values), size=2))
    kind = rng.integers(8)
    if kind < 2:
        return _small(getattr(xp, UNARY[rng.integers(len(UNARY))]), x)
    if kind < 5:
        return _binary(rng, x, y)
    if kind == 5 and x.ndim >= 2:
        return xp.transpose(x, dim0=x.ndim - 2, dim1=x.ndim - 1)
    if kind == 6 and x.ndim:
        return xp.sum(x, axis=(int(rng.integers(x.ndim)),), keepdims=bool(rng.integers(2)))
    if kind == 7 and x.shape == (4, 4):
        return xp.reshape(xp.getitem(x, index=((0, 4, 1), (0, 4, 2))), shape=(2, 4)) if rng.integers(2) else xp.reshape(x, shape=(2, 8))
    return xp.where(x > 0.5, 0, x) if rng.integers(2) else xp.where(x <= 0.5, x, 1 - x)


def _small(op, x):
    """Values stay between 0 and 1 or so, so that a long chain has finite ones."""
    if op.__name__ == "softplus":
        return op(x, beta=1, threshold=20)
    return op(x if op.__name__ != "rsqrt" else x * x + 1)


def _binary(rng, x, y):
    op = getattr(xp, BINARY[rng.integers(len(BINARY))])
    if op.__name__ == "matmul":
        return xp.matmul(x, y) * 0.25 if x.shape[-1:] == y.shape[-2:-1] != () and x.ndim > 1 else x * 0.5
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return x + 0.5
    return op(x, y)


def tensors(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [sg.tensor(rng.normal(size=s).astype(np.float32)) for s in shapes]
