"""What rows that move elements do to bands whose rows are boxes: a slice of a box is a box.

Each function returns the band of the result from that of the argument, or None if nothing of it is left, and raises NotBoxed where the rows
are no box any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from symgrad.compiler.algebra.band import Band, NotBoxed, Pick, Range, fitted, picked, times, with_view
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Value

Shape = tuple[int, ...]
Move = Callable[[Band], Band | None]


def sliced(band: Band, index: Sequence[Any], given: Shape, result: Shape) -> Band | None:
    """Return the band of x[index], for a basic index of a tensor of shape `given`."""
    band = fitted(band, given)
    picks: list[Pick] = []
    kept: list[Range] = []
    box: list[Range] = []
    order: list[int | None] = [*range(band.extra)]
    for item in [*index, *((0, n, 1) for n in given[sum(item is not None for item in index) :])]:
        if item is None:
            order.append(None)
            box.append((0, 1, 1))
        elif isinstance(item, tuple):
            pick, place = _overlap(band.box[len(picks)], item)
            if not len(range(*pick)):
                return None
            order.append(band.extra + len(kept))
            picks.append(pick)
            kept.append(place)
            box.append(place)
        else:
            first, last, step = band.box[len(picks)]
            if item not in range(first, last, step):
                return None
            picks.append((item - first) // step)
    found = picked(band, picks, tuple(len(range(*r)) for r in kept), kept)
    return with_view(found, result, box, order)


def _overlap(box: Range, item: Range) -> tuple[Range, Range]:
    """Return the positions of a box that a range reads, as places in the box and as places in the range."""
    first, last, step = box
    start, stop, stride = item
    if stride <= 0:
        raise NotBoxed
    if step == 1:
        low = start + -(-(max(first, start) - start) // stride) * stride
        count = len(range(low, min(last, stop), stride))
        k = (low - start) // stride
        return (low - first, low - first + (count - 1) * stride + 1 if count else low - first, stride), (k, k + count, 1)
    if stride == 1:
        skipped = max(-(-(start - first) // step), 0)
        count = len(range(first + skipped * step, min(last, stop), step))
        k = first + skipped * step - start
        return (skipped, skipped + count, 1), (k, k + (count - 1) * step + 1 if count else k, step)
    if stride != step or (first - start) % step:
        raise NotBoxed
    low, high = max(first, start), min(last, stop)
    count = len(range(low, high, step))
    return ((low - first) // step, (low - first) // step + count, 1), ((low - start) // step, (low - start) // step + count, 1)


def placed(band: Band, index: Sequence[Any], given: Shape, result: Shape) -> Band | None:
    """Return the band of the zeros of shape `result` in which x, of shape `given`, is written at a basic index."""
    band = fitted(band, given)
    box: list[Range] = []
    order: list[int | None] = [*range(band.extra)]
    d = 0
    for item in [*index, *((0, n, 1) for n in result[sum(item is not None for item in index) :])]:
        if isinstance(item, tuple):
            first, last, step = band.box[d]
            start, _, stride = item
            if stride <= 0:
                raise NotBoxed
            box.append((start + first * stride, start + (last - 1) * stride + 1, step * stride))
            order.append(band.extra + d)
        elif item is not None:
            box.append((item, item + 1, 1))
            order.append(None)
        d += isinstance(item, tuple) or item is None
    kept = [k for k in order if k is not None]
    picks: list[Pick] = [(0, n, 1) if band.extra + k in order else 0 for k, n in enumerate(band.sizes[band.extra :])]
    found = picked(band, picks, (1,) * (len(kept) - band.extra), ())
    return with_view(found, result, box, [None if k is None else kept.index(k) for k in order])


def flipped(band: Band, axes: Sequence[int], shape: Shape) -> Band:
    band = fitted(band, shape)
    box, slices, turned = [*band.box], [slice(None)] * len(band.sizes), []
    for axis in {a % len(shape) for a in axes}:
        first, last, step = band.box[axis]
        box[axis] = (shape[axis] - last, shape[axis] - first, step)
        slices[band.extra + axis] = slice(None, None, -1)
        turned.append(band.extra + axis)
    value = xp.flip(band.value, axes=tuple(sorted(turned))) if isinstance(band.value, Value) else band.value
    return replace(band, box=tuple(box), cols=band.cols[tuple(slices)], value=value)


def permuted(band: Band, axes: Sequence[int], given: Shape, result: Shape) -> Band:
    band = fitted(band, given)
    order = [*range(band.extra), *(band.extra + a for a in axes)]
    return with_view(band, result, [band.box[a] for a in axes], order)


def expanded(band: Band, given: Shape, result: Shape) -> Band:
    """Return the band of x broadcast to a shape."""
    if given == result:
        return band
    band = fitted(band, given)
    new = len(result) - len(given)
    order = [*range(band.extra), *(None,) * new, *range(band.extra, len(band.sizes))]
    box = [*((0, 1, 1),) * new, *band.box]
    lead = band.sizes[: band.extra]
    band = with_view(band, result, box, order)
    grown = [(0, n, 1) if m == 1 and n != 1 else r for r, n, m in zip(box, result, (*(1,) * new, *given), strict=True)]
    return replace(band, box=tuple(grown), sizes=(*lead, *(len(range(*r)) for r in grown)))


def summed(band: Band, axes: Sequence[int], given: Shape, result: Shape) -> Band:
    """Return the band of the sum over some axes: their dimensions become extra ones, or are added up where the column is the same."""
    band = fitted(band, given)
    extra = band.extra
    same = [a for a in axes if band.cols.shape[extra + a] == 1]
    value = band.value
    if isinstance(value, Value):
        over = [extra + a for a in same if value.shape[extra + a] != 1]
        value = xp.sum(value, axis=tuple(over), keepdims=True) if over else value
        counted = [a for a in same if band.value.shape[extra + a] == 1]
    else:
        counted = same
    if value is not None:
        value = times(value, float(prod(band.sizes[extra + a] for a in counted)))
    sizes = tuple(1 if d - extra in same else n for d, n in enumerate(band.sizes))
    kept = [d for d in range(len(given)) if d not in axes]
    order = [*range(extra), *(extra + a for a in axes), *(extra + d for d in kept)]
    found = with_view(replace(band, value=value, sizes=sizes), tuple(given[d] for d in kept), [band.box[d] for d in kept], order)
    return fitted(found, result)
