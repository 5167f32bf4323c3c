"""Closed forms in place of recurrences, where that leaves fewer operations in the graph of a trace."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.subgraph import substitute


def shortest(graph: Graph, closed_forms: Mapping[Value, Value]) -> Graph:
    """Return the graph with those of the values replaced by their closed forms that save operations. A recurrence whose other results are
    used stays, since it is computed in any case."""
    for value, closed in closed_forms.items():
        shorter = Graph(graph.inputs, substitute(graph.outputs, {value: closed}), graph.labels)
        if total_flops(shorter) < total_flops(graph):
            graph = shorter
    return graph
