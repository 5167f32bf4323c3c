"""Sliding windows over padded arrays, and their transpose: what convolution and pooling share.

Arrays are (N, C, *S): batch, channels, any number of spatial axes. A tuple argument has one entry per spatial axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from math import prod
from operator import mul
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...typing import Array, Scalar, Shape

# Bytes of scratch memory for the windows of one block of the batch. The memory is reused and fits into the L2 cache:
# fresh pages for each block cost as much as filling them. Blocks of 64 kB took up to 2.5 times as long, of 2 MB 1.2.
BLOCK_BYTES = 1 << 19


def through_float32(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Compute float16 and bfloat16 in float32: BLAS has neither, and long sums would lose their small terms."""

    @functools.wraps(kernel)
    def widened(*arrays: Array, **attributes: Any) -> Array:
        dtype = arrays[0].dtype
        if dtype != np.float16 and dtype.kind in "biufc":  # bfloat16 is no dtype of NumPy's own, so its kind is V
            return kernel(*arrays, **attributes)
        wide = (array.astype(np.float32) for array in arrays)
        return kernel(*wide, **attributes).astype(dtype)

    return widened


def window_counts(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    """How many windows fit on each spatial axis."""
    axes = zip(shape, kernel, stride, padding, dilation, strict=True)
    return tuple((size + 2 * edge - (taps - 1) * gap - 1) // step + 1 for size, taps, step, edge, gap in axes)


def windows(x: Array, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """(N, C, *S) as (N, C, *kernel, *O): entry [k, o] is x[o * stride + k * dilation]. A view: nothing is copied."""
    counts = window_counts(x.shape[2:], kernel, stride, (0,) * len(kernel), dilation)
    unit = x.strides[2:]
    strides = (*x.strides[:2], *map(mul, unit, dilation), *map(mul, unit, stride))
    return as_strided(x, (*x.shape[:2], *kernel, *counts), strides)


def frame(images: int, x: Array, before: Shape, after: Shape, fill: Scalar = 0) -> tuple[Array, Array]:
    """An array full of `fill` for so many padded images like those of `x`, and the view of it where they belong."""
    sizes = tuple(map(sum, zip(before, x.shape[2:], after, strict=True)))
    padded = np.full((images, x.shape[1], *sizes), fill, x.dtype)
    middle = (slice(edge, edge + size) for edge, size in zip(before, x.shape[2:], strict=True))
    return padded, padded[(slice(None), slice(None), *middle)]


def pad(x: Array, before: Shape, after: Shape, fill: Scalar = 0) -> Array:
    """`x` with so many `fill` on either side of each spatial axis; `x` itself if there are none."""
    if not any(before) and not any(after):
        return x
    padded, middle = frame(len(x), x, before, after, fill)
    middle[...] = x
    return padded


def unfold(x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Iterator[tuple[slice, Array]]:
    """The windows of padded `x`, (n, C, *kernel, *O), block by block of the batch, with the slice of the block.

    All blocks use the same memory: a block must be done with before the next is asked for.
    """
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    images = block_size(len(x), x.shape[1] * prod(kernel) * prod(counts) * x.itemsize)
    padded, middle = frame(images, x, padding, padding) if any(padding) else (x, x)
    taps = windows(padded, kernel, stride, dilation)
    if padded is x and taps.flags.c_contiguous:  # a 1x1 kernel: nothing to copy
        yield from ((block, taps[block]) for block in blocks(len(x), images))
        return
    columns = np.empty((images, *taps.shape[1:]), x.dtype)
    for block in blocks(len(x), images):
        used = slice(len(x[block]))
        if padded is not x:
            middle[used] = x[block]
        copy_rows(columns[used], taps[block if padded is x else used])
        yield block, columns[used]


def copy_rows(target: Array, source: Array) -> None:
    """target[...] = source, for a contiguous target.

    NumPy copies row by row, and the rows of windows are short: it is up to 1.6 times faster to copy each as one item.
    """
    if source.strides[-1] == source.itemsize:
        row = np.dtype((np.void, source.shape[-1] * source.itemsize))
        target, source = target.view(row), source.view(row)
    np.copyto(target, source)


def block_size(count: int, item_bytes: int) -> int:
    """How many of `count` items fit into BLOCK_BYTES: one at least."""
    return max(1, min(count, BLOCK_BYTES // max(1, item_bytes)))


def blocks(count: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover range(count); the last may end beyond it."""
    return (slice(start, start + size) for start in range(0, count, size))


def fold(columns: Array, sizes: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Array:
    """(N, C, *K, *O) to (N, C, *sizes): the transpose of `windows` after `pad`.

    The first spatial axis goes first: its taps are added in long runs, and only those of the last axis in short ones.
    """
    axis = 2 + len(sizes)
    for size, step, edge, gap in zip(sizes, stride, padding, dilation, strict=True):
        columns = fold_axis(columns, axis, size=size, stride=step, padding=edge, dilation=gap)
    return columns


def fold_axis(columns: Array, axis: int, *, size: int, stride: int, padding: int, dilation: int) -> Array:
    """Add each tap (axis 2 of `columns`) of each window (`axis`) into its place on an axis of `size`.

    Axis 2 goes, so the places are on axis - 1 of the result. What fell on the padding is dropped.
    """
    shape = (*columns.shape[:2], *columns.shape[3:axis], size, *columns.shape[axis + 1 :])
    out = np.zeros(shape, columns.dtype)
    lead = (slice(None),) * (axis - 1)
    for tap in range(columns.shape[2]):
        offset = tap * dilation - padding  # where window 0 has this tap
        first = max(0, -(offset // stride))
        last = min(columns.shape[axis], (size - 1 - offset) // stride + 1)
        if first < last:
            places = slice(offset + first * stride, offset + last * stride, stride)
            out[(*lead, places)] += columns[:, :, tap][(*lead, slice(first, last))]
    return out
