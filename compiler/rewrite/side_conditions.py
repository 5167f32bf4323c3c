"""where(‖x‖ = 0, 0, x / ‖x‖) -> x / ‖x‖, for ‖x‖ ≠ 0: a convention at a single point becomes a side condition of the formula.

Rules of derivatives give 0 where the derivative has no value, as the norm at the origin. A formula is written for the other arguments, and
states which; at the excluded ones it is computed with the convention. Choices of the function itself stay as the user wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite

_VANISHES_OFTEN = frozenset(("relu", "where", "clip", "maximum", "minimum", "amax", "amin", "sgn", "cast", "heaviside", "floor", "round"))
"""Rows whose value is 0 for many arguments: a formula for the others would not be the usual one."""

_MOST = 8
"""Largest number of conditions that a formula states; with more, it keeps its choices."""


@dataclass(frozen=True)
class SideConditions:
    """A graph without the choices of derivatives, and the conditions under which it computes the same values."""

    graph: Graph
    said: tuple[Value, ...] = ()
    """What a reader has to know: ‖x‖ ≠ 0."""
    unsaid: tuple[Value, ...] = ()
    """Where both sides are the same function, but for the rounding of a kernel: softplus is x above its threshold."""


def without_conventions(graph: Graph) -> SideConditions:
    """Return the graph of a function and its derivatives without the conventions of derivatives and the thresholds of kernels."""
    if "where" not in graph.ops:
        return SideConditions(graph)
    excluded, thresholds = _choices(graph)
    if not excluded and not thresholds:
        return SideConditions(graph)

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        if v.op != "where" or (v.args[0] not in excluded and v.args[0] not in thresholds):
            return None
        return xp.expand(xp.cast(args[2], dtype=v.dtype), shape=v.shape)

    outputs = rewrite(Graph(graph.inputs, (*graph.outputs, *excluded.values(), *thresholds)), change).outputs
    count = len(graph.outputs)
    zeros, above = outputs[count : count + len(excluded)], outputs[count + len(excluded) :]
    varying = _depending(Graph(graph.inputs, zeros), lambda v: v.op == INPUT) if zeros else set()
    said = dict.fromkeys(xp.ne(xp.reshape(zero, shape=()), 0) for zero in zeros if zero in varying)
    unsaid = dict.fromkeys(xp.logical_not(xp.any(v, axis=tuple(range(v.ndim)), keepdims=False) if v.ndim else v) for v in above)
    return SideConditions(Graph(graph.inputs, outputs[:count], graph.labels), tuple(said), tuple(unsaid))


def _choices(graph: Graph) -> tuple[dict[Value, Value], dict[Value, Value]]:
    """Return the conditions of derivatives that exclude a zero, and those that ask whether a value is above a kernel's threshold, each
    with that value."""
    own = {v.args[0] for v in walk(Graph(graph.inputs, graph.outputs[:1])) if v.op == "where"}
    asked = dict.fromkeys(v.args[0] for v in graph.values if v.op == "where" and v.args[0] not in own)
    often = _depending(graph, lambda v: v.op in _VANISHES_OFTEN)
    excluded = {c: zero for c in asked if (zero := _zero(c)) is not None and zero not in often}
    known = {(v.args[0], v.attrs["threshold"]) for v in graph.values if v.op == "softplus" and v.attrs["beta"] == 1}
    return excluded if len(excluded) <= _MOST else {}, {c: c.args[0] for c in asked if _is_threshold(c, known)}


def _zero(condition: Value) -> Value | None:
    """Return x for the conditions x = 0, and x = 0 and more; else None."""
    if condition.op == "logical_and":
        return next((zero for a in condition.args if (zero := _zero(a)) is not None), None)
    if condition.op != "eq" or not (_is_zero(condition.args[1]) or _is_zero(condition.args[0])):
        return None
    tested: Value = condition.args[0 if _is_zero(condition.args[1]) else 1]
    return tested if tested.size == 1 and not isinstance(tested.dtype, tuple) else None


def _is_zero(v: Value) -> bool:
    return v.op == LITERAL and v.value == 0


def _is_threshold(condition: Value, known: Container[tuple[Value, Any]]) -> bool:
    """True for x > 20 and x >= 20 if the graph has the softplus of x with this threshold."""
    if condition.op not in ("gt", "ge") or condition.args[1].op != LITERAL:
        return False
    return (condition.args[0], condition.args[1].value) in known


def _depending(graph: Graph, test: Callable[[Value], bool]) -> set[Value]:
    """Return the values for which a test holds, and all that depend on them."""
    found: set[Value] = set()
    for v in graph.values:
        if test(v) or any([a in found for a in v.args if a is not None]):
            found.add(v)
    return found
