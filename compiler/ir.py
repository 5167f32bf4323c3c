"""The frozen graph: immutable, typed values, one object for each structure.

    Graph --outputs--> Value --args--> Value --args--> ... --> input | literal

A value is an application of a row, an input (a position, with no name), a literal (a Python number in a stated type), or one output
of a row that has several (then `shape` and `dtype` of the application are tuples, as they are in the recorded graph).
Structurally equal values are the same object, so common subexpressions are shared by construction and `is` compares programs.
Interning compares types and bits: 1, 1.0, True, 0.0 and -0.0 differ. Names are labels beside the graph: no value contains one.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from types import EllipsisType, MappingProxyType
from typing import Any, cast

import numpy as np

from symgrad.errors import GraphError
from symgrad.ops.spec import Meta, Row

INPUT, LITERAL, OUTPUT = "input", "literal", "output"
_table: weakref.WeakValueDictionary[Any, Value] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class Value:
    """One value of a graph; made by `intern` only. Operators are given to it in `symgrad.compiler.builder`."""

    __slots__ = ("__weakref__", "args", "attrs", "dtype", "op", "row", "shape")

    op: str
    row: Row | None
    args: tuple[Any, ...]
    """Values, or None for an optional argument that was left out."""
    attrs: Mapping[str, Any]
    shape: Any
    dtype: Any

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


def intern(op: str, row: Row | None, args: tuple[Any, ...], attrs: Mapping[str, Any], shape: Any, dtype: Any) -> Value:
    """The one value of this structure."""
    key = (op, id(row), tuple(map(id, args)), freeze(dict(attrs)), shape, str(dtype))  # ids: the value keeps row and args alive
    with _lock:
        value = _table.get(key)
        if value is None:
            value = Value.__new__(Value)
            slots = {"op": op, "row": row, "args": args, "attrs": MappingProxyType(dict(attrs)), "shape": shape, "dtype": dtype}
            for name, content in slots.items():
                object.__setattr__(value, name, content)
            _table[key] = value
    return value


def input_value(index: int, shape: Iterable[int], dtype: Any) -> Value:
    """The input at a position."""
    return intern(INPUT, None, (), {"index": index}, tuple(map(int, shape)), np.dtype(dtype))


def literal(value: bool | int | float | complex, dtype: Any) -> Value:
    """A Python number, held as it was written, meant in the type `dtype`."""
    return intern(LITERAL, None, (), {"value": value}, (), np.dtype(dtype))


def application(row: Row, args: tuple[Any, ...], attrs: Mapping[str, Any], meta: Meta | tuple[Meta, ...]) -> Value:
    """A row applied to values; with several outputs, shape and dtype are tuples."""
    if isinstance(meta, tuple):
        shapes = tuple(tuple(map(int, m.shape)) for m in meta)
        return intern(row.name, row, args, attrs, shapes, tuple(np.dtype(m.dtype) for m in meta))
    return intern(row.name, row, args, attrs, tuple(map(int, meta.shape)), np.dtype(meta.dtype))


def output(value: Value, index: int) -> Value:
    """One of the outputs of an application that has several."""
    return intern(OUTPUT, None, (value,), {"index": index}, value.shape[index], value.dtype[index])


def freeze(x: Any) -> Any:
    """A hashable key of an attribute that tells types and bits apart, and is the same in every process."""
    if x is None or isinstance(x, EllipsisType):
        return repr(x)
    if isinstance(x, (bool, int, str)):
        return type(x).__name__, x
    if isinstance(x, float):
        return "float", struct.pack("<d", x)
    if isinstance(x, complex):
        return "complex", struct.pack("<dd", x.real, x.imag)
    if isinstance(x, (tuple, list)):
        return "tuple", tuple(map(freeze, x))
    if isinstance(x, Mapping):
        return "mapping", tuple((k, freeze(x[k])) for k in sorted(x))
    if isinstance(x, slice):
        return "slice", freeze((x.start, x.stop, x.step))
    if isinstance(x, (np.ndarray, np.generic)):
        return "array", str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, (np.dtype, type)) or hasattr(x, "dtype"):
        return "dtype", str(np.dtype(getattr(x, "dtype", x) if not isinstance(x, np.dtype) else x))
    raise GraphError(f"a graph cannot hold an attribute of type {type(x).__name__}: {x!r}")


class Graph:
    """A program: inputs in order, each with a label, and outputs. Everything between hangs off the outputs."""

    def __init__(self, inputs: Iterable[Value], outputs: Iterable[Value], labels: Iterable[str] | None = None) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.labels = tuple(labels) if labels is not None else tuple(f"x{i}" for i in range(len(self.inputs)))
        if len(self.labels) != len(self.inputs):
            raise GraphError(f"a graph with {len(self.inputs)} inputs needs as many labels, got {self.labels}")

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All values, arguments first; the order depends on the structure alone."""
        return tuple(toposort(self.outputs))

    @cached_property
    def hash(self) -> str:
        """A digest of the program: the same in every process, whatever the inputs are called."""
        number = {id(v): i for i, v in enumerate(self.values)}
        digest = blake2b(digest_size=16)
        for v in self.values:
            args = tuple(None if a is None else number[id(a)] for a in v.args)
            digest.update(repr((v.op, args, freeze(v.attrs), v.shape, str(v.dtype))).encode())
        ends = [(x.shape, str(x.dtype)) for x in self.inputs], [number[id(v)] for v in self.outputs]
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


def toposort(outputs: Iterable[Value]) -> list[Value]:
    """Everything that the outputs depend on, arguments first; iterative, since graphs are deep."""
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
            stack.extend((a, False) for a in reversed(value.args) if a is not None and a not in done)
    return order


def type_text(x: Any) -> str:
    """`float32[2, 3]`."""
    if isinstance(x.dtype, tuple):
        return ", ".join(f"{d}{list(s)}" for s, d in zip(x.shape, x.dtype, strict=True))
    return f"{x.dtype}{list(x.shape)}"


def is_literal(x: Any) -> bool:
    """Whether it is a number in the graph."""
    return isinstance(x, Value) and x.op == LITERAL


def row_of(value: Value) -> Row:
    """The row of an application."""
    return cast(Row, value.row)
