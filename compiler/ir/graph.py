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
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from symgrad.compiler.ir.attributes import Nested, freeze as freeze, key_of, plain, type_name
from symgrad.errors import GraphError
from symgrad.ops.promotion import wrapped
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE

if TYPE_CHECKING:
    from symgrad.ops.signatures import Operators

    class ValueOperators(Operators["Value"]): ...
else:  # `symgrad.compiler.ir.builder` installs the operators
    ValueOperators = object

INPUT, LITERAL, OUTPUT = "input", "literal", "output"
_NO_ATTRIBUTES = key_of(plain({}))
SPREADS = frozenset(("expand", "reshape"))
"""Rows whose result is filled with the number that fills their argument."""
_table: weakref.WeakValueDictionary[Any, Value] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_SHOWN_IN_NOTEBOOKS = 200
"""Largest number of boxes that a notebook draws by default; call `draw()` for larger graphs."""


class Value(ValueOperators):
    """One value of a graph; create it with `intern` only. `symgrad.compiler.ir.builder` installs its operators."""

    __slots__ = ("__weakref__", "args", "attrs", "dtype", "known", "legal", "op", "row", "shape")

    op: str
    row: Row | None
    args: tuple[Any, ...]
    """Values, or None for an omitted optional argument."""
    attrs: Mapping[str, Any]
    shape: Any
    dtype: Any
    legal: bool
    """True once the verifier has checked the value; it is immutable, so one check is enough."""
    known: frozenset[str] | None
    """The facts about the value once `symgrad.compiler.ir.facts` has been asked for them, else None."""

    __hash__ = object.__hash__
    __array_ufunc__ = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def value(self) -> Any:
        """The Python number of a literal."""
        return self.attrs["value"]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a graph value is immutable: cannot set {name!r}")

    def __bool__(self) -> bool:
        raise GraphError("a graph value has no truth value: it stands for numbers that are not there yet")

    def __repr__(self) -> str:
        return f"<{self.op} {type_text(self)}>"


_FILL = [Value.__dict__[name].__set__ for name in ("op", "row", "args", "attrs", "shape", "dtype", "legal", "known")]


def intern(op: str, row: Row | None, args: tuple[Any, ...], attrs: Mapping[str, Any], shape: Any, dtype: Any) -> Value:
    """Return the unique value with this structure; create it if it does not exist yet."""
    if attrs.__class__ is not MappingProxyType:  # a mapping proxy comes from another value and is plain already
        attrs = plain(attrs)
    key = (op, id(row), tuple(map(id, args)), key_of(attrs) if attrs else None, shape, dtype)  # ids: the value keeps row and args alive
    with _lock:
        value = _table.get(key)
        if value is None:
            value = Value.__new__(Value)
            for fill, content in zip(_FILL, (op, row, args, attrs, shape, dtype, False, None), strict=True):
                fill(value, content)
            _table[key] = value
    return value


def input_value(index: int, shape: Iterable[int], dtype: Any) -> Value:
    """Return the input value at position `index`."""
    return intern(INPUT, None, (), {"index": index}, tuple(map(int, shape)), np.dtype(dtype))


def literal(value: bool | int | float | complex, dtype: Any) -> Value:
    """Return the literal for a Python number, stored as written and read in type `dtype`; integers out of range wrap around."""
    dtype = np.dtype(dtype)
    return intern(LITERAL, None, (), {"value": wrapped(value, dtype)}, (), dtype)


def application(row: Row, args: tuple[Any, ...], attrs: Mapping[str, Any], meta: Meta | tuple[Meta, ...]) -> Value:
    """Return the application of a row to values; with several outputs, its shape and dtype are tuples."""
    if isinstance(meta, tuple):
        shapes = tuple(tuple(map(int, m.shape)) for m in meta)
        return intern(row.name, row, args, attrs, shapes, tuple(np.dtype(m.dtype) for m in meta))
    return intern(row.name, row, args, attrs, tuple(map(int, meta.shape)), np.dtype(meta.dtype))


def output(value: Value, index: int) -> Value:
    """Return output `index` of an application that has several outputs."""
    return intern(OUTPUT, None, (value,), {"index": index}, value.shape[index], value.dtype[index])


def outputs_of(value: Value) -> Any:
    """Return an application as `apply` returns it: a tuple of its outputs if it has several, else the value itself."""
    return tuple([output(value, i) for i in range(len(value.dtype))]) if isinstance(value.dtype, tuple) else value


class Graph(Nested):
    """A program: inputs in order, each with a label, and outputs. All other values are reached from the outputs.

    `print(graph)` shows it as text, which `Graph.parse` reads back; `graph.draw()` draws it. Two graphs are equal if their inputs, outputs
    and labels are.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    labels: tuple[str, ...]

    def __init__(self, inputs: Iterable[Value], outputs: Iterable[Value], labels: Iterable[str] | None = None) -> None:
        inputs = tuple(inputs)
        labels = tuple(labels) if labels is not None else tuple([f"x{i}" for i in range(len(inputs))])
        if len(labels) != len(inputs):
            raise GraphError(f"a graph with {len(inputs)} inputs needs as many labels, got {labels}")
        self.__dict__.update(inputs=inputs, outputs=tuple(outputs), labels=labels)

    @staticmethod
    def parse(text: str, rows: Mapping[str, Row] = TABLE) -> Graph:
        """Parse the text of a printed graph, which may use the ops in `rows`. Raise GraphError with the line and column of the first
        error."""
        from symgrad.compiler.ir.parser import parse

        return parse(text, rows)

    def draw(self, path: str | os.PathLike[str] | None = None, format: str | None = None, *, limit: int | None = None) -> str:
        """Return a picture of the graph as SVG text (which notebooks show) or, with format="mermaid", as a Mermaid flowchart; also write
        it to `path` if one is given. Above `limit` boxes, by default 1,000 (300 for Mermaid, which limits the number of edges), each run
        of elementwise operations is drawn as one box; raise GraphError if there are still too many."""
        from symgrad.compiler.drawing import draw

        return draw(self, path, format, limit)

    def _repr_svg_(self) -> str | None:
        try:
            return str(self.draw(limit=_SHOWN_IN_NOTEBOOKS))
        except GraphError:
            return None  # the notebook shows the text instead

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All values, arguments before their users; the order depends on the structure alone."""
        return tuple(toposort(self.outputs))

    @cached_property
    def within(self) -> tuple[Graph, ...]:
        """The nested graphs of loops and branches, one level deep."""
        return tuple([inner for v in self.values if v.attrs for inner in nested(v).values()])

    @cached_property
    def ops(self) -> frozenset[str]:
        """The names of the ops of all values, also of nested graphs."""
        return frozenset({v.op for v in self.values}).union(*[inner.ops for inner in self.within])

    @cached_property
    def hash(self) -> str:
        """A digest of the program, independent of the process and of the input labels."""
        number = {id(v): i for i, v in enumerate(self.values)}
        digest = blake2b(digest_size=16)
        for v in self.values:
            args = tuple([None if a is None else number[id(a)] for a in v.args])
            ours = v.row is TABLE.get(v.op)  # else the row was defined by the user, whatever its name
            if v.row is not None and v.row.foreign is not None:
                ours = v.row.foreign.digest
            attrs = key_of(_digested(v.attrs)) if v.attrs else _NO_ATTRIBUTES
            digest.update(repr((v.op, ours, args, attrs, v.shape, type_name(v.dtype))).encode())
        ends = [(x.shape, type_name(x.dtype)) for x in self.inputs], [number[id(v)] for v in self.outputs]
        digest.update(repr(ends).encode())
        return digest.hexdigest()

    def uses(self) -> dict[Value, int]:
        """Return how many times each value is read, as an argument or as an output."""
        count = dict.fromkeys(self.values, 0)
        for v in self.values:
            for a in v.args:
                if a is not None:
                    count[a] += 1
        for v in self.outputs:
            count[v] += 1
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
    """Return the attributes with each graph replaced by its digest."""
    if not any([isinstance(x, Graph) for x in attrs.values()]):
        return attrs
    return cast(Mapping[str, Any], plain({k: ("graph", x.hash) if isinstance(x, Graph) else x for k, x in attrs.items()}))


def nested(v: Value) -> dict[str, Graph]:
    """Return the nested graphs of a loop or a branch by attribute name; empty for other values."""
    return {k: x for k, x in v.attrs.items() if isinstance(x, Graph)} if v.attrs and v.row is not None else {}


def walk(graph: Graph) -> Iterator[Value]:
    """Iterate over all values of a graph and, recursively, of its nested graphs."""
    return chain(graph.values, chain.from_iterable(map(walk, graph.within)))


def toposort(outputs: Iterable[Value], until: Container[Value] = ()) -> list[Value]:
    """Return the values that the outputs depend on, arguments first; the arguments of values in `until` are not followed. Iterative, since
    graphs are deep."""
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
            stack += [(a, False) for a in reversed(value.args) if a is not None and a not in done]
    return order


def type_text(x: Any) -> str:
    """Return the type as text: `float32[2, 3]`; for several outputs or a tuple of types, `(float32[2], int64[2])`."""
    if isinstance(x, tuple):
        return f"({', '.join(map(type_text, x))}{',' if len(x) == 1 else ''})"
    if isinstance(x.dtype, tuple):
        return type_text(tuple(map(Meta, x.shape, x.dtype)))
    return f"{x.dtype}{list(x.shape)}"


def is_literal(x: Any) -> bool:
    """True if x is a literal of a graph."""
    return isinstance(x, Value) and x.op == LITERAL


def number(x: Any) -> Any:
    """Return the Python number that fills a value, or None if none is known to."""
    while isinstance(x, Value) and x.op in SPREADS:
        x = x.args[0]
    return x.value if is_literal(x) else None


def row_of(value: Value) -> Row:
    """Return the row of an application."""
    return cast(Row, value.row)
