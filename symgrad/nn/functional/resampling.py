"""Windows as columns, shuffled pixels and interpolation as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from symgrad.creation import arange
from symgrad.dtypes import float32, float64
from symgrad.nn.functional.convolution import Sizes, batched, spread
from symgrad.nn.functional.linear import pad
from symgrad.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from symgrad.ops.kernels.windows import window_counts
from symgrad.tensor import Tensor

__all__ = ["channel_shuffle", "fold", "interpolate", "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample"]

# --- windows as columns


Ints = tuple[int, ...]


def _window_places(sizes: list[int], kernel: Any, stride: Any, dilation: Any) -> tuple[Tensor, tuple[int, ...]]:
    """Where each tap of each window stands in flattened images of these sizes, and how many windows there are."""
    counts = tuple(int(n) for n in window_counts(tuple(sizes), kernel, stride, (0, 0), dilation))
    places = arange(1)
    for axis, (taps, count, gap, step) in enumerate(zip(kernel, counts, dilation, stride, strict=True)):
        line = (arange(taps) * gap).unsqueeze(1) + arange(count) * step
        line = line.reshape(taps, 1, count, 1) if axis == 0 else line.reshape(1, taps, 1, count)
        places = places * sizes[axis] + line
    return places.reshape(-1), counts


def _check_windows(name: str, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    """Refuse windows without elements and steps that lead nowhere."""
    for word, sizes in (("kernel_size", kernel), ("dilation", dilation), ("stride", stride)):
        if min(sizes) < 1:
            raise RuntimeError(f"{name}: {word} should be greater than zero, but got {sizes}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: padding should be non-negative, but got {padding}")


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The windows of (batch, channels, height, width) as columns: (batch, channels * taps, windows)."""
    kernel, gaps, edges, steps = (spread("unfold", value, 2) for value in (kernel_size, dilation, padding, stride))
    _check_windows("unfold", kernel, gaps, edges, steps)
    x, had_batch = batched("unfold", input, 2)
    x = pad(x, (edges[1], edges[1], edges[0], edges[0]))
    places, counts = _window_places(list(x.shape[2:]), kernel, steps, gaps)
    if min(counts) < 1:
        raise RuntimeError(
            f"unfold: Given input with spatial size {list(input.shape[-2:])}, kernel_size={kernel}, dilation={gaps}, padding={edges},"
            f" calculated shape of the array of sliding blocks as {counts}, but its components must be at least one."
        )
    columns = x.flatten(2).index_select(2, places).reshape(
        x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts)
    )
    return columns if had_batch else columns.squeeze(0)


def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Columns added up where their windows stand: the transpose of unfold."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f"fold: expected 2D or 3D input, got {input.ndim}D input of size {list(input.shape)}")
    sizes, kernel, gaps, edges, steps = (spread("fold", value, 2) for value in (output_size, kernel_size, dilation, padding, stride))
    _check_windows("fold", kernel, gaps, edges, steps)
    padded = [size + 2 * edge for size, edge in zip(sizes, edges, strict=True)]
    places, counts = _window_places(padded, kernel, steps, gaps)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.shape[1] % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got"
            f" input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    if x.shape[2] != math.prod(counts):
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={kernel}, dilation={gaps}, padding={edges}, stride={steps}, expected size of input's"
            f" dimension 2 to match the calculated number of sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got"
            f" input.size(2)={x.shape[2]}."
        )
    channels = x.shape[1] // math.prod(kernel)
    flat = x.new_zeros(x.shape[0], channels, math.prod(padded)).index_add(2, places, x.reshape(x.shape[0], channels, places.numel()))
    out = pad(flat.reshape(x.shape[0], channels, *padded), (-edges[1], -edges[1], -edges[0], -edges[0]))
    return out if input.ndim == 3 else out.squeeze(0)


# --- shuffles


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(C r², H, W) as (C, H r, W r): channels become neighbours."""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if channels % r**2:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but"
            f" input.size(-3)={channels} is not divisible by {r**2}"
        )
    n = len(lead)
    parts = input.reshape(*lead, channels // r**2, r, r, height, width)
    mixed = parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return mixed.reshape(*lead, channels // r**2, height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(C, H r, W r) as (C r², H, W): neighbours become channels."""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    for word, size in (("height", height), ("width", width)):
        if size % r:
            raise RuntimeError(f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but {size} is not divisible by {r}")
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    mixed = parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return mixed.reshape(*lead, channels * r**2, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of all groups, dealt out in turn."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if input.shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups.")
    return input.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


# --- interpolation: along each dimension, a sum of elements times weights

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_AREA: dict[int, Callable[..., Tensor]] = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
Taps = Iterator[tuple[Tensor, Tensor | None]]


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """To another size, or by a factor: each element the nearest one, a mean, or an interpolation."""
    n = input.ndim - 2
    by_place = mode in ("nearest", "nearest-exact", "area")
    if by_place and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not supported; leave it False")
    sizes, factors = _target_sizes(input, n, size, scale_factor, bool(recompute_scale_factor) or mode == "area")
    if not (n in (1, 2, 3) if by_place else n == _LINEAR.get(mode, 2 if mode == "bicubic" else 0)):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got"
            f" {input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if min(sizes) <= 0:
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and output {sizes}")
    if mode == "area":
        return _AREA[n](input, sizes)
    taps = {"nearest": _nearest, "nearest-exact": _nearest, "bicubic": _cubic}.get(mode, _linear)
    for axis, (wanted, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        have = input.shape[axis]
        if have != wanted or not by_place:
            found = taps(input, axis, wanted, _scale(have, wanted, factor, align_corners), mode == "nearest-exact" or align_corners)
            pieces = [_weighted(input.index_select(axis, index), weight, axis) for index, weight in found]
            input = sum(pieces[1:], pieces[0])
    return input


upsample = interpolate


def _target_sizes(input: Tensor, n: int, size: Any, scale_factor: Any, recompute: bool) -> tuple[list[int], list[float | None]]:
    """The sizes of the result, and the factors that places are scaled by: None where the sizes tell."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    values = list(given) if isinstance(given, (list, tuple)) else [given] * n
    if len(values) != n:
        what = "output size" if scale_factor is None else "scale_factor"
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial dimensions of"
            f" {list(input.shape[2:])} and {what} of {given}"
        )
    if scale_factor is None:
        return values, [None] * n
    sizes = [math.floor(have * factor) for have, factor in zip(input.shape[2:], values, strict=True)]
    return sizes, [None] * n if recompute else values


def _scale(have: int, wanted: int, factor: float | None, align_corners: bool | None) -> float:
    """How far apart neighbours of the result stand in the input."""
    if align_corners:
        return (have - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / factor if factor else have / wanted


def _weighted(x: Tensor, weight: Tensor | None, axis: int) -> Tensor:
    return x if weight is None else x * weight.to(x.dtype).reshape(-1, *(1,) * (x.ndim - axis - 1))


def _nearest(x: Tensor, axis: int, wanted: int, scale: float, centred: bool | None) -> Taps:
    """In float32, whatever the input is: the places are PyTorch's."""
    places = (arange(wanted, dtype=float32) + (0.5 if centred else 0.0)) * scale
    yield places.floor().long().clamp_max(x.shape[axis] - 1), None


def _places(x: Tensor, wanted: int, scale: float, corners: bool | None) -> Tensor:
    line = arange(wanted, dtype=float64 if x.dtype == float64 else float32)
    return line * scale if corners else (line + 0.5) * scale - 0.5


def _linear(x: Tensor, axis: int, wanted: int, scale: float, corners: bool | None) -> Taps:
    places, last = _places(x, wanted, scale, corners).clamp_min(0), x.shape[axis] - 1
    left = places.long().clamp_max(last)
    share = (places - left).clamp(0, 1)
    yield left, 1 - share
    yield (left + 1).clamp_max(last), share


def _cubic(x: Tensor, axis: int, wanted: int, scale: float, corners: bool | None) -> Taps:
    """Keys' kernel with A = -0.75; beyond the edge stands the element at the edge."""
    places, last, a = _places(x, wanted, scale, corners), x.shape[axis] - 1, -0.75
    left = places.floor()
    t = places - left
    for offset in (-1, 0, 1, 2):
        d = (t - offset).abs()
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        yield (left.long() + offset).clamp(0, last), near if offset in (0, 1) else far
