"""Computes in front of a loop what all its steps compute alike. Before differentiation: then the gradient flows back through it once, too.

    scan(x, A, B; (s, A, B) -> sin(A B) s)   ->   scan(x, sin(A B); (s, C) -> C s)

XLA takes products out of loops, but not what follows them, nor their gradients; other back ends take out nothing. A value that is much
larger than what it is made of stays, such as an outer product, unless it takes a sum to compute it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.control_flow import SCAN, is_control
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, row_of, toposort
from symgrad.compiler.ir.subgraph import inline, labels, subgraph
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.table import Hits

_MOVES = frozenset(("reshape", "transpose", "permute", "expand", "getitem", "cast", "squeeze", "unsqueeze", "diagonal", "detach", "output"))
"""Rows that compute nothing."""
_STAYS = frozenset(("custom", "hooked"))
"""Rows whose backward is code of the user, which counts its runs."""
_GROWTH = 2


def hoist(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph with invariant values in front of their loops; the graph itself if there are none."""
    if not any(map(is_control, graph.values)):
        return graph
    return rewrite(graph, lambda v, args: _changed(v, args, hits) if v.row is SCAN and v.attrs["length"] > 1 else None)


def _changed(v: Value, args: tuple[Any, ...], hits: Hits | None) -> Any:
    """Return a loop without its invariant values, or None if it has none."""
    body = hoist(v.attrs["body"], hits=hits)  # inner loops first: what they leave may leave this one, too
    first = v.attrs["carries"] + v.attrs["slices"]
    moved = _invariant(body, body.inputs[first:])
    if not moved:
        return None if body is v.attrs["body"] else apply(row_of(v), args, {**v.attrs, "body": body})
    if hits is not None:
        hits["out of a loop: " + ", ".join(x.op for x in moved)] = 1
    read = set(toposort(body.outputs, frozenset(moved)))
    kept = [i for i, x in enumerate(body.inputs) if i < first or x in read]
    inputs = [*(body.inputs[i] for i in kept), *moved]
    names = labels(v.attrs["carries"], v.attrs["slices"], len(inputs) - first)
    outside = inline(subgraph(body.inputs[first:], moved, labels(0, 0, len(body.inputs) - first)), args[first:])
    return apply(row_of(v), (*(args[i] for i in kept), *outside), {**v.attrs, "body": subgraph(inputs, body.outputs, names)})


def _invariant(body: Graph, shared: Sequence[Value]) -> list[Value]:
    """Return the values of a body that every step computes alike, and that other values or results read."""
    leaves: dict[Value, frozenset[Value]] = {x: frozenset((x,)) for x in shared}
    computed: set[Value] = set()
    summed: set[Value] = set()
    for v in body.values:
        if v in leaves or not v.args or v.op in _STAYS or not all(a is None or a.op == LITERAL or a in leaves for a in v.args):
            continue
        below = [a for a in v.args if a is not None and a in leaves]
        if not below:
            continue
        leaves[v] = frozenset().union(*(leaves[a] for a in below))
        if v.op not in _MOVES or not computed.isdisjoint(below):
            computed.add(v)
        if _sums(v) or not summed.isdisjoint(below):
            summed.add(v)
    readers = [v for v in body.values if v not in leaves]
    read = dict.fromkeys([*(a for v in readers for a in v.args if a is not None), *body.outputs])
    return [
        v for v in read
        if v in computed and not isinstance(v.dtype, tuple) and (v in summed or v.size <= _GROWTH * sum(x.size for x in leaves[v]))
    ]  # fmt: skip


def _sums(v: Value) -> bool:
    """True for rows that are more than elementwise."""
    return v.op not in _MOVES and v.row is not None and not v.row.elementwise
