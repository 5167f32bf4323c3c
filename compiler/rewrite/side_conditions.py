"""where(‖x‖ = 0, 0, x / ‖x‖) -> x / ‖x‖, for ‖x‖ ≠ 0: a convention at a single point becomes a side condition of the formula.

Rules of derivatives give 0 where the derivative has no value, as the norm at the origin. A formula is written for the other arguments, and
states which; at the excluded ones it is computed with the convention. Choices of the function itself stay as the user wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, toposort, walk
from symgrad.compiler.rewrite.rewrite import rewrite

_VANISHES_OFTEN = frozenset(("relu", "where", "clip", "maximum", "minimum", "amax", "amin", "sgn", "cast", "heaviside", "floor", "round"))
"""Rows whose value is 0 for many arguments: a formula for the others would not be the usual one."""


@dataclass(frozen=True)
class Assumptions:
    """A graph without the choices of derivatives, and the conditions under which it computes the same values."""

    graph: Graph
    said: tuple[Value, ...] = ()
    """What a reader has to know: ‖x‖ ≠ 0."""
    unsaid: tuple[Value, ...] = ()
    """Where both sides are the same function, but for the rounding of a kernel: softplus is x above its threshold."""


def without_conventions(graph: Graph) -> Assumptions:
    """Return the graph of a function and its derivatives without the conventions of derivatives and the thresholds of kernels."""
    if "where" not in graph.ops:
        return Assumptions(graph)
    own = {v.args[0] for v in walk(Graph(graph.inputs, graph.outputs[:1])) if v.op == "where"}
    asked = dict.fromkeys(v.args[0] for v in graph.values if v.op == "where" and v.args[0] not in own)
    excluded = {c: zero for c in asked if (zero := _zero(c)) is not None and not _is_often(zero)}
    thresholds = {c: c.args[0] for c in asked if _is_threshold(c, graph)}
    if not excluded and not thresholds:
        return Assumptions(graph)

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        if v.op != "where" or (v.args[0] not in excluded and v.args[0] not in thresholds):
            return None
        return xp.expand(xp.cast(args[2], dtype=v.dtype), shape=v.shape)

    outputs = rewrite(Graph(graph.inputs, (*graph.outputs, *excluded.values(), *thresholds)), change).outputs
    count = len(graph.outputs)
    zeros, above = outputs[count : count + len(excluded)], outputs[count + len(excluded) :]
    said = dict.fromkeys(xp.ne(xp.reshape(zero, shape=()), 0) for zero in zeros if _varies(zero))
    unsaid = dict.fromkeys(xp.logical_not(xp.any(v, axis=tuple(range(v.ndim)), keepdims=False) if v.ndim else v) for v in above)
    return Assumptions(Graph(graph.inputs, outputs[:count], graph.labels), tuple(said), tuple(unsaid))


def _zero(condition: Value) -> Value | None:
    """Return x for the conditions x = 0, and x = 0 and more; else None."""
    if condition.op == "logical_and":
        return next((zero for a in condition.args if (zero := _zero(a)) is not None), None)
    if condition.op != "eq" or not (_is_zero(condition.args[1]) or _is_zero(condition.args[0])):
        return None
    zero: Value = condition.args[0 if _is_zero(condition.args[1]) else 1]
    return zero if zero.size == 1 and not isinstance(zero.dtype, tuple) else None


def _is_zero(v: Value) -> bool:
    return v.op == LITERAL and v.value == 0


def _is_threshold(condition: Value, graph: Graph) -> bool:
    """True for x > 20 and x >= 20 if the graph has the softplus of x with this threshold."""
    if condition.op not in ("gt", "ge") or condition.args[1].op != LITERAL:
        return False
    x, threshold = condition.args[0], condition.args[1].value
    return any(v.op == "softplus" and v.args[0] is x and v.attrs["beta"] == 1 and v.attrs["threshold"] == threshold for v in graph.values)


def _varies(zero: Value) -> bool:
    return any(v.op == INPUT for v in toposort((zero,)))


def _is_often(zero: Value) -> bool:
    return any(v.op in _VANISHES_OFTEN for v in toposort((zero,)))
