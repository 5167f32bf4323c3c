"""Small tensors that go in and out of a kernel in one array: `[w, b], [g, h] -> w ++ b, g ++ h`.

Every buffer that a kernel takes or gives costs time, whatever its size, and a net has many small ones. What a step of training writes to
comes in and goes out in the same place; the gradients that it leaves have arrays of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.graph import Graph, Value

SMALL_BYTES = 1 << 14
"""Bytes: copying more than that takes longer than another buffer would."""
MAX_PER_BUFFER = 8
"""Tensors in one array: XLA takes long to compile more."""
Group = tuple[int, ...]
Type = tuple[tuple[int, ...], Any]
"""Shape and dtype."""


@dataclass(frozen=True)
class Packing:
    """For each array that a kernel takes or gives: which inputs or outputs of its graph are in it, one after the other."""

    inputs: tuple[Group, ...]
    outputs: tuple[Group, ...]

    @staticmethod
    def unpacked(graph: Graph) -> Packing:
        """Each by itself, as they come."""
        return Packing(*(tuple((i,) for i in range(len(values))) for values in (graph.inputs, graph.outputs)))

    @staticmethod
    def of(graph: Graph, written: Mapping[int, int], gradients: Sequence[int], small: int = SMALL_BYTES) -> Packing:
        """`written` tells which output is the new value of an input. First come all others, by themselves."""
        kept, left = _groups(graph.inputs, list(written), small), _groups(graph.outputs, gradients, small)
        others = set(range(len(graph.outputs))) - set(written.values()) - set(gradients)
        return Packing(
            (*((i,) for i in range(len(graph.inputs)) if i not in written), *kept),
            (*((i,) for i in sorted(others)), *(tuple(written[i] for i in group) for group in kept), *left),
        )


def _groups(values: Sequence[Value], positions: Sequence[int], small: int) -> list[Group]:
    """Small ones of one type together, the others each by itself."""
    found: dict[Any, list[int]] = {}
    for i in positions:
        if values[i].size * values[i].dtype.itemsize <= small:
            found.setdefault(values[i].dtype, []).append(i)
    together = [tuple(group[k : k + MAX_PER_BUFFER]) for group in found.values() for k in range(0, len(group), MAX_PER_BUFFER)]
    grouped = {i for group in together for i in group}
    return [*((i,) for i in positions if i not in grouped), *together]


def places(values: Sequence[Value], group: Group) -> list[slice | None]:
    """Where in its array each one is; None is all of it."""
    if len(group) == 1:
        return [None]
    found: list[slice | None] = []
    start = 0
    for i in group:
        found.append(slice(start, start + values[i].size))
        start += values[i].size
    return found


def types(values: Sequence[Value], groups: Sequence[Group]) -> list[Type]:
    """Of each array."""
    return [
        (values[group[0]].shape if len(group) == 1 else (sum(values[i].size for i in group),), values[group[0]].dtype) for group in groups
    ]
