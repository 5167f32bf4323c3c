"""Convolutions and pools as functions, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.checks import require_floats, require_one_type
from symgrad.ops.kernels import pooled_shape
from symgrad.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
]  # fmt: skip

Sizes = int | Sequence[int]


def spread(name: str, value: Any, n: int) -> tuple[int, ...]:
    """An int for all spatial dimensions, or one for each."""
    if isinstance(value, str):
        raise RuntimeError(f"{name}: Invalid padding string: {value!r}, use 'same', 'valid' or numbers")
    values = (value,) * n if isinstance(value, int) else tuple(int(v) for v in value)
    if len(values) == 1:
        values *= n
    if len(values) != n:
        raise RuntimeError(f"{name}: expected one number or {n}, got {list(values)}")
    return values


def batched(name: str, input: Tensor, n: int) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had one."""
    if input.ndim == n + 2:
        return input, True
    if input.ndim == n + 1:
        return input.unsqueeze(0), False
    raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}")


def _same_padding(kernel: tuple[int, ...], dilation: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
    """Padding on both sides, and what the right side gets more: `padding='same'`."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple(t // 2 for t in totals), [t % 2 for t in totals]


def _convolution(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    name = f"conv{n}d"
    if weight.ndim != n + 2:
        raise RuntimeError(f"{name}: expected a weight of {n + 2} dimensions, got {list(weight.shape)}")
    if input.dtype != weight.dtype:
        raise RuntimeError(f"{name}: input type ({input.type()}) and weight type ({weight.type()}) should be the same")
    require_one_type(name, input, bias=bias)
    x, had_batch = batched(name, input, n)
    strides, dilations = spread(f"{name}: stride", stride, n), spread(f"{name}: dilation", dilation, n)
    if any(s < 1 for s in strides):
        raise RuntimeError(f"{name}: non-positive stride is not supported, got {list(strides)}")
    if any(d < 1 for d in dilations):
        raise RuntimeError(f"{name}: dilation should be greater than zero, but got {list(dilations)}")
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got {groups}")
    if padding == "same":
        pads, more = _same_padding(tuple(weight.shape[2:]), dilations, strides)
        if any(more):
            x = ops.pad(x, widths=((0, 0), (0, 0), *((0, m) for m in more)), value=0)
    else:
        pads = (0,) * n if padding == "valid" else spread(f"{name}: padding", padding, n)
    if any(p < 0 for p in pads):
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(pads)}")
    out = ops.convolution(x, weight, bias, stride=strides, padding=pads, dilation=dilations, groups=groups)
    return out if had_batch else out.squeeze(0)  # type: ignore[no-any-return]


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation of (batch, channels, length) with weights (channels out, channels in / groups, length)."""
    return _convolution(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation of (batch, channels, height, width) with weights (channels out, channels in / groups, height, width)."""
    return _convolution(2, input, weight, bias, stride, padding, dilation, groups)


def _transposed(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Tensor:
    name = f"conv_transpose{n}d"
    if weight.ndim != n + 2:
        raise RuntimeError(f"{name}: expected a weight of {n + 2} dimensions, got {list(weight.shape)}")
    require_one_type(name, input, weight=weight, bias=bias)
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got {groups}")
    x, had_batch = batched(name, input, n)
    strides, pads, dilations = (spread(name, v, n) for v in (stride, padding, dilation))
    extra = spread(name, output_padding, n)
    if min(*pads, *extra) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(pads)} and output_padding {list(extra)}")
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding {list(extra)} and stride"
            f" {list(strides)}"
        )
    sizes = tuple(
        (m - 1) * s - 2 * p + d * (k - 1) + e + 1
        for m, s, p, d, k, e in zip(x.shape[2:], strides, pads, dilations, weight.shape[2:], extra, strict=True)
    )
    out = ops.convolution_transpose(x, weight, bias, output_shape=sizes, stride=strides, padding=pads, dilation=dilations, groups=groups)
    return out if had_batch else out.squeeze(0)  # type: ignore[no-any-return]


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv1d."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv2d."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _window(name: str, n: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    """The geometry of a pool, checked."""
    sizes, pads = spread(f"{name}: kernel_size", kernel, n), spread(f"{name}: padding", padding, n)
    strides = sizes if stride is None or stride in ([], ()) else spread(f"{name}: stride", stride, n)
    dilations = spread(f"{name}: dilation", dilation, n)
    for word, values in (("kernel size", sizes), ("stride", strides), ("dilation", dilations)):
        if any(v < 1 for v in values):
            raise RuntimeError(f"{name}: {word} should be greater than zero, but got {list(values)}")
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


def _avg_pool(n: int, input: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: int | None) -> Tensor:
    name = f"avg_pool{n}d"
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    x, had_batch = batched(name, input, n)
    window = _window(name, n, x, kernel, stride, padding, 1, ceil_mode)
    out = ops.avg_pool(x, count_include_pad=include, divisor_override=divisor, **window)
    return out if had_batch else out.squeeze(0)  # type: ignore[no-any-return]


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


def _adaptive(n: int, input: Tensor, output_size: Any) -> Tensor:
    require_floats(f"adaptive_avg_pool{n}d", input)
    x, had_batch = batched(f"adaptive_avg_pool{n}d", input, n)
    wanted = (output_size,) * n if isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != n or any(want is not None and want < 0 for want in wanted):
        raise RuntimeError(f"adaptive_avg_pool{n}d: output_size must be {n} numbers greater than or equal to 0, but got {list(wanted)}")
    sizes = tuple(have if want is None else want for want, have in zip(wanted, x.shape[2:], strict=True))
    out = x.narrow(2, 0, 0).reshape(*x.shape[:2], *sizes) if 0 in sizes else ops.adaptive_avg_pool(x, output_size=sizes)
    return out if had_batch else out.squeeze(0)  # type: ignore[no-any-return]


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as the result shall have elements."""
    return _adaptive(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as the result shall have rows and columns."""
    return _adaptive(2, input, output_size)
