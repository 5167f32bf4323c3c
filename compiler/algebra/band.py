"""Bands: the nonzeros of a sparse Jacobian on one grid, with arrays for their columns and values.

The rows of a band are a box: in the row-major order of the tensor, every `step`-th index from `start` to `stop` along each dimension of
`view`. So slices, paddings and reshapes keep values contiguous, and a diagonal of any offset is one elementwise expression. Rows of no such
form, which an index tensor names, are listed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.elements.grouping import groups
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import Value, input_value
from symgrad.typing import Array

Range = tuple[int, int, int]
"""Start, stop and step; the last index is stop - 1."""
Pick = tuple[int, int, int] | int
"""What to keep along one dimension of a grid: a range of positions, or a single one, which removes the dimension."""


class NotBoxed(Exception):  # a refusal that the rules catch, never an error that users see
    """The rows are no box after this step: list them."""


@dataclass(frozen=True, eq=False)
class Band:
    """Nonzeros on a grid of `sizes`: some extra dimensions, and one for each dimension of `view`."""

    view: tuple[int, ...]
    """A factorization of the size of the tensor; empty if the rows are listed."""
    box: tuple[Range, ...]
    sizes: tuple[int, ...]
    cols: Array
    """The column of each nonzero; it has as many dimensions as `sizes` and broadcasts to it."""
    value: Any
    """A number, a graph value (with as many dimensions as `sizes`, to which it broadcasts), or None if there is no closed form."""
    rows: Any = None
    """The row of each nonzero, if they are listed; then there is one dimension."""

    @property
    def extra(self) -> int:
        return len(self.sizes) - len(self.view) if self.rows is None else 0

    @property
    def count(self) -> int:
        return prod(self.sizes)

    @property
    def is_whole(self) -> bool:
        """True if the box is the whole view."""
        return self.rows is None and all(r == (0, n, 1) for r, n in zip(self.box, self.view, strict=True))

    def row_numbers(self) -> Any:
        """Return the row of each nonzero, broadcast to `sizes`."""
        if self.rows is not None:
            return self.rows
        found, inner = np.zeros((1,) * len(self.view), np.int64), 1
        for d in reversed(range(len(self.view))):
            place = np.arange(*self.box[d], dtype=np.int64) * inner
            found = found + place.reshape(-1, *(1,) * (len(self.view) - 1 - d))
            inner *= self.view[d]
        return np.broadcast_to(found, self.sizes)

    def listed(self) -> Band:
        """Return the band with its rows listed."""
        if self.rows is not None:
            return self
        rows, cols = self.row_numbers().reshape(-1), np.broadcast_to(self.cols, self.sizes).reshape(-1)
        value = self.value
        if isinstance(value, Value):
            value = reshaped(xp.expand(value, shape=self.sizes), (self.count,))
        return Band((), (), (self.count,), cols, value, rows)


@dataclass
class Constants:
    """The index tensors in the values of bands: inputs of the graph, numbered behind those of the program."""

    start: int
    arrays: list[Array] = field(default_factory=list)

    def value(self, array: Array) -> Value:
        """Return the input for an array."""
        k = next((k for k, known in enumerate(self.arrays) if known is array), len(self.arrays))
        if k == len(self.arrays):
            self.arrays.append(array)
        return input_value(self.start + k, array.shape, array.dtype)

    def taken(self, v: Value, places: Array) -> Value:
        """Return the elements of a vector at these places."""
        if places.size == v.size and np.array_equal(places, np.arange(v.size)):
            return v
        return xp.index_select(v, self.value(places), axis=0)


def distinct(numbers: Array) -> Array:
    """Return the different numbers in order, as np.unique does more slowly for numbers that are nearly in order."""
    ordered = np.sort(numbers, axis=None, kind="stable")
    found: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def whole(shape: Sequence[int]) -> tuple[Range, ...]:
    return tuple((0, n, 1) for n in shape)


def identity(x: Value) -> Band:
    """Return the Jacobian of a tensor in itself."""
    return Band(x.shape, whole(x.shape), x.shape, np.arange(x.size, dtype=np.int64).reshape(x.shape), 1.0)


def opaque(shape: tuple[int, ...], cols: Array) -> Band:
    """Return a band without closed form that has all these columns in each row of a tensor of this shape."""
    return Band(shape, whole(shape), (len(cols), *shape), cols.reshape(-1, *(1,) * len(shape)), None)


def reshaped(v: Value, shape: tuple[int, ...]) -> Value:
    return v if v.shape == shape else xp.reshape(v, shape=shape)


# values


def scaled(band: Band, slope: Value, shape: tuple[int, ...], constants: Constants) -> Band | None:
    """Return the band of f(a) from that of a, where `slope` is the derivative of an elementwise f of this shape; None if it is 0."""
    constant = number(slope)
    if constant is not None:
        if constant == 0:
            return None
        return band if band.value is None else replace(band, value=times(band.value, constant))
    if band.value is None:
        return band
    slope = xp.expand(slope, shape=shape) if slope.shape != shape else slope
    if band.rows is not None:
        return replace(band, value=times(band.value, constants.taken(reshaped(slope, (slope.size,)), band.rows)))
    slope = reshaped(slope, band.view)
    if not band.is_whole:
        slope = xp.getitem(slope, index=band.box)
    return replace(band, value=times(band.value, reshaped(slope, (*(1,) * band.extra, *slope.shape))))


def times(a: Any, b: Any) -> Any:
    """Return the product of numbers and values."""
    if isinstance(b, Value) and not isinstance(a, Value):
        a, b = b, a
    return a if not isinstance(b, Value) and b == 1 else a * b


def plus(a: Any, b: Any) -> Any:
    """Return the sum of the values of two bands; None if one of them has no closed form."""
    return None if a is None or b is None else a + b


# the grid


def fitted(band: Band, shape: tuple[int, ...]) -> Band:
    """Return the band with `shape` as its view; raise NotBoxed if its rows are no box of it."""
    if band.rows is not None:
        raise NotBoxed
    if band.view == shape:
        return band
    box: list[Range] = []
    lead = band.sizes[: band.extra]
    sizes, cols, values = [*lead], [*band.cols.shape[: band.extra]], []
    has_value = isinstance(band.value, Value)
    if has_value:
        values += band.value.shape[: band.extra]
    for before, after in groups(band.view, shape):
        start, stop = _flat(band, before)
        ranges = _unflat(start, stop, [shape[d] for d in after])
        counts = [b - a for a, b, _ in ranges]
        box += ranges
        sizes += counts
        cols += _regrouped([band.cols.shape[band.extra + d] for d in before], stop - start, counts)
        if has_value:
            values += _regrouped([band.value.shape[band.extra + d] for d in before], stop - start, counts)
    value = reshaped(band.value, tuple(values)) if has_value else band.value
    return Band(shape, tuple(box), tuple(sizes), band.cols.reshape(cols), value)


def _flat(band: Band, dims: Sequence[int]) -> tuple[int, int]:
    """Return the range of flat positions of a box in some dimensions; raise NotBoxed if it is no range."""
    start, stop, inner = 0, 1, 1
    is_whole = True
    for d in reversed(dims):
        first, last, step = band.box[d]
        n = band.view[d]
        if step != 1 or (not is_whole and last - first > 1):
            raise NotBoxed
        start, stop = start + first * inner, stop + (last - 1) * inner
        is_whole = is_whole and (first, last) == (0, n)
        inner *= n
    return start, stop


def _unflat(start: int, stop: int, shape: Sequence[int]) -> list[Range]:
    """Return a range of flat positions as a box; raise NotBoxed if it is none."""
    found: list[Range] = []
    for d in range(len(shape)):
        inner = prod(shape[d + 1 :])
        first, last = start // inner, (stop - 1) // inner
        if last - first > 0 and (start % inner or stop % inner):
            raise NotBoxed
        found.append((first, last + 1, 1))
        if last - first > 0:
            return found + [(0, m, 1) for m in shape[d + 1 :]]
        start, stop = start - first * inner, stop - first * inner
    return found


def _regrouped(given: Sequence[int], count: int, counts: list[int]) -> list[int]:
    """Return the shape of an array along some dimensions after a reshape: all 1 if it is broadcast there."""
    if prod(given) == count:
        return counts
    if prod(given) != 1:
        raise NotBoxed
    return [1] * len(counts)


def picked(band: Band, picks: Sequence[Pick], view: tuple[int, ...], box: Sequence[Range]) -> Band:
    """Return the part of the grid of a band that `picks` selects along the dimensions of its view, with another view and box."""
    cols = band.cols[(..., *(_slice(p, n) for p, n in zip(picks, band.cols.shape[band.extra :], strict=True)))]
    sizes = (*band.sizes[: band.extra], *(len(range(*p)) for p in picks if not isinstance(p, int)))
    value = band.value
    if isinstance(value, Value):
        lead = value.shape[: band.extra]
        index = tuple(_within(p, n) for p, n in zip(picks, value.shape[band.extra :], strict=True))
        if any(i != (0, n, 1) for i, n in zip(index, value.shape[band.extra :], strict=True)):
            value = xp.getitem(value, index=(*whole(lead), *index))
    return Band(view, tuple(box), sizes, cols, value)


def _within(pick: Pick, n: int) -> Pick:
    """Return the pick along a dimension of n positions, of which there is one if the array is broadcast."""
    if isinstance(pick, int):
        return 0 if n == 1 else pick
    return (0, min(n, len(range(*pick))), 1) if n == 1 else pick


def _slice(pick: Pick, n: int) -> Any:
    pick = _within(pick, n)
    return pick if isinstance(pick, int) else slice(*pick)


def with_view(band: Band, view: tuple[int, ...], box: Sequence[Range], order: Sequence[int | None]) -> Band:
    """Return the band with the dimensions of its grid in another order, where None is a new one of size 1. Numbers count all dimensions of
    the grid."""
    old = [d for d in order if d is not None]

    def arranged(shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(1 if d is None else shape[d] for d in order)

    cols = band.cols.transpose(old).reshape(arranged(band.cols.shape))
    value = band.value
    if isinstance(value, Value):
        shape = arranged(value.shape)
        value = reshaped(value if old == sorted(old) else xp.permute(value, axes=tuple(old)), shape)
    return Band(view, tuple(box), arranged(band.sizes), cols, value)
