"""One part of a structured matrix: a product of factors, added to the elements that two places name, for all values of some labels.

    H[row(labels), column(labels)] += coefficient · Π factor[labels],  summed over the labels in neither place

Rows and columns are numbered as in the flattened matrix. A diagonal has places (i, i), a band (i, i + 1), a full matrix (i, j), blocks of
size 5 (5 i + j, 5 i + k) with a factor [i, j, k], Kronecker products with one factor [j, k], products of low rank two factors that share a
label which no place has, and gathers places that look up index tensors.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """The number of a row or column: constant + Σ step · label + Σ step · looked-up index."""

    constant: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    """Pairs of a label and its step."""
    lookups: tuple[tuple[int, int], ...] = ()
    """Pairs of a position in `Part.lookups` and its step."""

    def shifted(self, by: int) -> Place:
        return replace(self, constant=self.constant + by)


@dataclass(frozen=True, eq=False)
class Factor:
    """An array with a label for each dimension. In a layout, `array` is the number of the array."""

    array: Any
    labels: Labels


@dataclass(frozen=True)
class Lookup:
    """An index tensor with a label for each dimension; negative indices count from `size`."""

    array: Any
    labels: Labels
    size: int


@dataclass(frozen=True, eq=False)
class Part:
    """A product of factors at places: see the module."""

    sizes: tuple[int, ...]
    """The sizes of the labels, which are numbered."""
    row: Place
    column: Place
    factors: tuple[Factor, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    coefficient: float = 1
    text: str = ""
    """How the part is made, such as `X' diag(s) X`, if that is known."""
    rank_labels: Labels = field(default=())
    """The labels that link the factors of a product of low rank."""

    @property
    def rank(self) -> int:
        return prod(self.sizes[i] for i in self.rank_labels)

    def labels_of(self, place: Place) -> Labels:
        """Return the labels that a place depends on, in order."""
        found = {label for label, _ in place.steps}
        for n, _ in place.lookups:
            found.update(self.lookups[n].labels)
        return tuple(sorted(found))

    @cached_property
    def rows(self) -> Labels:
        return self.labels_of(self.row)

    @cached_property
    def columns(self) -> Labels:
        return self.labels_of(self.column)

    @cached_property
    def placed(self) -> Labels:
        """The labels of the elements: those that a place depends on."""
        return tuple(sorted({*self.rows, *self.columns}))

    @property
    def count(self) -> int:
        """How many elements the part writes."""
        return prod(self.sizes[i] for i in self.placed)

    @property
    def stored(self) -> int:
        """How many numbers the factors have."""
        return sum(prod(self.sizes[i] for i in f.labels) for f in self.factors)

    @cached_property
    def is_zero(self) -> bool:
        return not all(self.sizes) or self.coefficient == 0

    def transposed(self) -> Part:
        return replace(self, row=self.column, column=self.row)

    # values

    def product(self, labels: Labels, extra: Sequence[tuple[Any, Labels]] = (), sizes: Sequence[int] | None = None) -> Any:
        """Return the product of the factors and extra ones as an array with these labels, summed over all others."""
        sizes = self.sizes if sizes is None else sizes
        operands = [*((f.array, f.labels) for f in self.factors), *extra]
        have = tuple(i for i in labels if any(i in known for _, known in operands))
        if not operands:
            return np.broadcast_to(np.asarray(self.coefficient, float), tuple(sizes[i] for i in labels))
        if len(operands) == 1 and operands[0][1] == have:
            result = operands[0][0]
        else:
            wanted = "".join(string.ascii_letters[i] for i in have)
            given = ",".join("".join(string.ascii_letters[i] for i in known) for _, known in operands)
            result = np.einsum(f"{given}->{wanted}", *(a for a, _ in operands), optimize=len(operands) > 1)
        if self.coefficient != 1:
            result = result * np.asarray(self.coefficient, result.dtype)
        result = np.reshape(result, tuple(sizes[i] if i in have else 1 for i in labels))
        return np.broadcast_to(result, tuple(sizes[i] for i in labels))

    def numbers(self, place: Place, labels: Labels) -> Any:
        """Return the row or column numbers as an array that broadcasts against the sizes of these labels."""

        def shape(known: Labels) -> tuple[int, ...]:
            return tuple(self.sizes[i] if i in known else 1 for i in labels)

        total: Any = np.full((1,) * len(labels), place.constant)
        for label, step in place.steps:
            total = total + step * np.arange(self.sizes[label]).reshape(shape((label,)))
        for n, step in place.lookups:
            found = self.lookups[n]
            indices = np.where(found.array < 0, found.array + found.size, found.array)
            order = [found.labels.index(i) for i in labels if i in found.labels]
            total = total + step * indices.transpose(order).reshape(shape(found.labels))
        return total

    def matvec(self, v: Any, out: Any) -> None:
        """Add the product with the columns of v to the columns of `out`."""
        extra = len(self.sizes)
        sizes = (*self.sizes, v.shape[1])
        if self.column.lookups:
            chosen = v[np.broadcast_to(self.numbers(self.column, self.columns), [self.sizes[i] for i in self.columns])]
        else:
            chosen = _strided(v, self.column, self.columns, self.sizes)
        found = self.product((*self.rows, extra), [(chosen, (*self.columns, extra))], sizes)
        if self.is_plain(self.row, self.rows):
            _strided(out, self.row, self.rows, self.sizes)[...] += found
        else:
            rows = np.broadcast_to(self.numbers(self.row, self.rows), found.shape[:-1])
            np.add.at(out, rows, found)

    def is_plain(self, place: Place, labels: Labels) -> bool:
        """True if different labels name different numbers without looking up any."""
        return not place.lookups and len(place.steps) == len(labels) and is_injective([(step, self.sizes[i]) for i, step in place.steps])

    def add_to(self, dense: Any) -> None:
        """Add the part to a matrix, which is contiguous."""
        width = dense.shape[1]
        if not self.row.lookups and not self.column.lookups:
            rows, columns = dict(self.row.steps), dict(self.column.steps)
            steps = tuple((i, rows.get(i, 0) * width + columns.get(i, 0)) for i in self.placed)
            if is_injective([(step, self.sizes[i]) for i, step in steps]):
                place = Place(self.row.constant * width + self.column.constant, steps)
                _strided(dense.reshape(-1, 1), place, self.placed, self.sizes)[..., 0] += self.product(self.placed)
                return
        row, column, values = self.coo()
        np.add.at(dense, (row, column), values)

    def coo(self) -> tuple[Any, Any, Any]:
        """Return row numbers, column numbers and values of all elements; an element may occur several times."""
        shape = tuple(self.sizes[i] for i in self.placed)
        numbers = [np.broadcast_to(self.numbers(place, self.placed), shape).ravel() for place in (self.row, self.column)]
        return numbers[0], numbers[1], self.product(self.placed).ravel()

    def side(self, place: Place, size: int) -> Any:
        """Return one side of a product of low rank, the row side or the column side, as a matrix with one column for each combination of
        the labels that link them."""
        labels = self.labels_of(place)
        mine = [f for f in self.factors if set(f.labels) & set(labels)]
        shape = tuple(self.sizes[i] for i in labels)
        found = Part(self.sizes, place, Place(), tuple(mine)).product((*labels, *self.rank_labels)).reshape(*shape, self.rank)
        result = np.zeros((size, self.rank), found.dtype)
        if not self.lookups and self.is_plain(place, labels):
            _strided(result, place, labels, self.sizes)[...] = found
        else:
            np.add.at(result, np.broadcast_to(self.numbers(place, labels), shape), found)
        return result

    def middle(self) -> Any:
        """Return the diagonal between the two sides of a product of low rank."""
        placed = set(self.placed)
        mine = tuple(f for f in self.factors if not set(f.labels) & placed)
        return Part(self.sizes, Place(), Place(), mine, coefficient=self.coefficient).product(self.rank_labels).reshape(-1)

    def bandwidth(self) -> tuple[int, int] | None:
        """Return the least and the greatest column number minus row number, or None if that is not known without looking up indices."""
        if self.row.lookups != self.column.lookups:
            return None
        steps: dict[int, int] = dict(self.column.steps)
        for label, step in self.row.steps:
            steps[label] = steps.get(label, 0) - step
        low = high = self.column.constant - self.row.constant
        for label, step in steps.items():
            reach = step * (self.sizes[label] - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high


def is_injective(steps: Iterable[tuple[int, int]]) -> bool:
    """True if Σ step · label differs for all combinations of labels with these steps and sizes, by the order of the steps alone."""
    reach = 0
    for step, size in sorted((abs(step), size) for step, size in steps if size > 1):
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True


def _strided(flat: Any, place: Place, labels: Labels, sizes: Sequence[int]) -> Any:
    """Return flat[place], with the trailing dimensions of `flat`, as a view. The place has no lookups."""
    steps = dict(place.steps)
    reach = [steps[i] * (sizes[i] - 1) for i in labels]
    low, high = place.constant + sum(min(r, 0) for r in reach), place.constant + sum(max(r, 0) for r in reach)
    if low < 0 or high >= len(flat):
        raise IndexError(f"places from {low} to {high} in {len(flat)} rows")
    width, *rest = flat.strides
    shape = (*(sizes[i] for i in labels), *flat.shape[1:])
    return as_strided(flat[place.constant :], shape, (*(steps[i] * width for i in labels), *rest))
