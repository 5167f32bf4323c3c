"""sign(b) -> sign(b as integers) != 0: rows that XLA supports for some dtypes only, in a supported one. For kernels only.

    f(booleans)         -> f(integers) as booleans          a sum is an `or`, and order is kept
    f(integers)         -> f(floats) as integers            truncated, as the rows do; float64 is exact below 2**53
    clamp(i; 0.5, 2.5)  -> clamp(i as floats; 0.5, 2.5)
    all(bytes)          -> all(bytes != 0) as bytes
    power(booleans)     -> power(integers)
    trunc(i / j)        -> the floor of i / j, plus 1 where that is negative and inexact
    heaviside(i, j)     -> j where i is 0, else 1 where i is positive
    threshold(i; t, v)  -> v where i is at most t, else i, with t and v truncated
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Graph, Value, row_of, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.ops.promotion import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, kind

_AS_INTEGERS = frozenset((
    "cummax", "cummin", "index_add", "index_back", "index_put", "scatter_add", "scatter_along", "sgn", "sign", "unfold_transpose",
))  # fmt: skip
"""Rows that XLA does not support for booleans."""
_AS_FLOATS = frozenset(("avg_pool", "convolution_transpose", "hardtanh"))
"""Rows whose lowering returns floats for integers, or does not support them."""


def legalize_dtypes(graph: Graph) -> Graph:
    """Return the graph with each row on dtypes that its lowering supports."""
    if graph.ops.isdisjoint(_ROWS):
        return graph
    return rewrite(graph, _change) if any(map(_may_change, walk(graph))) else graph


def _may_change(v: Value) -> bool:
    if v.op in _AS_INTEGERS:
        return bool(v.args[0].dtype == BOOL)
    return (v.op in _AS_FLOATS or v.op in _REWRITES) and kind(v.args[0].dtype) in "bi"


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    return None if not _may_change(v) else _REWRITES.get(v.op, _via_other_dtype)(v, args)


def _truth(v: Value, args: tuple[Any, ...]) -> Any:
    return xp.cast(apply(row_of(v), (xp.ne(args[0], 0),), dict(v.attrs)), dtype=UINT8) if v.dtype == UINT8 else None


def _addcmul(v: Value, args: tuple[Any, ...]) -> Any:
    return args[0] + args[1] * args[2] * v.dtype.type(v.attrs["value"]).item()  # the factor is truncated, too


def _div_rounded(v: Value, args: tuple[Any, ...]) -> Any:
    if v.attrs["rounding_mode"] != "trunc":
        return None
    quotient = xp.floor_divide(*args)
    inexact = xp.logical_and(xp.ne(xp.remainder(*args), 0), xp.lt(quotient, 0))
    return quotient + xp.cast(inexact, dtype=v.dtype)


def _heaviside(v: Value, args: tuple[Any, ...]) -> Any:
    x, y = args
    return xp.where(xp.eq(x, 0), y, xp.cast(xp.gt(xp.cast(x, dtype=INT64), 0), dtype=v.dtype))


def _threshold(v: Value, args: tuple[Any, ...]) -> Any:
    low = xp.le(xp.cast(args[0], dtype=INT64), int(v.attrs["threshold"]))
    return xp.where(low, np.array(int(v.attrs["value"])).astype(v.dtype).item(), args[0])


def _in_its_type(v: Value, args: tuple[Any, ...]) -> Any:
    return apply(row_of(v), (xp.cast(args[0], dtype=v.dtype),), dict(v.attrs)) if v.dtype != args[0].dtype else None


_REWRITES: dict[str, Callable[[Value, tuple[Any, ...]], Any]] = {
    "addcmul": _addcmul, "all": _truth, "any": _truth, "clamp": _in_its_type, "div_rounded": _div_rounded, "heaviside": _heaviside,
    "power": _in_its_type, "threshold": _threshold,
}  # fmt: skip
_ROWS = _AS_INTEGERS | _AS_FLOATS | _REWRITES.keys()


def _via_other_dtype(v: Value, args: tuple[Any, ...]) -> Any:
    """Apply the row in another dtype, and cast the results of that dtype back to the given one, where integers wrap."""
    given = v.args[0].dtype
    other = INT32 if v.op in _AS_INTEGERS else FLOAT32 if given.itemsize < 4 else FLOAT64
    results = apply(row_of(v), tuple(xp.cast(a, dtype=other) if a is not None and a.dtype == given else a for a in args), dict(v.attrs))
    several = results if isinstance(results, tuple) else (results,)
    wide = (r if given == BOOL or r.dtype != other else xp.cast(r, dtype=INT64) for r in several)
    found = tuple(r if s.dtype != other else xp.cast(r, dtype=given) for r, s in zip(wide, several, strict=True))
    return found if isinstance(results, tuple) else found[0]
