"""f(x, g(y)) -> f'(x, g'(y)): rebuild a graph from its inputs, each application by a given function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from symgrad.compiler.ir.builder import again, apply
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, nested, output, row_of

Change = Callable[[Value, tuple[Any, ...]], Any]


def rewrite(graph: Graph, change: Change) -> Graph:
    """Return the graph rebuilt by `change(value, new arguments)`, which returns the new value (a tuple for several outputs), or None to
    keep the row. The nested graphs of loops and branches are rebuilt in the same way."""
    new: dict[Value, Any] = {}
    for v in graph.values:
        if v.op in (INPUT, LITERAL):
            new[v] = v
            continue
        args: tuple[Any, ...] = tuple(None if a is None else new[a] for a in v.args)
        if v.op == OUTPUT:
            new[v] = args[0][v.attrs["index"]]
            continue
        changed = change(v, args)
        if changed is None and not nested(v) and all(map(operator.is_, args, v.args)):
            changed = tuple(output(v, i) for i in range(len(v.dtype))) if isinstance(v.dtype, tuple) else v
        elif changed is None and not nested(v) and all(map(_same_type, args, v.args)):
            changed = again(v, args)
        elif changed is None:
            attrs = {k: rewrite(x, change) if isinstance(x, Graph) else x for k, x in v.attrs.items()}
            changed = apply(row_of(v), args, attrs)
        new[v] = changed
    return Graph(graph.inputs, (new[v] for v in graph.outputs), graph.labels)


def _same_type(x: Any, y: Any) -> bool:
    return x is y or (x is not None and y is not None and x.shape == y.shape and x.dtype == y.dtype)
