"""Random programs of matrices with known properties, and arrays that have them."""

from __future__ import annotations

import random

import numpy as np

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.symbolic.samples import with_properties
from symgrad.errors import SymgradError

N = 3
F64 = np.dtype(np.float64)
WORDS = (
    ("symmetric",), ("positive_definite",), ("orthogonal",), ("diagonal",), ("lower_triangular",), ("upper_triangular",), ("positive",),
    ("integer",), ("symmetric", "orthogonal"), ("positive", "symmetric"), ("diagonal", "positive_definite"), ("symmetric", "integer"),
    ("orthogonal", "diagonal"),
)  # fmt: skip


def transposed(a):
    return xp.transpose(a, dim0=a.ndim - 2, dim1=a.ndim - 1)


def _steps(r):
    return (
        *(lambda a, b, op=op: getattr(xp, op)(a, b) for op in ("add", "sub", "mul", "matmul", "matmul", "matmul", "maximum", "div")),
        *(lambda a, b, op=op: getattr(xp, op)(a) for op in ("neg", "exp", "abs", "square", "log", "sqrt", "sign", "relu", "floor")),
        *(lambda a, b, make=make: make(a) for make in (transposed, transposed)),
        lambda a, b: xp.inv(a, check=True), lambda a, b: xp.det(a), lambda a, b: xp.slogdet(a)[r.choice([0, 1])], xp.solve,
        lambda a, b: a + transposed(a), lambda a, b: xp.matmul(transposed(a), xp.matmul(a, b)),
        lambda a, b: xp.tril(a, diagonal=r.choice([0, -1, 1])), lambda a, b: xp.triu(a, diagonal=r.choice([0, -1, 1])),
        *(lambda a, b, op=op: getattr(xp, op)(a, axis=(a.shape.index(N),), keepdims=False) for op in ("sum", "prod")),
        lambda a, b: xp.log(a * b), lambda a, b: xp.where(xp.gt(a, 0), a, b), lambda a, b: xp.diagonal(a, offset=0, axis1=0, axis2=1),
        lambda a, b: 2 * a, lambda a, b: xp.matmul(a, xp.matmul(b, transposed(a))),
    )


def program(seed):
    """Return a graph of assumed matrices, a batch of them, a vector and a plain matrix, with arrays for its inputs."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    shapes = [(N, N), (N, N), (2, N, N), (N,), (N, N)]
    inputs = [input_value(i, shape, F64) for i, shape in enumerate(shapes)]
    words = [r.choice(WORDS) for _ in range(3)]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[:3] = [with_properties(a, w, "input") for a, w in zip(arrays, words, strict=False)]
    pool = [*(xp.assume(x, words=w) for x, w in zip(inputs, words, strict=False)), *inputs[3:], r.choice(inputs[:2])]
    steps = _steps(r)
    for _ in range(r.randint(2, 9)):
        try:
            v = r.choice(steps)(r.choice(pool[-4:] if r.random() < 0.5 else pool), r.choice(pool))
        except (SymgradError, ValueError, TypeError, IndexError, RuntimeError):  # shapes that do not fit
            continue
        if not isinstance(v, tuple) and v.size:
            pool.append(v)
    result = xp.cast(pool[-1], dtype=F64)
    return Graph(inputs, [xp.sum(result, axis=tuple(range(result.ndim)), keepdims=False), result]), arrays
