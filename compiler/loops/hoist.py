"""Computes in front of a loop what all its steps compute alike. Before differentiation: then the gradient flows back through it once, too.

    scan(x, A, B; (s, A, B) -> sin(A B) s)                  ->   scan(x, sin(A B); (s, C) -> C s)
    while_loop(x, A, B; condition, (s, A, B) -> sin(A B) s) ->   while_loop(x, C; condition, (s, C) -> C s)
                                                                 C = cond(condition(x); sin(A B), zeros)

A while loop may run no step: then nothing of its body may be computed, since that takes time, may fail, and has a gradient that need not
be finite. The branch computes it if the condition holds at first. What the condition alone shares is computed at least once anyway, and
needs no branch.

XLA takes products out of loops, but not what follows them, nor their gradients; other back ends take out nothing. A value that is much
larger than what it is made of stays, such as an outer product, unless it takes a sum to compute it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import COND, SCAN, WHILE, is_control
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, row_of, toposort
from symgrad.compiler.ir.subgraph import inline, labels, subgraph
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.table import Hits
from symgrad.ops.spec import Meta

_MOVES = frozenset(("reshape", "transpose", "permute", "expand", "getitem", "cast", "squeeze", "unsqueeze", "diagonal", "detach", "output"))
"""Rows that compute nothing."""
_STAYS = frozenset(("custom", "hooked"))
"""Rows whose backward is code of the user, which counts its runs."""
_GROWTH = 2
_MANY = 100


def hoist(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph with invariant values in front of their loops; the graph itself if there are none."""
    if not any(map(is_control, graph.values)):
        return graph

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        if v.row is SCAN and v.attrs["length"] > 1:
            return _changed(v, args, hits)
        return _changed_while(v, args, hits) if v.row is WHILE and v.attrs["max_steps"] not in (0, 1) else None

    return rewrite(graph, change)


def _changed(v: Value, args: tuple[Any, ...], hits: Hits | None) -> Any:
    """Return a loop without its invariant values, or None if it has none."""
    body = hoist(v.attrs["body"], hits=hits)  # inner loops first: what they leave may leave this one, too
    first = v.attrs["carries"] + v.attrs["slices"]
    moved = _invariant(body, body.inputs[first:])
    if not moved:
        return None if body is v.attrs["body"] else apply(row_of(v), args, {**v.attrs, "body": body})
    _note(hits, moved)
    read = set(toposort(body.outputs, frozenset(moved)))
    kept = [i for i, x in enumerate(body.inputs) if i < first or x in read]
    inputs = [*(body.inputs[i] for i in kept), *moved]
    names = labels(v.attrs["carries"], v.attrs["slices"], len(inputs) - first)
    outside = inline(_of_shared(body.inputs[first:], moved), args[first:])
    return apply(row_of(v), (*(args[i] for i in kept), *outside), {**v.attrs, "body": subgraph(inputs, body.outputs, names)})


def _changed_while(v: Value, args: tuple[Any, ...], hits: Hits | None) -> Any:
    """Return a while loop without its invariant values, or None if it has none."""
    carries = v.attrs["carries"]
    condition, body = (hoist(v.attrs[name], hits=hits) for name in ("condition", "body"))
    tested, computed = (_invariant(graph, graph.inputs[carries:]) for graph in (condition, body))
    known = frozenset(tested)
    computed = [x for x in computed if x not in known]
    if not _is_worth_a_branch(computed):
        computed = []
    if not tested and not computed:
        same = condition is v.attrs["condition"] and body is v.attrs["body"]
        return None if same else apply(row_of(v), args, {**v.attrs, "condition": condition, "body": body})
    moved = [*tested, *computed]
    _note(hits, moved)
    inputs, shared = body.inputs, body.inputs[carries:]  # those of the condition are the same values
    outside = inline(_of_shared(shared, tested), args[carries:])
    if computed:
        (runs,) = inline(condition, args)
        outside += _if(runs, [*shared, *tested], [*args[carries:], *outside], computed)
    read = set(toposort((*condition.outputs, *body.outputs), frozenset(moved)))
    kept = [i for i, x in enumerate(inputs) if i < carries or x in read]
    programs = {
        name: subgraph([*(inputs[i] for i in kept), *moved], graph.outputs, labels(carries, 0, len(kept) - carries + len(moved)))
        for name, graph in (("condition", condition), ("body", body))
    }
    return apply(row_of(v), (*(args[i] for i in kept), *outside), {**v.attrs, **programs})


def _is_worth_a_branch(computed: Sequence[Value]) -> bool:
    """True unless values are a few elements by elementwise functions, which take less time than a branch."""
    return sum(x.size for x in computed) >= _MANY or any(map(_sums, toposort(computed)))


def _if(runs: Value, inputs: Sequence[Value], operands: Sequence[Value], computed: Sequence[Value]) -> list[Value]:
    """Return values of a body, computed from operands in place of inputs if `runs`, else zeros."""
    read = set(toposort(computed, frozenset(inputs)))
    needed = [i for i, x in enumerate(inputs) if x in read]
    true = _of_shared([inputs[i] for i in needed], computed)
    false = Graph(true.inputs, [filled(xp, 0, Meta(x.shape, x.dtype)) for x in computed], true.labels)
    return list(apply(COND, (runs, *(operands[i] for i in needed)), {"true": true, "false": false}))


def _of_shared(shared: Sequence[Value], moved: Sequence[Value]) -> Graph:
    """Return the graph that computes values of a body from what its steps share."""
    return subgraph(shared, moved, labels(0, 0, len(shared)))


def _note(hits: Hits | None, moved: Sequence[Value]) -> None:
    if hits is not None:
        hits["out of a loop: " + ", ".join(x.op for x in moved)] = 1


def _invariant(body: Graph, shared: Sequence[Value]) -> list[Value]:
    """Return the values of a body that every step computes alike, and that other values or results read."""
    leaves, computed, summed = _alike(body, shared)
    readers = [v for v in body.values if v not in leaves]
    read = dict.fromkeys([*(a for v in readers for a in v.args if a is not None), *body.outputs])
    alike = [v for v in read if v in computed and not isinstance(v.dtype, tuple)]
    return [v for v in alike if v in summed or v.size <= _GROWTH * sum(x.size for x in leaves[v])]


def _alike(body: Graph, shared: Sequence[Value]) -> tuple[dict[Value, frozenset[Value]], set[Value], set[Value]]:
    """Return what every step computes alike, each with what is shared below it; which of these are more than moves of elements; and which
    are more than elementwise."""
    leaves: dict[Value, frozenset[Value]] = {x: frozenset((x,)) for x in shared}
    computed: set[Value] = set()
    summed: set[Value] = set()
    for v in body.values:
        below = [a for a in v.args if a is not None and a in leaves]
        if v in leaves or not below or v.op in _STAYS or not all(a is None or a.op == LITERAL or a in leaves for a in v.args):
            continue
        leaves[v] = frozenset().union(*(leaves[a] for a in below))
        if v.op not in _MOVES or not computed.isdisjoint(below):
            computed.add(v)
        if _sums(v) or not summed.isdisjoint(below):
            summed.add(v)
    return leaves, computed, summed


def _sums(v: Value) -> bool:
    """True for rows that are more than elementwise."""
    return v.op not in _MOVES and v.row is not None and not v.row.elementwise
