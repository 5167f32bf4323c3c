"""Pooling and its transposes, for any number of spatial axes.

max_pool gives values and indices; given the indices, pool_gather and pool_scatter are linear, and transposes.
avg_pool and adaptive_avg_pool are linear; avg_unpool and adaptive_avg_unpool are their transposes.
Shapes in the arguments are those of the spatial axes. Windows are combined tap by tap, never by a reduction over a view
of all windows: there NumPy's inner loop would run over the few taps of a single window.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, reduce
from math import prod
from operator import floordiv
from typing import Any

import numpy as np

from ...typing import Array, Shape
from .windows import block_size, blocks, fold_axis, pad, through_float32, window_counts, windows


def pooled_shape(
    shape: Shape, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """How many windows each spatial axis has."""
    if not ceil_mode:
        return window_counts(shape, kernel, stride, padding, dilation)

    def count(size: int, taps: int, step: int, edge: int, gap: int) -> int:
        places = -(-(size + 2 * edge - (taps - 1) * gap - 1) // step) + 1
        return places - ((places - 1) * step >= size + edge)  # no window may start in the padding on the right

    return tuple(map(count, shape, kernel, stride, padding, dilation))


def max_pool(
    x: Array, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest value of each window, and its index in the flattened spatial input.

    As in PyTorch the first of equal values wins, and of NaNs, which win over all, the last.
    """
    spatial = x.shape[2:]
    counts = pooled_shape(
        spatial, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    after = _right_edges(spatial, counts, kernel, stride, padding, dilation)
    first = _first_taps(counts, kernel, stride, padding, dilation)
    starts, offsets = _places(spatial, counts, kernel, stride, padding, dilation)
    values = np.empty((*x.shape[:2], *counts), x.dtype)
    indices = np.empty(values.shape, np.int64)
    for block in blocks(len(x), block_size(len(x), prod(x.shape[1:]) * x.itemsize)):
        taps = windows(pad(x[block], padding, after, lowest), kernel, stride, dilation)
        rivals = [taps[(slice(None), slice(None), *tap)] for tap in np.ndindex(kernel)]
        np.add(offsets.take(_winners(rivals, first, values[block])), starts, out=indices[block])
    return values, indices


def pool_gather(x: Array, indices: Array) -> Array:
    """The values of x at `indices` into its flattened spatial axes."""
    return x.reshape(-1).take(_batched(indices, prod(x.shape[2:])))


def pool_scatter(g: Array, indices: Array, *, input_shape: Shape) -> Array:
    """Zeros of spatial shape `input_shape` with g added at `indices`: the transpose of `pool_gather`."""
    out = np.zeros((*g.shape[:2], *input_shape), g.dtype)
    np.add.at(out.reshape(-1), _batched(indices, prod(input_shape)).reshape(-1), g.reshape(-1))
    return out


@through_float32
def avg_pool(
    x: Array,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """The mean of each window, or its sum divided by `divisor_override`."""
    spatial, ones = x.shape[2:], (1,) * len(kernel)
    counts = pooled_shape(spatial, kernel=kernel, stride=stride, padding=padding, dilation=ones, ceil_mode=ceil_mode)
    total = pad(x, padding, _right_edges(spatial, counts, kernel, stride, padding, ones))
    for axis, (count, taps, step) in enumerate(zip(counts, kernel, stride, strict=True), 2):
        total = reduce(np.add, _taps(total, axis, count, taps, step))
    divisor = divisor_override or _window_sizes(spatial, counts, kernel, stride, padding, count_include_pad)
    return np.ascontiguousarray(total / divisor, x.dtype)


@through_float32
def avg_unpool(
    g: Array,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    input_shape: Shape,
) -> Array:
    """The transpose of `avg_pool`: each g is shared out over its window."""
    del ceil_mode  # it only decides how many windows there are, and g tells that
    out = g / (divisor_override or _window_sizes(input_shape, g.shape[2:], kernel, stride, padding, count_include_pad))
    for axis in reversed(range(len(kernel))):  # the last axis, whose runs are short, while the array is small
        spread = np.broadcast_to(out[:, :, None], (*out.shape[:2], kernel[axis], *out.shape[2:]))
        size, step, edge = input_shape[axis], stride[axis], padding[axis]
        out = fold_axis(spread, axis + 3, size=size, stride=step, padding=edge, dilation=1)
    return out.astype(g.dtype, copy=False)


@through_float32
def adaptive_avg_pool(x: Array, *, output_size: Shape) -> Array:
    """The means of `output_size` nearly equal windows, which overlap where the sizes do not divide."""
    if prod(output_size) == 1:
        means: Array = x.mean(tuple(range(2, x.ndim)), keepdims=True)
        return means
    if even := _even_windows(x.shape[2:], output_size):
        return avg_pool(x, **even)
    for axis, count in enumerate(output_size, 2):
        lead = (slice(None),) * axis
        pieces = (x[(*lead, window)] for window in _adaptive_windows(x.shape[axis], count))
        x = np.concatenate([piece.mean(axis, keepdims=True) for piece in pieces], axis)
    return x


@through_float32
def adaptive_avg_unpool(g: Array, *, input_shape: Shape) -> Array:
    """The transpose of `adaptive_avg_pool`."""
    even = _even_windows(input_shape, g.shape[2:])
    if even and prod(g.shape[2:]) > 1:
        return avg_unpool(g, **even, input_shape=input_shape)
    for axis, size in enumerate(input_shape, 2):
        lead = (slice(None),) * axis
        out = np.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
        for place, window in enumerate(_adaptive_windows(size, g.shape[axis])):
            out[(*lead, window)] += g[(*lead, slice(place, place + 1))] / (window.stop - window.start)
        g = out
    return g


def _right_edges(
    shape: Shape, counts: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[int, ...]:
    """The padding that the windows reach on the right: less than was asked if they end before, more in ceil mode."""

    def reach(size: int, count: int, taps: int, step: int, edge: int, gap: int) -> int:
        return max(0, (count - 1) * step + (taps - 1) * gap + 1 - size - edge)

    return tuple(map(reach, shape, counts, kernel, stride, padding, dilation))


# What follows from the geometry alone is kept: it would take a fifth of the time of a small pool.


@lru_cache(maxsize=64)
def _first_taps(counts: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Array:
    """The number of the first tap of each window that is not on the padding: it wins if nothing exceeds -inf."""
    numbers = np.zeros((), np.int64)
    for count, taps, step, edge, gap in zip(counts, kernel, stride, padding, dilation, strict=True):
        on_padding = np.maximum(0, edge - np.arange(count) * step)
        numbers = np.add.outer(numbers * taps, -(-on_padding // gap))
    return numbers


def _winners(rivals: list[Array], first: Array, best: Array) -> Array:
    """The number of the rival that is the largest, place by place; the largest values are written into `best`."""
    number = np.min_scalar_type(len(rivals)).type  # mostly uint8: this array costs next to nothing
    if best.shape[-1] < 16:  # each is read twice, and NumPy reads short rows slowly
        rivals = list(map(np.ascontiguousarray, rivals))
    winner = np.empty(best.shape, number)
    winner[...] = first
    best[...] = rivals[0]
    for challenger, values in enumerate(rivals[1:], 1):
        # Challengers rise, so this is winner = where(values > best, challenger, winner), only faster.
        np.maximum(winner, (values > best) * number(challenger), out=winner)
        np.maximum(best, values, out=best)
    if np.isnan(best).any():  # none rose above a NaN, nor did a NaN: its number is still to come
        for challenger, values in enumerate(rivals):
            np.maximum(winner, np.isnan(values) * number(challenger), out=winner)
    return winner


@lru_cache(maxsize=64)
def _places(
    shape: Shape, counts: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[Array, Array]:
    """Where each window starts in the flattened input, and how far from there each tap is, by its number."""
    starts, offsets = np.zeros((), np.int64), np.zeros((), np.int64)
    axes = zip(shape, counts, kernel, stride, padding, dilation, strict=True)
    for size, count, taps, step, edge, gap in axes:
        starts = np.add.outer(starts * size, np.arange(count) * step - edge)
        offsets = np.add.outer(offsets * size, np.arange(taps) * gap)
    return starts, offsets.reshape(-1)


def _batched(indices: Array, size: int) -> Array:
    """Indices into one image's spatial axes to indices into the flattened batch."""
    images = np.arange(prod(indices.shape[:2])) * size
    return indices + images.reshape(*indices.shape[:2], *(1,) * (indices.ndim - 2))


def _taps(x: Array, axis: int, count: int, taps: int, step: int) -> Iterator[Array]:
    """For each tap its values in all windows along `axis`."""
    lead = (slice(None),) * axis
    return (x[(*lead, slice(tap, tap + (count - 1) * step + 1, step))] for tap in range(taps))


def _window_sizes(
    shape: Shape, counts: Shape, kernel: Shape, stride: Shape, padding: Shape, count_include_pad: bool
) -> Array:
    """How many places each window averages over. In float32, which widens no operand."""
    lengths = []
    for size, count, taps, step, edge in zip(shape, counts, kernel, stride, padding, strict=True):
        margin = edge if count_include_pad else 0
        start = np.arange(count) * step - edge
        lengths.append(np.minimum(start + taps, size + margin) - np.maximum(start, -margin))
    return reduce(np.multiply.outer, lengths).astype(np.float32)


def _even_windows(shape: Shape, counts: Shape) -> dict[str, Any] | None:
    """The arguments of `avg_pool` that cut each axis into so many equal windows, if it can be."""
    if any(size % count for size, count in zip(shape, counts, strict=True)):
        return None
    widths = tuple(map(floordiv, shape, counts))
    options = {"ceil_mode": False, "count_include_pad": True, "divisor_override": None}
    return {"kernel": widths, "stride": widths, "padding": (0,) * len(widths), **options}


def _adaptive_windows(size: int, count: int) -> Iterator[slice]:
    return (slice(place * size // count, -(-(place + 1) * size // count)) for place in range(count))
