"""Legalization of a graph for NumPy: drop autograd markers, compute half precision in float32, write matrix products as such.

    assume(x), detach(x), tied(x, y), clone(x)  -> x
    custom(x, ...)                   -> x
    f(half)                          -> cast(f(cast(half, float32)), half), as in PyTorch
    linear(x, w, b)                  -> reshape(flat(x) @ w.T) + b: one product is faster than many, and sum and product share memory
    addmm, mse_loss, mean            -> their decompositions: a loss shares its difference with its derivative
    reshape(sum(x, keepdims=True))   -> sum(x), if the reshape only drops the kept dimensions
    where(relu(x) <= 0, 0, y)        -> where(relu(x) != 0, y, 0), since relu(x) is never negative
    where(c, 0, y)                   -> where(not c, y, 0): y times the condition, for large arrays

Other fused rows stay whole: their own kernels are faster than their parts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.compiler.backends.numpy.ufuncs import is_masked, is_zero
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.custom import CUSTOM, HOOKED
from symgrad.compiler.ir.graph import Graph, Value, row_of
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.upcast_half import round_to_type, to_float32
from symgrad.ops.shapes import reduced_shape
from symgrad.ops.spec import Row
from symgrad.ops.variants import is_half

_MARKS = frozenset(("assume", "detach", "tied", "clone"))
_PARTS = frozenset(("addmm", "mse_loss", "mean"))
_FLOAT32 = np.dtype(np.float32)


def legalize(graph: Graph) -> Graph:
    """Return a graph with the same values, in rows and dtypes for NumPy."""
    return rewrite(graph, _change)


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if v.op in _MARKS:
        return args[0]
    if is_control(v):
        return None  # rewrite() also changes the bodies
    row = row_of(v)
    if row is CUSTOM or row is HOOKED:
        return args[: v.attrs["results"]]
    if v.op != "cast" and not row.view and any(a is not None and is_half(a.dtype) for a in args):
        return round_to_type(v, _written(row, tuple(map(to_float32, args)), v.attrs))
    return _written(row, args, v.attrs)


def _written(row: Row, args: tuple[Any, ...], attrs: Any) -> Any:
    if row.name == "linear" and args[0].ndim > 1:
        return _linear(*args)
    if row.name in _PARTS and row.compose is not None:
        result = row.compose(xp, *args, **attrs)
        return _written(row_of(result), result.args, result.attrs) if result.op in _PARTS else result
    if row.name == "where" and is_zero(args[1]) and is_masked(*args[::2]):
        return xp.where(_opposite(args[0]), args[2], 0)
    return apply(row, args, dict(attrs))


def _opposite(condition: Value) -> Any:
    x = condition.args[0] if condition.op == "le" else None
    if x is not None and x.op == "relu" and is_zero(condition.args[1]):
        return xp.ne(x, 0)  # also for NaN
    return xp.logical_not(condition)


def drop_kept_dimensions(graph: Graph) -> Graph:
    """Return the graph with sums that drop their dimensions in place of sums that keep them for a reshape."""
    uses = graph.uses()

    def fits(v: Value) -> bool:
        total = v.args[0] if v.op == "reshape" else None
        if total is None or total.op != "sum" or not total.attrs["keepdims"] or uses.get(total, 2) > 1:
            return False
        return bool(v.shape == reduced_shape(total.args[0].shape, total.attrs["axis"], False))

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        return xp.sum(args[0].args[0], axis=args[0].attrs["axis"], keepdims=False) if fits(v) and args[0].op == "sum" else None

    return rewrite(graph, change) if any(map(fits, graph.values)) else graph


def _linear(x: Value, weight: Value, bias: Value | None) -> Any:
    flat = xp.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
    product = xp.matmul(flat, xp.transpose(weight, dim0=0, dim1=1))
    total = product if bias is None else product + bias
    return xp.reshape(total, shape=(*x.shape[:-1], weight.shape[0]))
