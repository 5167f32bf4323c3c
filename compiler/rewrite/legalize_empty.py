"""var(x) of one element -> sum((x - mean(x))²) / 0: reductions over too few elements for jax.numpy. For kernels only.

    var, std        of no more elements than their correction   -> their composition, whose division by zero has the right result
    median          of no elements                              -> NaN, or the smallest 64-bit integer
    f(x, y)         with an empty result                        -> an empty array, however it would be computed
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.control_flow import CALL, is_control
from symgrad.compiler.ir.fold import filled, number
from symgrad.compiler.ir.graph import Graph, Value, row_of, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.ops.ranking import median_of_nothing
from symgrad.ops.reduction import count
from symgrad.ops.spec import Meta

_SPREADS = frozenset(("std", "std_mean", "var", "var_mean"))
_MEDIANS = frozenset(("median_all", "nanmedian_all"))


def legalize_small_reductions(graph: Graph) -> Graph:
    """Return the graph without reductions over too few elements and without computations of empty results."""
    while any(map(_is_degenerate, walk(graph))):  # var_mean decomposes into var
        graph = rewrite(graph, _change)
    return graph


def _is_degenerate(v: Value) -> bool:
    if v.op in _SPREADS:
        return bool(count(v.args[0].shape, v.attrs["axis"]) <= v.attrs["correction"])
    return (v.op in _MEDIANS and math.prod(v.args[0].shape) == 0) or _is_empty(v)


def _is_empty(v: Value) -> bool:
    """True if a row's only result has no elements, and is not a constant already."""
    if v.row is None or v.row.foreign is not None or v.row is CALL or is_control(v) or isinstance(v.dtype, tuple):
        return False
    return 0 in v.shape and number(v) is None


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if not _is_degenerate(v):
        return None
    if _is_empty(v):
        return filled(xp, 0, Meta(v.shape, v.dtype))
    if v.op in _MEDIANS:
        return filled(xp, median_of_nothing(v.dtype).item(), Meta(v.shape, v.dtype))
    compose = row_of(v).compose
    assert compose is not None
    return compose(xp, *args, **v.attrs)
