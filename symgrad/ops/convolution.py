"""Convolution and pooling rows. The three convolutions are faces of one trilinear form, so each one's rules are the other two."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops import kernels
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def convolution_type(x: Any, w: Any, bias: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Meta:
    if len(x.shape) != len(w.shape):
        raise RuntimeError(f"convolution: expected input of {len(w.shape)} dimensions for a weight of size {list(w.shape)}, but got {list(x.shape)}")
    if x.shape[1] != w.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have {w.shape[1] * groups} channels,"
            f" but got {x.shape[1]} channels instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(f"convolution: {w.shape[0]} output channels cannot be divided into {groups} groups")
    if bias is not None and tuple(bias.shape) != (w.shape[0],):
        raise RuntimeError(
            f"Given weight of size {list(w.shape)}, expected bias to be 1-dimensional with {w.shape[0]} elements, but got bias of size"
            f" {list(bias.shape)} instead"
        )
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    padded = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    if any(n < s for n, s in zip(padded, spans, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: ({' x '.join(map(str, spans))})."
            " Kernel size can't be greater than actual input size"
        )
    sizes = tuple((n - s) // t + 1 for n, s, t in zip(padded, spans, stride, strict=True))
    return Meta((x.shape[0], w.shape[0], *sizes), x.dtype)


def _convolution(x, w, bias, *, stride, padding, dilation, groups):
    convolution_type(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    out = kernels.convolution(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * (x.ndim - 2))
    return out


def _bias_rule(xp, g, out, x, w, bias, **geometry):
    return xp.sum(g, axis=(0, *range(2, len(g.shape))), keepdims=False)


row(
    "convolution", "x w bias / stride padding dilation groups", _convolution,
    (
        lambda xp, g, out, x, w, bias, **geometry: xp.convolution_transpose(g, w, output_shape=tuple(x.shape[2:]), **geometry),
        lambda xp, g, out, x, w, bias, **geometry: xp.convolution_weight(x, g, kernel_shape=tuple(w.shape[2:]), **geometry),
        _bias_rule,
    ),
    saves=("w", "x", ""), type=convolution_type,
)  # fmt: skip


def _transpose_type(g: Any, w: Any, *, output_shape: Any, groups: int, **geometry: Any) -> Meta:
    return Meta((g.shape[0], w.shape[1] * groups, *output_shape), g.dtype)


def _weight_type(x: Any, g: Any, *, kernel_shape: Any, groups: int, **geometry: Any) -> Meta:
    return Meta((g.shape[1], x.shape[1] // groups, *kernel_shape), x.dtype)


row(
    "convolution_transpose", "g w / output_shape stride padding dilation groups", kernels.convolution_transpose,
    (
        lambda xp, h, out, g, w, *, output_shape, **geometry: xp.convolution(h, w, None, **geometry),
        lambda xp, h, out, g, w, *, output_shape, **geometry: xp.convolution_weight(h, g, kernel_shape=tuple(w.shape[2:]), **geometry),
    ),
    saves=("w", "g"), type=_transpose_type, display="ConvolutionBackward0",
)  # fmt: skip
row(
    "convolution_weight", "x g / kernel_shape stride padding dilation groups", kernels.convolution_weight,
    (
        lambda xp, h, out, x, g, *, kernel_shape, **geometry: xp.convolution_transpose(g, h, output_shape=tuple(x.shape[2:]), **geometry),
        lambda xp, h, out, x, g, *, kernel_shape, **geometry: xp.convolution(x, h, None, **geometry),
    ),
    saves=("g", "x"), type=_weight_type, display="ConvolutionBackwardBackward0",
)  # fmt: skip


def max_pool_type(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> tuple[Meta, Meta]:
    spatial = kernels.pooled_shape(x.shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    if any(n < 1 for n in spatial):
        raise RuntimeError(f"max_pool: given input size {list(x.shape)}, the calculated output size {list(spatial)} is too small")
    shape = (*x.shape[:2], *spatial)
    return Meta(shape, x.dtype), Meta(shape, np.dtype(np.int64))


def _max_pool_rule(xp, g, out, x, **geometry):
    return xp.pool_scatter(g[0], out[1], input_shape=tuple(x.shape[2:]))


row(
    "max_pool", "x / kernel stride padding dilation ceil_mode", kernels.max_pool, (_max_pool_rule,), saves="out1", policy="each", type=max_pool_type,
    outputs=2, display=lambda node: f"MaxPool{len(node.attrs['kernel'])}DWithIndicesBackward0",
)  # fmt: skip
row(
    "pool_scatter", "g indices / input_shape", kernels.pool_scatter,
    (lambda xp, h, out, g, indices, *, input_shape: xp.pool_gather(h, indices), None), saves=("indices", ""), policy="each",
    type=lambda g, indices, *, input_shape: Meta((*g.shape[:2], *input_shape), g.dtype),
)  # fmt: skip
row(
    "pool_gather", "x indices", kernels.pool_gather,
    (lambda xp, g, out, x, indices: xp.pool_scatter(g, indices, input_shape=tuple(x.shape[2:])), None), saves=("indices", ""), policy="each",
    type=lambda x, indices: Meta(tuple(indices.shape), x.dtype),
)  # fmt: skip


def avg_pool_type(x: Any, *, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, **rest: Any) -> Meta:
    ones = (1,) * len(kernel)
    spatial = kernels.pooled_shape(x.shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=ones, ceil_mode=ceil_mode)
    if any(n < 1 for n in spatial):
        raise RuntimeError(f"avg_pool: given input size {list(x.shape)}, the calculated output size {list(spatial)} is too small")
    return Meta((*x.shape[:2], *spatial), x.dtype)


row(
    "avg_pool", "x / kernel stride padding ceil_mode count_include_pad divisor_override", kernels.avg_pool,
    (lambda xp, g, out, x, **geometry: xp.avg_unpool(g, input_shape=tuple(x.shape[2:]), **geometry),), policy="each", type=avg_pool_type,
    display=lambda node: f"AvgPool{len(node.attrs['kernel'])}DBackward0",
)  # fmt: skip
row(
    "avg_unpool", "g / input_shape kernel stride padding ceil_mode count_include_pad divisor_override", kernels.avg_unpool,
    (lambda xp, h, out, g, *, input_shape, **geometry: xp.avg_pool(h, **geometry),), policy="each",
    type=lambda g, *, input_shape, **geometry: Meta((*g.shape[:2], *input_shape), g.dtype),
)  # fmt: skip
row(
    "adaptive_avg_pool", "x / output_size", kernels.adaptive_avg_pool,
    (lambda xp, g, out, x, *, output_size: xp.adaptive_avg_unpool(g, input_shape=tuple(x.shape[2:])),), policy="each",
    type=lambda x, *, output_size: Meta((*x.shape[:2], *output_size), x.dtype), display="AdaptiveAvgPool2DBackward0",
)  # fmt: skip
row(
    "adaptive_avg_unpool", "g / input_shape", kernels.adaptive_avg_unpool,
    (lambda xp, h, out, g, *, input_shape: xp.adaptive_avg_pool(h, output_size=tuple(g.shape[2:])),), policy="each",
    type=lambda g, *, input_shape: Meta((*g.shape[:2], *input_shape), g.dtype),
)  # fmt: skip
