"""The frozen graph: immutable, typed values, one object for each structure.

    Graph --outputs--> Value --args--> Value --args--> ... --> input | literal

A value is an application of a row, an input (a position, with no name), a literal (a Python number in a stated type), or one output
of a row that has several (then `shape` and `dtype` of the application are tuples, as they are in the recorded graph).
Structurally equal values are the same object, so common subexpressions are shared by construction and `is` compares programs.
Interning compares types and bits: 1, 1.0, True, 0.0 and -0.0 differ. Names are labels beside the graph: no value contains one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from symgrad.compiler.ir.attributes import Nested, freeze as freeze, key_of, plain, type_name
from symgrad.errors import GraphError
from symgrad.ops.promotion import wrapped
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE

INPUT, LITERAL, OUTPUT = "input", "literal", "output"
_table: weakref.WeakValueDictionary[Any, Value] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_SHOWN_IN_NOTEBOOKS = 200
"""A picture of more boxes is shown only to who asks for it."""


class Value:
    """One value of a graph; made by `intern` only. Operators are given to it in `symgrad.compiler.ir.builder`."""

    __slots__ = ("__weakref__", "args", "attrs", "dtype", "legal", "op", "row", "shape")

    op: str
    row: Row | None
    args: tuple[Any, ...]
    """Values, or None for an optional argument that was left out."""
    attrs: Mapping[str, Any]
    shape: Any
    dtype: Any
    legal: bool
    """Whether the verifier has looked at it: it is immutable, so once is enough."""

    __hash__ = object.__hash__
    __array_ufunc__ = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def value(self) -> Any:
        """The number of a literal."""
        return self.attrs["value"]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a graph value is immutable: cannot set {name!r}")

    def __bool__(self) -> bool:
        raise GraphError("a graph value has no truth value: it stands for numbers that are not there yet")

    def __repr__(self) -> str:
        return f"<{self.op} {type_text(self)}>"


_FILL = [Value.__dict__[name].__set__ for name in ("op", "row", "args", "attrs", "shape", "dtype", "legal")]


def intern(op: str, row: Row | None, args: tuple[Any, ...], attrs: Mapping[str, Any], shape: Any, dtype: Any) -> Value:
    """The one value of this structure."""
    if attrs.__class__ is not MappingProxyType:  # else they are those of another value
        attrs = plain(attrs)
    key = (op, id(row), tuple(map(id, args)), key_of(attrs) if attrs else None, shape, dtype)  # ids: the value keeps row and args alive
    with _lock:
        value = _table.get(key)
        if value is None:
            value = Value.__new__(Value)
            for fill, content in zip(_FILL, (op, row, args, attrs, shape, dtype, False), strict=True):
                fill(value, content)
            _table[key] = value
    return value


def input_value(index: int, shape: Iterable[int], dtype: Any) -> Value:
    """The input at a position."""
    return intern(INPUT, None, (), {"index": index}, tuple(map(int, shape)), np.dtype(dtype))


def literal(value: bool | int | float | complex, dtype: Any) -> Value:
    """A Python number, held as it was written, meant in the type `dtype`; what an integer type cannot hold wraps around."""
    dtype = np.dtype(dtype)
    return intern(LITERAL, None, (), {"value": wrapped(value, dtype)}, (), dtype)


def application(row: Row, args: tuple[Any, ...], attrs: Mapping[str, Any], meta: Meta | tuple[Meta, ...]) -> Value:
    """A row applied to values; with several outputs, shape and dtype are tuples."""
    if isinstance(meta, tuple):
        shapes = tuple(tuple(map(int, m.shape)) for m in meta)
        return intern(row.name, row, args, attrs, shapes, tuple(np.dtype(m.dtype) for m in meta))
    return intern(row.name, row, args, attrs, tuple(map(int, meta.shape)), np.dtype(meta.dtype))


def output(value: Value, index: int) -> Value:
    """One of the outputs of an application that has several."""
    return intern(OUTPUT, None, (value,), {"index": index}, value.shape[index], value.dtype[index])


class Graph(Nested):
    """A program: inputs in order, each with a label, and outputs. Everything between hangs off the outputs.

    `print(graph)` shows it as text, which `Graph.parse` reads back; `graph.draw()` as a picture. Equal graphs have the same inputs,
    outputs and labels."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    labels: tuple[str, ...]

    def __init__(self, inputs: Iterable[Value], outputs: Iterable[Value], labels: Iterable[str] | None = None) -> None:
        inputs = tuple(inputs)
        labels = tuple(labels) if labels is not None else tuple(f"x{i}" for i in range(len(inputs)))
        if len(labels) != len(inputs):
            raise GraphError(f"a graph with {len(inputs)} inputs needs as many labels, got {labels}")
        self.__dict__.update(inputs=inputs, outputs=tuple(outputs), labels=labels)

    @staticmethod
    def parse(text: str, rows: Mapping[str, Row] = TABLE) -> Graph:
        """The graph that was printed as this text; GraphError names the line and column of what is wrong. `rows` are the ops it may use."""
        from symgrad.compiler.ir.parser import parse

        return parse(text, rows)

    def draw(self, path: str | os.PathLike[str] | None = None, format: str | None = None, *, limit: int | None = None) -> str:
        """A picture of the graph, as the text of an SVG (which notebooks show) or, with format="mermaid", of a flowchart; written to `path`
        if there is one. Above `limit` boxes, by default 1,000 (300 for Mermaid, which draws no more), runs of elementwise operations are
        drawn as one; if that is not enough it is a GraphError."""
        from symgrad.compiler.drawing import draw

        return draw(self, path, format, limit)

    def _repr_svg_(self) -> str | None:
        try:
            return str(self.draw(limit=_SHOWN_IN_NOTEBOOKS))
        except GraphError:
            return None  # the text is shown instead

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All values, arguments first; the order depends on the structure alone."""
        return tuple(toposort(self.outputs))

    @cached_property
    def within(self) -> tuple[Graph, ...]:
        """The graphs of loops and branches."""
        return tuple(inner for v in self.values if v.attrs for inner in nested(v).values())

    @cached_property
    def hash(self) -> str:
        """A digest of the program: the same in every process, whatever the inputs are called."""
        number = {id(v): i for i, v in enumerate(self.values)}
        digest = blake2b(digest_size=16)
        for v in self.values:
            args = tuple(None if a is None else number[id(a)] for a in v.args)
            ours = v.row is TABLE.get(v.op)  # else it is a user's row, whatever its name
            if v.row is not None and v.row.foreign is not None:
                ours = v.row.foreign.digest
            digest.update(repr((v.op, ours, args, key_of(_digested(v.attrs)), v.shape, type_name(v.dtype))).encode())
        ends = [(x.shape, type_name(x.dtype)) for x in self.inputs], [number[id(v)] for v in self.outputs]
        digest.update(repr(ends).encode())
        return digest.hexdigest()

    def uses(self) -> dict[Value, int]:
        """How many times each value is read, as an argument or as an output."""
        count = dict.fromkeys(self.values, 0)
        arguments = (a for v in self.values for a in v.args if a is not None)
        for read in (*arguments, *self.outputs):
            count[read] += 1
        return count

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return True

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a graph is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a graph is immutable: cannot delete {name!r}")

    def _key(self) -> Any:
        return tuple(map(id, self.inputs)), tuple(map(id, self.outputs)), self.labels

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Graph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        from symgrad.compiler.ir.printer import text

        return text(self)

    __repr__ = __str__


def _digested(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes with the digests of graphs in their places."""
    if not any(isinstance(x, Graph) for x in attrs.values()):
        return attrs
    return cast(Mapping[str, Any], plain({k: ("graph", x.hash) if isinstance(x, Graph) else x for k, x in attrs.items()}))


def nested(v: Value) -> dict[str, Graph]:
    """The graphs that a loop or a branch holds, by the names of its attributes."""
    return {k: x for k, x in v.attrs.items() if isinstance(x, Graph)} if v.attrs and v.row is not None else {}


def walk(graph: Graph) -> Iterator[Value]:
    """All values of a graph, and of the graphs within it."""
    yield from graph.values
    for inner in graph.within:
        yield from walk(inner)


def toposort(outputs: Iterable[Value], until: Container[Value] = ()) -> list[Value]:
    """Everything that the outputs depend on, arguments first, without what lies below `until`; iterative, since graphs are deep."""
    order: list[Value] = []
    done: set[Value] = set()
    stack: list[tuple[Value, bool]] = [(v, False) for v in reversed(tuple(outputs))]
    while stack:
        value, expanded = stack.pop()
        if expanded:
            order.append(value)
        elif value not in done:
            done.add(value)
            stack.append((value, True))
            if value in until:
                continue
            stack.extend((a, False) for a in reversed(value.args) if a is not None and a not in done)
    return order


def type_text(x: Any) -> str:
    """`float32[2, 3]`; of an application with several outputs, or of several types, `(float32[2], int64[2])`."""
    if isinstance(x, tuple):
        return f"({', '.join(map(type_text, x))}{',' if len(x) == 1 else ''})"
    if isinstance(x.dtype, tuple):
        return type_text(tuple(map(Meta, x.shape, x.dtype)))
    return f"{x.dtype}{list(x.shape)}"


def is_literal(x: Any) -> bool:
    """Whether it is a number in the graph."""
    return isinstance(x, Value) and x.op == LITERAL


def row_of(value: Value) -> Row:
    """The row of an application."""
    return cast(Row, value.row)
