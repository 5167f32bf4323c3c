"""where(det x < 0, NaN, log|det x|) -> log(det x): a formula needs no value outside its domain.

Every other `where` on the same condition is resolved, too: the derivative of logdet is the inverse transposed, rather than 0 where logdet
has no value. For formulas only: a kernel keeps its NaN, and a formula keeps a NaN that the user chose.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import OUTPUT, Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite


def within_domain(graph: Graph) -> Graph:
    """Return the graph for arguments inside its domain."""
    excluded = {v.args[0] for v in _choices(graph)}

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        if v.op != "where" or v.args[0] not in excluded:
            return None
        if _has_domain(v):
            return xp.log(xp.det(v.args[2].args[0].args[0]))
        return xp.expand(xp.cast(args[2], dtype=v.dtype), shape=v.shape)

    return rewrite(graph, change) if excluded else graph


def domain(graph: Graph) -> list[Value]:
    """Return the conditions under which the formula holds: det x > 0 for every logarithm of a determinant."""
    positive = (xp.gt(xp.det(v.args[2].args[0].args[0]), 0) for v in _choices(graph))
    return list(dict.fromkeys(v if not v.shape else xp.all(v, axis=tuple(range(v.ndim)), keepdims=False) for v in positive))


def _choices(graph: Graph) -> list[Value]:
    return [v for v in walk(graph) if v.op == "where" and _has_domain(v)]


def _has_domain(v: Value) -> bool:
    return _is_nan(v.args[1]) and _is_negative_determinant(v.args[0], v.args[2])


def _is_nan(v: Value) -> bool:
    value = number(v)
    return isinstance(value, float) and math.isnan(value)


def _is_negative_determinant(condition: Value, x: Value) -> bool:
    """True for lt(sign, 0) and the logarithm of the same slogdet."""
    sign = condition.args[0] if condition.op == "lt" and number(condition.args[1]) == 0 else None
    if sign is None or sign.op != OUTPUT or x.op != OUTPUT:
        return False
    return sign.args[0] is x.args[0] and x.args[0].op == "slogdet" and x.attrs["index"] == 1
