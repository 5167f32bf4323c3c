"""Pools as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.activation import relu
from symgrad.nn.functional.checks import require_floats
from symgrad.nn.functional.convolution import Sizes, batched, spread
from symgrad.ops.kernels import pooled_shape
from symgrad.ops.promotion import BOOL, kind, word
from symgrad.ops.shapes import integer
from symgrad.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _window(name: str, n: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    """The geometry of a pool, checked."""
    sizes, pads = spread(f"{name}: kernel_size", kernel, n), spread(f"{name}: padding", padding, n)
    strides = sizes if stride is None or stride in ([], ()) else spread(f"{name}: stride", stride, n)
    dilations = spread(f"{name}: dilation", dilation, n)
    for role, values in (("kernel size", sizes), ("stride", strides), ("dilation", dilations)):
        if any(v < 1 for v in values):
            raise RuntimeError(f"{name}: {role} should be greater than zero, but got {list(values)}")
    if any(p < 0 or 2 * p > k for p, k in zip(pads, sizes, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, but got pad={list(pads)} and kernel_size={list(sizes)}"
        )
    shape = pooled_shape(x.shape[2:], kernel=sizes, stride=strides, padding=pads, dilation=dilations, ceil_mode=ceil_mode)
    if any(m < 1 for m in shape):
        raise RuntimeError(
            f"{name}: Given input size: {list(x.shape[1:])}. Calculated output size: {[x.shape[1], *shape]}. Output size is too small"
        )
    return {"kernel": sizes, "stride": strides, "padding": pads, "ceil_mode": ceil_mode}


def _max_pool(n: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> tuple[Tensor, Tensor]:
    name = f"max_pool{n}d"
    if input._array.dtype == BOOL:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
    x, had_batch = batched(name, input, n)
    window = _window(name, n, x, kernel_size, stride, padding, dilation, ceil_mode)
    values, indices = ops.max_pool(x, dilation=spread(name, dilation, n), **window)
    return (values, indices) if had_batch else (values.squeeze(0), indices.squeeze(0))


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool2d, and where in each plane the largest elements stood."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool1d, and where in each row the largest elements stood."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of (batch, channels, length)."""
    result = _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def max_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of (batch, channels, height, width)."""
    result = _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """max_pool3d, and where in each block the largest elements stood."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window over three dimensions."""
    result = _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def _avg_pool(n: int, input: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: int | None) -> Tensor:
    name = f"avg_pool{n}d"
    if divisor is not None and integer("divisor_override", divisor, name) == 0:
        raise RuntimeError("divisor must be not zero")
    if kind(input._array.dtype) not in "if":
        raise NotImplementedError(f"\"{name}\" not implemented for '{word(input._array.dtype)}'")
    x, had_batch = batched(name, input, n)
    window = _window(name, n, x, kernel, stride, padding, 1, ceil_mode)
    out = ops.avg_pool(x, count_include_pad=include, divisor_override=divisor, **window)
    return out if had_batch else out.squeeze(0)


def avg_pool1d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window of (batch, channels, length)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of (batch, channels, height, width)."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window over three dimensions."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(n: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if norm_type == math.inf:
        return _max_pool(n, input.abs(), kernel_size, stride, 0, 1, ceil_mode)[0]
    if norm_type == -math.inf:
        return -_max_pool(n, -input.abs(), kernel_size, stride, 0, 1, ceil_mode)[0]
    means = _avg_pool(n, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    count = math.prod(spread(f"lp_pool{n}d: kernel_size", kernel_size, n))
    return (means.sign() * relu(means.abs())).mul(count).pow(1 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (batch, channels, length)."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (batch, channels, height, width)."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Sizes, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window over three dimensions."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _adaptive_sizes(name: str, n: int, x: Tensor, output_size: Any) -> tuple[int, ...]:
    wanted = (output_size,) * n if isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != n or any(want is not None and want < 0 for want in wanted):
        raise RuntimeError(f"{name}: output_size must be {n} numbers greater than or equal to 0, but got {list(wanted)}")
    return tuple(have if want is None else want for want, have in zip(wanted, x.shape[2:], strict=True))


def _adaptive(n: int, input: Tensor, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{n}d"
    require_floats(name, input)
    x, had_batch = batched(name, input, n)
    sizes = _adaptive_sizes(name, n, x, output_size)
    out = x.narrow(2, 0, 0).reshape(*x.shape[:2], *sizes) if 0 in sizes else ops.adaptive_avg_pool(x, output_size=sizes)
    return out if had_batch else out.squeeze(0)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as the result shall have elements."""
    return _adaptive(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as the result shall have rows and columns."""
    return _adaptive(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as the result shall have elements in each of three dimensions."""
    return _adaptive(3, input, output_size)


def _adaptive_max(n: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    """The windows, gathered, and the largest element of each; a window that is shorter than others repeats its last element."""
    name = f"adaptive_max_pool{n}d"
    require_floats(name, input)
    x, had_batch = batched(name, input, n)
    sizes = _adaptive_sizes(name, n, x, output_size)
    places = arange(math.prod(x.shape[2:])).reshape(tuple(x.shape[2:]))
    for axis, count in enumerate(sizes):
        index = _adaptive_windows(x.shape[2 + 2 * axis], count)
        places, x = (_opened(t, t.ndim - x.ndim + 2 + 2 * axis, index) for t in (places, x))
    taps = tuple(range(1, 2 * n, 2))
    values, winners = _taps_last(x, 2, taps).max(-1)
    if not return_indices:
        return values if had_batch else values.squeeze(0)
    chosen = _taps_last(places, 0, taps).expand(*values.shape, -1).gather(-1, winners.unsqueeze(-1)).squeeze(-1)
    return (values, chosen) if had_batch else (values.squeeze(0), chosen.squeeze(0))


def _adaptive_windows(size: int, count: int) -> Tensor:
    """The places of `count` nearly equal windows, one row for each."""
    starts, stops = (arange(count) * size) // max(count, 1), ((arange(count) + 1) * size + count - 1) // max(count, 1)
    longest = -(-size // count) + (size % count > 0) if count else 1
    return (starts.unsqueeze(1) + arange(longest)).minimum(stops.unsqueeze(1) - 1)


def _opened(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """A dimension as two: the windows, and the places in each."""
    return x.index_select(dim, index.reshape(-1)).unflatten(dim, tuple(index.shape))


def _taps_last(x: Tensor, lead: int, taps: tuple[int, ...]) -> Tensor:
    """(..., windows, taps, windows, taps, ...) with all taps in one last dimension."""
    kept = [dim for dim in range(x.ndim) if dim - lead not in taps]
    return x.permute(*kept, *(lead + tap for tap in taps)).flatten(len(kept))


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the result shall have elements."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the result shall have rows and columns."""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as the result shall have elements in each of three dimensions."""
    return _adaptive_max(3, input, output_size, return_indices)


def _max_unpool(
    n: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Sequence[int] | None
) -> Tensor:
    name = f"max_unpool{n}d"
    x, had_batch = batched(name, input, n)
    if input.shape != indices.shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be the same as that of the input tensor ({list(input.shape)}), but got indices tensor"
            f" with shape: {list(indices.shape)}"
        )
    kernel, pads = spread(f"{name}: kernel_size", kernel_size, n), spread(f"{name}: padding", padding, n)
    strides = kernel if stride is None else spread(f"{name}: stride", stride, n)
    usual = [(m - 1) * s + k - 2 * p for m, s, k, p in zip(x.shape[2:], strides, kernel, pads, strict=True)]
    sizes = usual if output_size is None else _unpooled_sizes(list(output_size), usual, strides)
    places = indices.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < math.prod(sizes):
        raise RuntimeError(f"{name}: found an invalid max index, from {int(places.min())} to {int(places.max())}, for output size {sizes}")
    flat = x.new_zeros(*x.shape[:2], math.prod(sizes)).scatter(2, places, x.flatten(2))
    out = flat.reshape(*x.shape[:2], *sizes)
    return out if had_batch else out.squeeze(0)


def _unpooled_sizes(wanted: list[int], usual: list[int], strides: tuple[int, ...]) -> list[int]:
    """The sizes asked for, if a pool can have come from them."""
    sizes = wanted[2:] if len(wanted) == len(usual) + 2 else wanted
    if len(sizes) != len(usual):
        raise ValueError(
            f"output_size should be a sequence containing {len(usual)} or {len(usual) + 2} elements, but it has a length of"
            f" '{len(sizes)}'"
        )
    for dim, (size, middle, step) in enumerate(zip(sizes, usual, strides, strict=True)):
        if not middle - step < size < middle + step:
            raise ValueError(f'invalid output_size "{sizes}" (dim {dim} must be between {middle - step} and {middle + step})')
    return sizes


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, output_size: Sequence[int] | None = None
) -> Tensor:
    """The elements that max_pool1d found, back where they stood, with zeros around them."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, output_size: Sequence[int] | None = None
) -> Tensor:
    """The elements that max_pool2d found, back where they stood, with zeros around them."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, output_size: Sequence[int] | None = None
) -> Tensor:
    """The elements that max_pool3d found, back where they stood, with zeros around them."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
