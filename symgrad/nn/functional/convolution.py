"""Convolutions as functions, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.checks import require_one_type
from symgrad.ops.promotion import BOOL
from symgrad.tensor import Tensor

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Sizes = int | Sequence[int]


def spread(name: str, value: Any, n: int) -> tuple[int, ...]:
    """An int for all spatial dimensions, or one for each."""
    if isinstance(value, str):
        raise TypeError(f"{name}: expected one number or {n}, got {value!r}")
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


def _refuse_booleans(name: str, input: Tensor) -> None:
    if input._array.dtype == BOOL:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


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
    if 0 in weight.shape:
        raise RuntimeError(f"{name}: non-empty weight tensor expected, got weight of size {list(weight.shape)}")
    require_one_type(name, input, bias=bias)
    _refuse_booleans(name, input)
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
    elif isinstance(padding, str) and padding != "valid":
        raise RuntimeError(f"{name}: Invalid padding string: {padding!r}, use 'same', 'valid' or numbers")
    else:
        pads = (0,) * n if padding == "valid" else spread(f"{name}: padding", padding, n)
    if any(p < 0 for p in pads):
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(pads)}")
    out = ops.convolution(x, weight, bias, stride=strides, padding=pads, dilation=dilations, groups=groups)
    return out if had_batch else out.squeeze(0)


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


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1, groups: int = 1
) -> Tensor:
    """Cross-correlation over three dimensions."""
    return _convolution(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Tensor:
    name = f"conv_transpose{n}d"
    if weight.ndim != n + 2:
        raise RuntimeError(f"{name}: expected a weight of {n + 2} dimensions, got {list(weight.shape)}")
    require_one_type(name, input, weight=weight, bias=bias)
    if input.dtype != weight.dtype:
        raise RuntimeError(f"{name}: input type ({input.type()}) and weight type ({weight.type()}) should be the same")
    _refuse_booleans(name, input)
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got {groups}")
    x, had_batch = batched(name, input, n)
    strides, pads, dilations = (spread(name, v, n) for v in (stride, padding, dilation))
    extra = spread(name, output_padding, n)
    if min(*strides, *dilations) < 1:
        raise RuntimeError(f"{name}: stride and dilation should be greater than zero, but got {list(strides)} and {list(dilations)}")
    if min(*pads, *extra) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(pads)} and output_padding {list(extra)}")
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding {list(extra)} and stride"
            f" {list(strides)}"
        )
    spans = [(m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(x.shape[2:], strides, dilations, weight.shape[2:], strict=True)]
    sizes = tuple(span - 2 * p + e for span, p, e in zip(spans, pads, extra, strict=True))
    if min(sizes) < 1:
        given, found = (" x ".join(map(str, shape)) for shape in (x.shape[2:], sizes))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: ({found}). Output size is too small"
        )
    geometry = {"stride": strides, "dilation": dilations, "groups": groups}
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        full = ops.convolution_transpose(x, weight, None, output_shape=tuple(spans), padding=(0,) * n, **geometry)
        out = _cropped(full, pads, sizes, bias)
    else:
        out = ops.convolution_transpose(x, weight, bias, output_shape=sizes, padding=pads, **geometry)
    return out if had_batch else out.squeeze(0)


def _cropped(full: Tensor, pads: Any, sizes: tuple[int, ...], bias: Tensor | None) -> Tensor:
    """The part of a transposed convolution that padding leaves, with zeros beyond its end, plus bias. A window that begins in those zeros
    would have no input: so an output padding of a stride or more cannot be part of the convolution."""
    more = [max(p + size - n, 0) for p, size, n in zip(pads, sizes, full.shape[2:], strict=True)]
    x = ops.pad(full, widths=((0, 0), (0, 0), *((0, m) for m in more)), value=0)
    out = x[(..., *(slice(p, p + size) for p, size in zip(pads, sizes, strict=True)))]
    return out if bias is None else out + bias.reshape(-1, *(1,) * len(sizes))


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


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv3d."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
