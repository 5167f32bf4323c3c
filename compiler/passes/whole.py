"""sign(b) -> sign(b as integers) != 0: rows that XLA has for some types of numbers only, in one that it has. For kernels only.

    f(truth values)     -> f(integers) as truth values      a sum is an `or`, and order is kept
    f(whole numbers)    -> f(floats) as whole numbers       cut off, as the rows do; floats hold what is less than 2**53
    clamp(i; 0.5, 2.5)  -> clamp(i as floats; 0.5, 2.5)
    all(bytes)          -> all(bytes != 0) as bytes
    power(truth values) -> power(integers)
    trunc(i / j)        -> the floor of i / j, and 1 more where that is negative and not exact
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.graph.builder import apply, xp
from symgrad.compiler.graph.ir import Graph, Value, row_of, walk
from symgrad.compiler.passes.rewrite import rewrite
from symgrad.ops.promotion import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, kind

_AS_INTEGERS = frozenset((
    "cummax", "cummin", "index_add", "index_back", "index_put", "scatter_add", "scatter_along", "sgn", "sign", "unfold_transpose",
))  # fmt: skip
"""Rows that XLA does not have for truth values."""
_AS_FLOATS = frozenset(("avg_pool", "convolution_transpose", "hardtanh", "heaviside", "threshold"))
"""Rows whose lowering gives floats, or nothing, for whole numbers."""
_OTHERS = frozenset(("addcmul", "all", "any", "clamp", "div_rounded", "power"))


def whole(graph: Graph) -> Graph:
    """The graph with rows on numbers of types that they have a lowering for."""
    return rewrite(graph, _change) if any(map(_may_change, walk(graph))) else graph


def _may_change(v: Value) -> bool:
    if v.op in _AS_INTEGERS:
        return bool(v.args[0].dtype == BOOL)
    return (v.op in _AS_FLOATS or v.op in _OTHERS) and kind(v.args[0].dtype) in "bi"


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if not _may_change(v):
        return None
    if v.op not in _OTHERS:
        return _through(v, args)
    if v.op == "div_rounded" and v.attrs["rounding_mode"] == "trunc":
        quotient = xp.floor_divide(*args)
        inexact = xp.logical_and(xp.ne(xp.remainder(*args), 0), xp.lt(quotient, 0))
        return quotient + xp.cast(inexact, dtype=v.dtype)
    if v.op in ("all", "any") and v.dtype == UINT8:
        return xp.cast(apply(row_of(v), (xp.ne(args[0], 0),), dict(v.attrs)), dtype=UINT8)
    if v.op == "addcmul":  # the factor is cut off, too
        return args[0] + args[1] * args[2] * v.dtype.type(v.attrs["value"]).item()
    if v.op in ("clamp", "power") and v.dtype != args[0].dtype:
        return apply(row_of(v), (xp.cast(args[0], dtype=v.dtype),), dict(v.attrs))
    return None


def _through(v: Value, args: tuple[Any, ...]) -> Any:
    """The row on numbers of another type, and what has that type in its results back in the type that was given, where integers wrap."""
    given = v.args[0].dtype
    other = INT32 if v.op in _AS_INTEGERS else FLOAT32 if given.itemsize < 4 else FLOAT64
    results = apply(row_of(v), tuple(xp.cast(a, dtype=other) if a is not None and a.dtype == given else a for a in args), dict(v.attrs))
    several = results if isinstance(results, tuple) else (results,)
    wide = (r if given == BOOL or r.dtype != other else xp.cast(r, dtype=INT64) for r in several)
    found = tuple(r if s.dtype != other else xp.cast(r, dtype=given) for r, s in zip(wide, several, strict=True))
    return found if isinstance(results, tuple) else found[0]
