"""Building blocks of loops and branches, for any `xp`: arrays, recorded tensors or graph values."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad import application
from symgrad.compiler.ir import builder
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, Graph, Value, input_value, intern, output, row_of, toposort
from symgrad.compiler.ir.interpret import interpret
from symgrad.errors import GraphError
from symgrad.ops.namespace import raw
from symgrad.ops.spec import Meta, Row


def apply(xp: Any, row: Row, args: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Apply a row that is in no namespace, in the way that `xp` applies its rows."""
    if xp is raw:
        return row.numpy(*args, **attrs)  # type: ignore[no-any-return]
    how = builder.apply if xp is builder.xp else application.apply
    return how(row, tuple(args), attrs)  # type: ignore[no-any-return]


def zeros(xp: Any, like: Any) -> Any:
    """Return zeros of the shape and dtype of `like`: the cotangent of an output that has none."""
    if xp is builder.xp:
        return filled(xp, 0, Meta(like.shape, like.dtype))
    array = np.zeros(like.shape, like.dtype)
    return array if xp is raw else application.constant(array, 0)


def subgraph(inputs: Sequence[Value], outputs: Iterable[Value], labels: Sequence[str]) -> Graph:
    """Return a graph of the outputs in which `inputs`, in this order, become the inputs; nothing below them is included. Raise GraphError
    if the outputs depend on another input."""
    outputs = tuple(outputs)
    places = [input_value(i, v.shape, v.dtype) for i, v in enumerate(inputs)]
    known = frozenset(inputs)
    for v in toposort(outputs, known):
        if v.op == INPUT and v not in known:
            raise GraphError(f"input {v.attrs['index']} is needed, and is none of {len(inputs)} values")
    return Graph(places, substitute(outputs, dict(zip(inputs, places, strict=True))), labels)


def substitute(outputs: Sequence[Value], given: Mapping[Value, Value]) -> list[Value]:
    """Return the outputs with values replaced as `given` says; everything else is interned again unchanged, without folding."""
    return interpret(outputs, dict(given), reintern, project=output)


def reintern(v: Value, args: tuple[Any, ...]) -> Value:
    """Return an application on other arguments of the same types, without folding."""
    return v if all(map(operator.is_, args, v.args)) else intern(v.op, v.row, args, v.attrs, v.shape, v.dtype)


def inline(graph: Graph, values: Sequence[Value]) -> list[Value]:
    """Return the outputs of a graph with `values` in place of its inputs, rebuilt (and folded) by the builder."""
    return interpret(graph.outputs, dict(zip(graph.inputs, values, strict=True)), rebuild, order=graph.values)


def rebuild(v: Value, args: tuple[Any, ...]) -> Any:
    """Return the row of an application on other arguments, as the builder makes it; a tuple of values for several outputs."""
    return builder.apply(row_of(v), args, dict(v.attrs)) if args else v


def labels(carries: int, slices: int, shared: int) -> list[str]:
    """Return labels for the inputs of a body. Labels of the user would make equal programs differ."""
    return [*_numbered("carry", carries), *_numbered("x", slices), *_numbered("w", shared)]


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}{i}" for i in range(count)]
