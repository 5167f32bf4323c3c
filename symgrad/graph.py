"""The recorded graph.

    Tensor --_node--> Node --inputs--> Node | Output(node, i) | leaf Tensor | Constant | Python scalar

A node never points at the tensor that it made, and a leaf tensor points at no node, so there are no reference cycles.
Every edge that is not a scalar has `.shape` and `.dtype`: that is all a rule may ask of an argument whose values it did not save.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from symgrad.ops.spec import Row

next_sequence = itertools.count().__next__


class Node:
    """One recorded application of a row.

    `saved` holds the arguments: arrays where a rule reads values, edges elsewhere; `out` the result if a rule reads it.
    `cells` are the version cells of what was saved: a cell that is no longer empty says that its array was written to since.
    The dispatcher fills the slots itself: calling `__init__` would cost a tenth of a small op.
    """

    __slots__ = ("__weakref__", "attrs", "cells", "dtype", "hooks", "inputs", "origin", "out", "row", "saved", "sequence", "shape")

    row: Row
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    saved: tuple[Any, ...] | None
    out: Any
    cells: tuple[list[Any], ...] | None
    shape: Any
    dtype: Any
    sequence: int
    hooks: Any
    origin: Any

    def name(self) -> str:
        return self.row.title(self)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


NODES: set[type] = {Node}
"""Node, and the classes that bear the names of nodes which somebody has looked at."""


def is_node(edge: Any) -> bool:
    """True for an edge to the only output of a node."""
    return edge.__class__ in NODES


_named: dict[tuple[type, str], type] = {}


def named(node: Node) -> Node:
    """The same node, of a class that bears its name, so that `type(t.grad_fn).__name__` is PyTorch's. It gets it when it is looked at."""
    base, name = node.__class__, node.name()
    if base.__name__ == name:
        return node
    found = _named.get((base, name))
    if found is None:
        found = _named[base, name] = type(name, (base,), {"__slots__": ()})
        if base in NODES:
            NODES.add(found)
    node.__class__ = found
    return node


_ALL_COUNT = frozenset(
    ("add", "sub", "mul", "div", "where", "maximum", "minimum", "convolution", "convolution_transpose", "affine_norm", "normalize_by")
)
"""Rows in which a Python number, or a parameter that is not given, has a place among the inputs of PyTorch's node."""


_ORDER = {"linear": ([0, 1, 2], [2, 0, 1]), "normalize_by": ([0, 1, 2, 3, 4], [0, 3, 4])}
"""Rows whose inputs, if all are there, PyTorch's node has in another order."""


def input_order(node: Node) -> list[int]:
    """Which inputs of a node PyTorch's has, and in what order: those with a derivative, the bias of a linear map first."""
    row, inputs = node.row, node.inputs
    if row.pullback is not None:
        return [i for i, edge in enumerate(inputs) if edge is not None]
    numbers = row.name in _ALL_COUNT
    kept = [i for i, edge in enumerate(inputs) if row.rule(i) is not None and (numbers or hasattr(edge, "shape"))]
    every, order = _ORDER.get(row.name, (None, kept))
    return order if kept == every else kept


class Output:
    """An edge to one output of a node that has several; there `shape` and `dtype` of the node are tuples."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.node.shape[self.index]
        return shape

    @property
    def dtype(self) -> Any:
        return self.node.dtype[self.index]


ARRAYS: set[type] = {np.ndarray}
"""What a node saves of a tensor: its array. A compiler adds the class of its buffers, which stand for arrays on a device."""


class Constant:
    """An edge to a tensor that needs no gradient: what a formula must know of it, without its values. One number is known."""

    __slots__ = ("dtype", "name", "shape", "value")

    def __init__(self, shape: tuple[int, ...], dtype: Any, name: str | None = None, value: Any = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.value = value
