"""Batch norm and its gradient: statistics of each channel of (N, C, *S).

A number for each channel, broadcast against the images, makes NumPy loop over a few elements at a time. So images are rows (N, C * S), and
such numbers are repeated to the length of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...typing import Array


def by_channel(x: Array, axes: tuple[int, ...], weight: Any, bias: Any) -> bool:
    """Whether these kernels know the case: statistics over all axes but the channels', parameters of one number for each of them."""
    if x.ndim < 2 or axes != (0, *range(2, x.ndim)) or len(x) < 4 or not x.size or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return False
    shape = _statistics(x)
    return all(t.__class__ is int or t.shape == shape for t in (weight, bias))


def channel_norm(x: Array, weight: Any, bias: Any, eps: float) -> tuple[Array, Array, Array]:
    """(x - mean) * scale * weight + bias, mean and scale."""
    rows, repeat, count = _rows(x)
    mean = _sums(rows, x.shape[1]) / count
    y = rows - repeat(mean)
    scale = _sums(y * y, x.shape[1]) / count
    scale += eps
    np.sqrt(scale, out=scale)
    np.reciprocal(scale, out=scale)
    y *= repeat(_weighted(scale, weight))
    if bias.__class__ is not int:
        y += repeat(bias.reshape(-1))
    return y.reshape(x.shape), mean.reshape(_statistics(x)), scale.reshape(_statistics(x))


def channel_norm_x(g: Array, x: Array, mean: Array, scale: Array, weight: Any) -> Array:
    """The gradient in x: scale * weight * (g - mean of g - (x - mean) * scale² * mean of g (x - mean))."""
    rows, repeat, count = _rows(x)
    steps, factor, rate = g.reshape(rows.shape), _weighted(scale.reshape(-1), weight), scale.reshape(-1)
    out = rows - repeat(mean.reshape(-1))
    scratch = steps * out
    slope = _sums(scratch, x.shape[1]) / count
    out *= repeat(-factor * rate * rate * slope)
    np.multiply(steps, repeat(factor), out=scratch)
    out += scratch
    out -= repeat(factor * _sums(steps, x.shape[1]) / count)
    slopes: Array = out.reshape(x.shape)
    return slopes


def channel_norm_weight(g: Array, x: Array, mean: Array, scale: Array, weight: Any) -> Array:
    """The gradient in the weight, already summed: scale * sum of g (x - mean)."""
    rows, repeat, _ = _rows(x)
    centred = rows - repeat(mean.reshape(-1))
    centred *= g.reshape(rows.shape)
    return _sums(centred, x.shape[1]).reshape(scale.shape) * scale


def _statistics(x: Array) -> tuple[int, ...]:
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


def _rows(x: Array) -> tuple[Array, Any, int]:
    """Images as rows, what repeats a number for each channel to the length of a row, and how many elements a channel has."""
    rows = x.reshape(len(x), -1)
    length = rows.shape[1] // x.shape[1]
    return rows, (lambda numbers: numbers.repeat(length)) if length > 1 else (lambda numbers: numbers), len(x) * length


def _weighted(scale: Array, weight: Any) -> Array:
    return scale if weight.__class__ is int else scale * weight.reshape(-1)


def _sums(rows: Array, channels: int) -> Array:
    """The sum of each channel: over the batch in blocks, which keeps the error that of a pairwise sum, then over positions."""
    block = 64
    if len(rows) > 2 * block:
        parts = [np.add.reduce(rows[start : start + block], 0) for start in range(0, len(rows), block)]
        return _sums(np.array(parts), channels)
    sums: Array = np.add.reduce(np.add.reduce(rows, 0).reshape(channels, -1), 1)
    return sums
