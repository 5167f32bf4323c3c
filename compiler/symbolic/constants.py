"""Captured constants as what they are: tensors without a name that are all zeros, all ones, another short number, or an identity matrix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.inputs.signature import array_of
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.subgraph import inline
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta

_UNNAMED = re.compile("c[0-9]+")
_LARGEST = 10**4
"""Number of elements up to which values are looked at."""


def with_constants(graph: Graph, captured: Sequence[Any]) -> Graph:
    """Return the graph with constants in place of its last inputs, the captured tensors; the inputs stay, unused."""
    first = len(graph.inputs) - len(captured)
    known = {i: v for i, t in enumerate(captured, start=first) if (v := _constant(graph.inputs[i], graph.labels[i], t)) is not None}
    if not known:
        return graph
    return Graph(graph.inputs, inline(graph, [known.get(i, x) for i, x in enumerate(graph.inputs)]), graph.labels)


def _constant(x: Value, label: str, tensor: Any) -> Value | None:
    """Return the value of a captured tensor as a number or an identity matrix, None for any other, or one with a name."""
    if not _UNNAMED.fullmatch(label) or tensor.requires_grad or kind(x.dtype) != "f" or not 0 < x.size <= _LARGEST or not x.shape:
        return None
    array = array_of(tensor)
    if not isinstance(array, np.ndarray):
        return None
    number = float(array.flat[0])
    if np.all(array == number) and number.is_integer() and abs(number) < 1000:
        return filled(xp, int(number), Meta(x.shape, x.dtype))
    rows = x.shape[0]
    if x.shape == (rows, rows) and rows > 1 and np.array_equal(array, np.eye(rows)):
        return xp.eye(rows=rows, columns=rows, dtype=x.dtype)
    return None
