"""Packing of small tensors into shared arrays at the kernel boundary: `[w, b], [g, h] -> w ++ b, g ++ h`.

Every buffer that a kernel takes or returns costs time, whatever its size, and a network has many small ones. The tensors that a training
step writes to have the same layout as inputs and as outputs; the gradients that it leaves have arrays of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.graph import Graph, Value

SMALL_BYTES = 1 << 14
"""Bytes: copying more than this takes longer than passing another buffer."""
MAX_PER_BUFFER = 8
"""Maximal number of tensors in one array: XLA takes long to compile more."""
Group = tuple[int, ...]
Type = tuple[tuple[int, ...], Any]
"""Shape and dtype."""


@dataclass(frozen=True)
class Packing:
    """For each array that a kernel takes or returns: the inputs or outputs of its graph in it, in order."""

    inputs: tuple[Group, ...]
    outputs: tuple[Group, ...]

    @staticmethod
    def unpacked(graph: Graph) -> Packing:
        """Return the packing in which every input and output has its own array, in graph order."""
        return Packing(*(tuple([(i,) for i in range(len(values))]) for values in (graph.inputs, graph.outputs)))

    @staticmethod
    def of(graph: Graph, written: Mapping[int, int], gradients: Sequence[int], small: int = SMALL_BYTES) -> Packing:
        """Return the packing of a step. `written` maps inputs to the outputs that are their new values; `gradients` are outputs. All other
        inputs and outputs come first, each in its own array."""
        kept, left = _groups(graph.inputs, list(written), small), _groups(graph.outputs, gradients, small)
        others = set(range(len(graph.outputs))) - set(written.values()) - set(gradients)
        return Packing(
            (*((i,) for i in range(len(graph.inputs)) if i not in written), *kept),
            (*((i,) for i in sorted(others)), *(tuple([written[i] for i in group]) for group in kept), *left),
        )


def _groups(values: Sequence[Value], positions: Sequence[int], small: int) -> list[Group]:
    """Group small values by dtype; every other value is a group of its own."""
    found: dict[Any, list[int]] = {}
    for i in positions:
        if values[i].size * values[i].dtype.itemsize <= small:
            found.setdefault(values[i].dtype, []).append(i)
    together = [tuple(group[k : k + MAX_PER_BUFFER]) for group in found.values() for k in range(0, len(group), MAX_PER_BUFFER)]
    grouped = {i for group in together for i in group}
    return [*((i,) for i in positions if i not in grouped), *together]


def places(values: Sequence[Value], group: Group) -> list[slice | None]:
    """Return the slice of each value of a group in its array; None stands for the whole array."""
    if len(group) == 1:
        return [None]
    found: list[slice | None] = []
    start = 0
    for i in group:
        found.append(slice(start, start + values[i].size))
        start += values[i].size
    return found


def types(values: Sequence[Value], groups: Sequence[Group]) -> list[Type]:
    """Return the shape and dtype of the array of each group."""
    return [
        (values[group[0]].shape if len(group) == 1 else (sum(values[i].size for i in group),), values[group[0]].dtype) for group in groups
    ]
