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
