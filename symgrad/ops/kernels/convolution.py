"""Convolution and its two transposes, for any number of spatial axes.

All three are faces of one form, linear in x (N, C, *S), w (O, C / groups, *K) and g (N, O, *P):

    sum over n, o, c, p, k of  g[n, o, p] * w[o, c, k] * x[n, c, p * stride + k * dilation - padding]

    convolution(x, w)            its gradient in g
    convolution_transpose(g, w)  its gradient in x
    convolution_weight(x, g)     its gradient in w

so the derivatives of each are the other two, to any order. Shapes in the arguments are those of the spatial axes.
Requirements: no copy of x for 1x1 kernels, scratch memory bounded whatever the batch, within 3 times PyTorch's time on
one core. So windows are unfolded block by block into memory that stays in the cache, and multiplied image by image.
"""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from ...typing import Array, Shape
from .windows import block_size, blocks, fold, through_float32, unfold, window_counts


@through_float32
def convolution(x: Array, w: Array, *, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Array:
    """Cross-correlation as in PyTorch: sum over c, k of w[o, c, k] * x[n, c, p * stride + k * dilation - padding]."""
    kernel = w.shape[2:]
    counts = window_counts(x.shape[2:], kernel, stride, padding, dilation)
    rows = _grouped(w, groups)
    out = np.empty((len(x), *rows.shape[:2], prod(counts)), np.result_type(x, w))
    for block, columns in unfold(x, kernel, stride, padding, dilation):
        np.matmul(rows, columns.reshape(len(columns), groups, rows.shape[2], prod(counts)), out=out[block])
    return out.reshape(len(x), len(w), *counts)


@through_float32
def convolution_transpose(
    g: Array, w: Array, *, stride: Shape, padding: Shape, dilation: Shape, groups: int, output_shape: Shape
) -> Array:
    """The gradient of `convolution` in x, whose spatial shape is `output_shape`; places that no window saw are 0."""
    edges = tuple((taps - 1) * gap - edge for taps, gap, edge in zip(w.shape[2:], dilation, padding, strict=True))
    channels = w.shape[1] * groups
    # Without strides it is a convolution too. That unfolds g instead of folding x: faster unless g has more channels.
    if set(stride) == {1} and min(edges) >= 0 and len(w) <= channels:
        return convolution(g, _flipped(w, groups), stride=stride, padding=edges, dilation=dilation, groups=groups)
    rows = _grouped(w, groups).swapaxes(1, 2)
    flat = _flat(g, groups)
    shape = (channels, *w.shape[2:], *g.shape[2:])
    out = np.empty((len(g), channels, *output_shape), np.result_type(g, w))
    images = block_size(len(g), prod(shape) * out.itemsize)
    if _narrow(g):
        geometry = _with_batch_axis(stride, padding, dilation)
        for block in blocks(len(g), 2 * images):
            part = _batch_last(g[block])
            sizes = (*output_shape, part.shape[-1])
            folded = convolution_transpose(part, w[..., None], groups=groups, output_shape=sizes, **geometry)
            out[block] = np.moveaxis(folded[0], -1, 0)
        return out
    scratch = np.empty((images, *rows.shape[:2], flat.shape[3]), out.dtype)
    for block in blocks(len(g), images):
        columns = np.matmul(rows, flat[block], out=scratch[: len(flat[block])])
        out[block] = fold(columns.reshape(-1, *shape), output_shape, stride, padding, dilation)
    return out


@through_float32
def convolution_weight(
    x: Array, g: Array, *, stride: Shape, padding: Shape, dilation: Shape, groups: int, kernel_shape: Shape
) -> Array:
    """The gradient of `convolution` in w, whose spatial shape is `kernel_shape`."""
    inputs, outputs = x.shape[1] // groups, g.shape[1] // groups
    if _narrow(g):
        geometry = _with_batch_axis(stride, padding, dilation)
        images = block_size(len(x), x.shape[1] * prod(kernel_shape) * prod(g.shape[2:]) * x.itemsize)
        pairs = ((_batch_last(x[block]), _batch_last(g[block])) for block in blocks(len(x), 2 * images))
        parts = (convolution_weight(*pair, groups=groups, kernel_shape=(*kernel_shape, 1), **geometry) for pair in pairs)
        return reduce(np.add, parts)[..., 0]
    flat = _flat(g, groups).swapaxes(2, 3)
    out = np.zeros((groups, inputs * prod(kernel_shape), outputs), np.result_type(x, g))
    for block, columns in unfold(x, kernel_shape, stride, padding, dilation):
        rows = columns.reshape(len(columns), *out.shape[:2], flat.shape[2])
        out += np.matmul(rows, flat[block]).sum(0)  # the transposed product would take up to 1.7 times as long
    return np.ascontiguousarray(out.swapaxes(1, 2)).reshape(g.shape[1], inputs, *kernel_shape)


# Windows of narrow images are copied and added in runs of a few elements. There the batch is made one more spatial axis,
# the last, along which the kernel has one tap: the runs are as long as the batch, and one product takes the place of one
# for each image. Blocks may be twice as large, since less of them is copied.


def _narrow(g: Array) -> bool:
    return len(g) >= 16 and 0 < g.shape[-1] < 8


def _batch_last(x: Array) -> Array:
    """(N, C, *S) to (1, C, *S, N)."""
    return np.ascontiguousarray(np.moveaxis(x, 0, -1))[None]


def _with_batch_axis(stride: Shape, padding: Shape, dilation: Shape) -> dict[str, Shape]:
    return {"stride": (*stride, 1), "padding": (*padding, 0), "dilation": (*dilation, 1)}


# Contiguous arrays only from here on: with zero or negative strides (a broadcast g, a flipped w) NumPy avoids BLAS.


def _grouped(w: Array, groups: int) -> Array:
    """(O, C / groups, *K) to (groups, O / groups, C / groups * K)."""
    return np.ascontiguousarray(w).reshape(groups, len(w) // groups, prod(w.shape[1:]))


def _flat(g: Array, groups: int) -> Array:
    """(N, O, *P) to (N, groups, O / groups, P)."""
    return np.ascontiguousarray(g).reshape(len(g), groups, g.shape[1] // groups, prod(g.shape[2:]))


def _flipped(w: Array, groups: int) -> Array:
    """(O, C / groups, *K) to (C, O / groups, *K) with the taps in reverse: the weights of the transpose."""
    grouped = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)
    return np.flip(grouped, tuple(range(3, grouped.ndim))).reshape(-1, len(w) // groups, *w.shape[2:])
