"""The form of a structured matrix without its numbers: its rows and columns, and parts whose arrays are numbers of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from symgrad.pytree import LEAF, leaves_like, unflatten
from symgrad.structured.analysis import Structure, structure_of
from symgrad.structured.part import Part


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a matrix: the flattened elements of one tensor, or of several in a container."""

    shapes: tuple[tuple[int, ...], ...]
    structure: Any = LEAF
    labels: tuple[str, ...] = ()

    @cached_property
    def size(self) -> int:
        return sum(map(prod, self.shapes))

    @property
    def starts(self) -> list[int]:
        return [sum(map(prod, self.shapes[:n])) for n in range(len(self.shapes))]

    def stacked(self, given: Any, storage: Callable[[Any], Any], name: str) -> tuple[Any, tuple[int, ...]]:
        """Return vectors in the shape of this side as the columns of an array, with the trailing dimensions that say how many there are.
        Flat vectors are also taken. Raise ValueError if they do not fit."""
        leaves = [(given, name)]
        if self.structure is not LEAF and not hasattr(given, "shape"):
            leaves = list(leaves_like(self.structure, given, name))
        arrays = [np.asarray(storage(x)) for x, _ in leaves]
        if len(arrays) == 1 and arrays[0].ndim and len(arrays[0]) == self.size and (len(self.shapes) > 1 or not self._fits(arrays[0], 0)):
            return arrays[0].reshape(self.size, prod(arrays[0].shape[1:])), arrays[0].shape[1:]
        extra: set[tuple[int, ...]] = set()
        for n, (array, (_, where)) in enumerate(zip(arrays, leaves, strict=True)):
            if len(arrays) != len(self.shapes) or not self._fits(array, n):
                wanted = " and ".join(str(list(s)) for s in self.shapes)
                raise ValueError(f"{where} must have the shape {wanted}, then any dimensions for several vectors, got {list(array.shape)}")
            extra.add(array.shape[len(self.shapes[n]) :])
        if len(extra) != 1:
            raise ValueError(f"{name}: the parts have different numbers of vectors: {sorted(extra)}")
        (count,) = extra
        return np.concatenate([a.reshape(prod(s), prod(count)) for a, s in zip(arrays, self.shapes, strict=True)]), count

    def _fits(self, array: Any, n: int) -> bool:
        return bool(array.shape[: len(self.shapes[n])] == self.shapes[n])

    def unstacked(self, columns: Any, extra: tuple[int, ...], flat: bool) -> Any:
        """Return the inverse of `stacked`."""
        if flat:
            return columns.reshape((self.size, *extra))
        pieces = [columns[k : k + prod(s)].reshape((*s, *extra)) for k, s in zip(self.starts, self.shapes, strict=True)]
        return pieces[0] if self.structure is LEAF else unflatten(self.structure, pieces)


@dataclass(frozen=True, eq=False)
class Layout:
    """A matrix without its numbers: `parts` name arrays by their positions."""

    rows: Side
    columns: Side
    parts: tuple[Part, ...]
    dtype: Any
    reason: str = ""
    """Why the matrix is dense, if it has no normal form."""

    @cached_property
    def structure(self) -> Structure:
        return structure_of(self.parts, self.rows.size, self.columns.size)

    def bound(self, arrays: Sequence[Any]) -> tuple[Part, ...]:
        """Return the parts with their arrays."""
        return tuple(
            replace(
                p,
                factors=tuple(replace(f, array=arrays[f.array]) for f in p.factors),
                lookups=tuple(replace(f, array=arrays[f.array]) for f in p.lookups),
            )
            for p in self.parts
        )
