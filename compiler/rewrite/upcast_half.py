"""f(x: float16) -> f(x as float32) as float16: computes in float32 and rounds once at the end, as eager code does."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, literal, row_of, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.ops.promotion import FLOAT32
from symgrad.ops.variants import is_half

_MULTI_STEP_ROWS = frozenset(("cross", "euclidean_distance", "nll_loss", "recurrence"))
"""Rows without a composition that XLA computes in several steps."""


def widen_half(graph: Graph) -> Graph:
    """Return the graph with rows of several steps in float32: a step may overflow in half precision although the result does not."""
    return rewrite(graph, _change) if any(map(_overflows, walk(graph))) else graph


def _overflows(v: Value) -> bool:
    """True if a row has several steps and a half-precision argument."""
    if v.row is None or v.row.view or (v.row.compose is None and v.op not in _MULTI_STEP_ROWS):
        return False
    return any(a is not None and is_half(a.dtype) for a in v.args)


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    return round_to_type(v, apply(row_of(v), tuple(map(to_float32, args)), dict(v.attrs))) if _overflows(v) else None


def to_float32(x: Any) -> Any:
    """Return a half-precision value as float32, and any other unchanged. A literal is rounded to half precision first."""
    if x is None or not is_half(x.dtype):
        return x
    if x.op != LITERAL:
        return xp.cast(x, dtype=FLOAT32)
    with np.errstate(all="ignore"):
        number = float(np.asarray(x.value, x.dtype))
    return literal(x.value if number == x.value else number, FLOAT32)


def round_to_type(v: Value, result: Any) -> Any:
    """Cast results to the dtypes of the value that they replace."""
    if not isinstance(result, tuple):
        return xp.cast(result, dtype=v.dtype)
    return tuple(xp.cast(r, dtype=dtype) for r, dtype in zip(result, v.dtype, strict=True))
