"""Building blocks of loops and branches, for any `xp`: arrays, recorded tensors or graph values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad import application
from symgrad.compiler.ir import builder
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, OUTPUT, Graph, Value, input_value, intern, row_of, toposort
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
    new = dict(given)
    for v in toposort(outputs, given):
        if v not in new:
            args = tuple(None if a is None else new[a] for a in v.args)
            new[v] = intern(v.op, v.row, args, v.attrs, v.shape, v.dtype) if args else v
    return [new[v] for v in outputs]


def inline(graph: Graph, values: Sequence[Value]) -> list[Value]:
    """Return the outputs of a graph with `values` in place of its inputs, rebuilt (and folded) by the builder."""
    new: dict[Value, Any] = dict(zip(graph.inputs, values, strict=True))
    for v in graph.values:
        if v in new:
            continue
        args: tuple[Any, ...] = tuple(None if a is None else new[a] for a in v.args)
        if not args:
            new[v] = v
        elif v.op == OUTPUT:
            new[v] = args[0][v.attrs["index"]]
        else:
            new[v] = builder.apply(row_of(v), args, dict(v.attrs))
    return [new[v] for v in graph.outputs]


def labels(carries: int, slices: int, shared: int) -> list[str]:
    """Return labels for the inputs of a body. Labels of the user would make equal programs differ."""
    return [*_numbered("carry", carries), *_numbered("x", slices), *_numbered("w", shared)]


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}{i}" for i in range(count)]
