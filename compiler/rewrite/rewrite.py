"""f(x, g(y)) -> f'(x, g'(y)): rebuild a graph from its inputs, each application by a given function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from symgrad.compiler.ir.builder import again, apply
from symgrad.compiler.ir.graph import Graph, Value, nested, outputs_of, row_of
from symgrad.compiler.ir.interpret import interpret

Change = Callable[[Value, tuple[Any, ...]], Any]


def rewrite(graph: Graph, change: Change) -> Graph:
    """Return the graph rebuilt by `change(value, new arguments)`, which returns the new value (a tuple for several outputs), or None to
    keep the row. The nested graphs of loops and branches are rebuilt in the same way."""

    def changed(v: Value, args: tuple[Any, ...]) -> Any:
        found = change(v, args)
        return found if found is not None else _kept(v, args, change)

    return Graph(graph.inputs, interpret(graph.outputs, {}, changed, order=graph.values), graph.labels)


def _kept(v: Value, args: tuple[Any, ...], change: Change) -> Any:
    """Return the row of an application on its new arguments, with nested graphs rebuilt."""
    if nested(v):
        return apply(row_of(v), args, {k: rewrite(x, change) if isinstance(x, Graph) else x for k, x in v.attrs.items()})
    if all(map(operator.is_, args, v.args)):
        return outputs_of(v)
    return again(v, args) if all(map(_same_type, args, v.args)) else apply(row_of(v), args, dict(v.attrs))


def _same_type(x: Any, y: Any) -> bool:
    return x is y or (x is not None and y is not None and x.shape == y.shape and x.dtype == y.dtype)
