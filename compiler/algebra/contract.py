"""(A B) x -> A (B x): contractions in the order of least cost.

A graph is divided into segments: linear values (sums of products of elements) between leaves, which are inputs, nonlinear values, and
linear values that are computed on their own because several readers share them (`search.py`). Each segment is expanded to the index
normal form, planned, and emitted as ordinary rows; it stays as written if that is not cheaper (`segment.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from symgrad.compiler.algebra import cost
from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.algebra.expand import SOURCES, SUMMING
from symgrad.compiler.algebra.search import Solution
from symgrad.compiler.algebra.segment import Segment
from symgrad.compiler.algebra.text import expression_text
from symgrad.compiler.autodiff.pull import dependents
from symgrad.compiler.ir.graph import Graph, Value, intern, nested
from symgrad.compiler.ir.subgraph import substitute
from symgrad.compiler.rewrite.table import Hits

WORTHWHILE = 20_000
"""A graph is changed only if it saves this many operations: a few microseconds, the time that a kernel needs to start a row or two."""
_ROWS = SUMMING | SOURCES


@dataclass(frozen=True)
class Change:
    """One rewritten value: as written and as computed, with the operations of both."""

    written: str
    planned: str
    flops_written: int
    flops_planned: int

    def __str__(self) -> str:
        return f"{self.written} -> {self.planned}: {cost.text(self.flops_written)} -> {cost.text(self.flops_planned)}"


@dataclass(frozen=True)
class Contraction:
    """The result of the pass: the graph, and a report of what changed."""

    graph: Graph
    changes: tuple[Change, ...]
    flops_written: int
    flops_planned: int


def contract(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph with contractions in the order of least cost; the same graph if that saves little. `hits` gets the changes."""
    if graph.ops.isdisjoint(_ROWS) or total_flops(graph) < WORTHWHILE:
        return graph
    found = contraction(graph, least=WORTHWHILE)
    if hits is not None:
        for change in found.changes:
            hits[str(change)] = hits.get(str(change), 0) + 1
    return found.graph


def contraction(graph: Graph, varying: int | None = None, least: int = 1) -> Contraction:
    """Return the contracted graph with the report, or the graph itself if fewer than `least` operations are saved.

    In the body of a loop the first `varying` inputs change between steps: values that do not depend on them stay as they are, since XLA
    computes them once, before the loop.
    """
    inner = {v: _bodies(v) for v in graph.values if v.attrs and nested(v)}
    solution = Solution(graph, frozenset() if varying is None else _invariant(graph, varying))
    solution.search()
    written = total_flops(graph)
    result = _rebuilt(graph, solution, inner)
    planned = total_flops(result)
    if planned > written - least:
        return Contraction(graph, (), written, written)
    return Contraction(result, tuple(_changes(graph, solution.segments.values())), written, planned)


def _bodies(v: Value) -> dict[str, Graph]:
    """Return the nested graphs of a value, contracted."""
    varying = v.attrs["carries"] + v.attrs.get("slices", 0) if "carries" in v.attrs else None
    return {name: contraction(graph, varying).graph for name, graph in nested(v).items()}


def _invariant(graph: Graph, varying: int) -> frozenset[Value]:
    changing = dependents(graph.values, graph.inputs[:varying])
    return frozenset(v for v in graph.values if v not in changing)


def _rebuilt(graph: Graph, solution: Solution, inner: dict[Value, dict[str, Graph]]) -> Graph:
    """Return the graph with each segment as planned, and nested graphs replaced."""
    new: dict[Value, Value] = {}
    segments, linear = solution.segments, solution.linear
    for v in graph.values:
        segment = segments.get(v)
        if segment is not None:
            (new[v],) = substitute([segment.value], {leaf: new[leaf] for leaf in segment.leaves})
        elif not v.args or v not in linear:
            new[v] = _with_arguments(v, new, inner.get(v, {}))
    return Graph(graph.inputs, (new[v] for v in graph.outputs), graph.labels)


def _with_arguments(v: Value, new: dict[Value, Value], inner: dict[str, Graph]) -> Value:
    args = tuple(None if a is None else new[a] for a in v.args)
    if not inner and all(a is b for a, b in zip(args, v.args, strict=True)):
        return v
    return intern(v.op, v.row, args, {**v.attrs, **inner} if inner else v.attrs, v.shape, v.dtype)


def _changes(graph: Graph, segments: Iterable[Segment]) -> Iterator[Change]:
    names = dict(zip(graph.inputs, graph.labels, strict=True))
    for s in segments:
        if s.planned:
            known = frozenset(s.leaves)
            written, planned = (expression_text(v, known, names) for v in (s.root, s.value))
            yield Change(written, planned, s.written, cost.flops_of(s.computed))
