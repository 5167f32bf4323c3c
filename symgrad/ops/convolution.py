"""Convolution and pooling rows. The three convolutions are faces of one trilinear form, so each one's rules are the other two."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from symgrad.ops import kernels
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def convolution_type(x: Any, w: Any, bias: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Meta:
    if len(x.shape) != len(w.shape):
        raise RuntimeError(
            f"convolution: expected input of {len(w.shape)} dimensions for a weight of size {list(w.shape)}, but got {list(x.shape)}"
        )
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
    return out if bias is None else _shifted(out, bias)


def _shifted(out, bias):
    """A number for each channel added, in place; repeated to the length of an image, so that NumPy adds long rows."""
    places = prod(out.shape[2:])
    rows = out.reshape(len(out), len(bias) * places)
    rows += bias.repeat(places)
    return out


# In JAX all three are one function; the two transposes are written as transposes of it, which XLA turns back into convolutions.


def _convolution_text(x: str, w: str, bias: str | None, *, stride: Any, padding: Any, dilation: Any, groups: int) -> str:
    text = (
        f"jax.lax.conv_general_dilated({x}, {w}, {stride!r}, {tuple((p, p) for p in padding)!r}, rhs_dilation={dilation!r},"
        f" feature_group_count={groups})"
    )
    return text if bias is None else f"{text} + {bias}.reshape({(-1, *(1,) * len(stride))!r})"


def _transpose_text(g: str, w: str, bias: str | None, *, output_shape: Any, groups: int, **geometry: Any) -> str:
    shape = f"({g}.shape[0], {w}.shape[1] * {groups}, {', '.join(map(str, output_shape))})"
    forward = _convolution_text("t", w, None, groups=groups, **geometry)
    text = f"jax.linear_transpose(lambda t: {forward}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"
    return text if bias is None else f"{text} + {bias}.reshape({(-1, *(1,) * len(output_shape))!r})"


def _weight_text(x: str, g: str, *, kernel_shape: Any, groups: int, **geometry: Any) -> str:
    shape = f"({g}.shape[1], {x}.shape[1] // {groups}, {', '.join(map(str, kernel_shape))})"
    forward = _convolution_text(x, "t", None, groups=groups, **geometry)
    return f"jax.linear_transpose(lambda t: {forward}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"


def _bias_rule(xp, g, out, x, w, bias, **geometry):
    return xp.sum(g, axis=(0, *range(2, len(g.shape))), keepdims=False)


row(
    "convolution", "x w bias / stride padding dilation groups", _convolution,
    (
        lambda xp, g, out, x, w, bias, **geometry: xp.convolution_transpose(g, w, None, output_shape=tuple(x.shape[2:]), **geometry),
        lambda xp, g, out, x, w, bias, **geometry: xp.convolution_weight(x, g, kernel_shape=tuple(w.shape[2:]), **geometry),
        _bias_rule,
    ),
    saves=("w", "x", ""), type=convolution_type, jax=_convolution_text,
)  # fmt: skip


def _transpose_type(g: Any, w: Any, bias: Any, *, output_shape: Any, groups: int, **geometry: Any) -> Meta:
    if g.shape[1] != w.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(w.shape)}, expected input{list(g.shape)} to have {w.shape[0]} channels, but got"
            f" {g.shape[1]} channels instead"
        )
    channels = w.shape[1] * groups
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(w.shape)}, expected bias to be 1-dimensional with {channels} elements, but got bias"
            f" of size {list(bias.shape)} instead"
        )
    return Meta((g.shape[0], channels, *output_shape), g.dtype)


def _weight_type(x: Any, g: Any, *, kernel_shape: Any, groups: int, **geometry: Any) -> Meta:
    return Meta((g.shape[1], x.shape[1] // groups, *kernel_shape), x.dtype)


def _convolution_transpose(g, w, bias, **geometry):
    _transpose_type(g, w, bias, **geometry)
    out = kernels.convolution_transpose(g, w, **geometry)
    return out if bias is None else _shifted(out, bias)


row(
    "convolution_transpose", "g w bias / output_shape stride padding dilation groups", _convolution_transpose,
    (
        lambda xp, h, out, g, w, bias, *, output_shape, **geometry: xp.convolution(h, w, None, **geometry),
        lambda xp, h, out, g, w, bias, *, output_shape, **space: xp.convolution_weight(h, g, kernel_shape=tuple(w.shape[2:]), **space),
        _bias_rule,
    ),
    saves=("w", "g", ""), type=_transpose_type, display="ConvolutionBackward0", jax=_transpose_text,
)  # fmt: skip
row(
    "convolution_weight", "x g / kernel_shape stride padding dilation groups", kernels.convolution_weight,
    (
        lambda xp, h, out, x, g, *, kernel_shape, **space: xp.convolution_transpose(g, h, None, output_shape=tuple(x.shape[2:]), **space),
        lambda xp, h, out, x, g, *, kernel_shape, **geometry: xp.convolution(x, h, None, **geometry),
    ),
    saves=("g", "x"), type=_weight_type, display="ConvolutionBackwardBackward0", jax=_weight_text,
)  # fmt: skip


def max_pool_type(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> tuple[Meta, Meta]:
    spatial = kernels.pooled_shape(x.shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    if any(n < 1 for n in spatial):
        raise RuntimeError(f"max_pool: given input size {list(x.shape)}, the calculated output size {list(spatial)} is too small")
    shape = (*x.shape[:2], *spatial)
    return Meta(shape, x.dtype), Meta(shape, np.dtype(np.int64))


# Pools in JAX: a window is reduced by lax.reduce_window. The places of a maximum travel with it, the first of equal values wins.


def _pool_window(kernel: Any, stride: Any) -> str:
    return f"{(1, 1, *kernel)!r}, {(1, 1, *stride)!r}"


def _edges(x: str, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> str:
    """Padding as source text; in ceil mode its right side depends on the size of x."""
    if not ceil_mode:
        return repr(((0, 0), (0, 0), *((p, p) for p in padding)))
    pairs = (f"({p}, {right})" for p, right in zip(padding, _rights(x, kernel, stride, padding, dilation), strict=True))
    return f"((0, 0), (0, 0), {', '.join(pairs)})"


def _rights(x: str, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Iterator[str]:
    """How far the last window of each axis reaches beyond x in ceil mode; none starts in the padding on the right."""
    for axis, (k, s, p, d) in enumerate(zip(kernel, stride, padding, dilation, strict=True), 2):
        size, span = f"{x}.shape[{axis}]", d * (k - 1) + 1
        last = f"min(-(-({size} + {2 * p - span}) // {s}), ({size} + {p - 1}) // {s})"
        yield f"max(0, {last} * {s} + {span - p} - {size})"


def _max_pool_text(x: str, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> str:
    axes = tuple(range(2, 2 + len(kernel)))
    size = " * ".join(f"{x}.shape[{axis}]" for axis in axes)
    places = f"jnp.broadcast_to(jnp.arange({size}).reshape({x}.shape[2:]), {x}.shape)"
    lowest = f"(-jnp.inf if jnp.issubdtype({x}.dtype, jnp.floating) else jnp.iinfo({x}.dtype).min)"
    tie = "((b[0] == a[0]) & (b[1] < a[1]))"
    nan = "((b[0] != b[0]) & ((a[0] == a[0]) | (b[1] > a[1])))"
    better = f"(b[0] > a[0]) | {tie} | {nan}"
    choose = f"lambda a, b: (jnp.where({better}, b[0], a[0]), jnp.where({better}, b[1], a[1]))"
    return (
        f"jax.lax.reduce_window(({x}, {places}),"
        f" (jnp.asarray({lowest}, {x}.dtype), jnp.asarray(jnp.iinfo(jnp.int32).max, jnp.arange(0).dtype)),"
        f" {choose}, {_pool_window(kernel, stride)}, {_edges(x, kernel, stride, padding, dilation, ceil_mode)},"
        f" window_dilation={(1, 1, *dilation)!r})"
    )


def _sum_text(x: str, *, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, like: str) -> str:
    edges = _edges(like, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    return f"jax.lax.reduce_window({x}, {like}.dtype.type(0), jax.lax.add, {_pool_window(kernel, stride)}, {edges})"


def _avg_pool_text(x: str, *, count_include_pad: bool, divisor_override: Any, **window: Any) -> str:
    total = _sum_text(x, like=x, **window)
    if divisor_override:
        return f"{total} / {divisor_override!r}"
    if not count_include_pad:
        return f"{total} / {_sum_text(f'jnp.ones_like({x})', like=x, **window)}"
    if not window["ceil_mode"]:
        return f"{total} / {int(np.prod(window['kernel']))}"
    # what lies beyond the padding that was asked for does not count: sum ones over the padded input
    kernel, stride, padding = window["kernel"], window["stride"], window["padding"]
    pads = ((0, 0), (0, 0), *((p, p) for p in padding))
    ones = f"jnp.pad(jnp.ones_like({x}), {pads!r}, constant_values=1)"
    rest = [
        f"(0, max(0, {right} - {p}))" for right, p in zip(_rights(x, kernel, stride, padding, (1,) * len(kernel)), padding, strict=True)
    ]
    return (
        f"{total} / jax.lax.reduce_window({ones}, {x}.dtype.type(0), jax.lax.add, {_pool_window(kernel, stride)},"
        f" ((0, 0), (0, 0), {', '.join(rest)}))"
    )


def _avg_unpool_text(g: str, *, input_shape: Any, **window: Any) -> str:
    shape = f"({g}.shape[0], {g}.shape[1], {', '.join(map(str, input_shape))})"
    return f"jax.linear_transpose(lambda t: {_avg_pool_text('t', **window)}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"


def _adaptive_text(x: str, *, output_size: Any) -> str:
    """A mean over windows is a product with a matrix of weights along each axis."""
    text = x
    for axis, n in enumerate(output_size, 2):
        size = f"{x}.shape[{axis}]"
        start, stop = f"jnp.arange({n})[:, None] * {size} // {n}", f"-(-(jnp.arange({n})[:, None] + 1) * {size} // {n})"
        inside = f"((jnp.arange({size}) >= {start}) & (jnp.arange({size}) < {stop}))"
        text = f"jnp.moveaxis(jnp.tensordot({text}, ({inside} / ({stop} - {start})).astype({x}.dtype), ((({axis}),), (1,))), -1, {axis})"
    return text


def _adaptive_unpool_text(g: str, *, input_shape: Any) -> str:
    shape = f"({g}.shape[0], {g}.shape[1], {', '.join(map(str, input_shape))})"
    sizes = [f"{g}.shape[{axis}]" for axis in range(2, 2 + len(input_shape))]
    forward = _adaptive_text("t", output_size=sizes)
    return f"jax.linear_transpose(lambda t: {forward}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"


def _flat_text(x: str, indices: str) -> str:
    flat = [f"jax.lax.collapse({t}, 2)" for t in (x, indices)]  # reshape(-1) would not know the size of an empty batch
    return f"jnp.take_along_axis({flat[0]}, {flat[1]}, 2).reshape({indices}.shape)"


def _scatter_text(g: str, indices: str, *, input_shape: Any) -> str:
    shape = f"({g}.shape[0], {g}.shape[1], {', '.join(map(str, input_shape))})"
    return f"jax.linear_transpose(lambda t: {_flat_text('t', indices)}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"


def _max_pool_rule(xp, g, out, x, **geometry):
    return xp.pool_scatter(g[0], out[1], input_shape=tuple(x.shape[2:]))


row(
    "max_pool", "x / kernel stride padding dilation ceil_mode", kernels.max_pool, (_max_pool_rule,), saves="out1", policy="each",
    type=max_pool_type, outputs=2, tie=True, kinds="if", jax=_max_pool_text,
    display=lambda node: f"MaxPool{len(node.attrs['kernel'])}DWithIndicesBackward0",
)  # fmt: skip
row(
    "pool_scatter", "g indices / input_shape", kernels.pool_scatter,
    (lambda xp, h, out, g, indices, *, input_shape: xp.pool_gather(h, indices), None), saves=("indices", ""), policy="each",
    type=lambda g, indices, *, input_shape: Meta((*g.shape[:2], *input_shape), g.dtype), jax=_scatter_text,
)  # fmt: skip
row(
    "pool_gather", "x indices", kernels.pool_gather,
    (lambda xp, g, out, x, indices: xp.pool_scatter(g, indices, input_shape=tuple(x.shape[2:])), None), saves=("indices", ""),
    policy="each", type=lambda x, indices: Meta(tuple(indices.shape), x.dtype), jax=_flat_text,
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
    tie=True,
    display=lambda node: f"AvgPool{len(node.attrs['kernel'])}DBackward0", jax=_avg_pool_text,
)  # fmt: skip
row(
    "avg_unpool", "g / input_shape kernel stride padding ceil_mode count_include_pad divisor_override", kernels.avg_unpool,
    (lambda xp, h, out, g, *, input_shape, **geometry: xp.avg_pool(h, **geometry),), policy="each",
    type=lambda g, *, input_shape, **geometry: Meta((*g.shape[:2], *input_shape), g.dtype), jax=_avg_unpool_text,
)  # fmt: skip
row(
    "adaptive_avg_pool", "x / output_size", kernels.adaptive_avg_pool,
    (lambda xp, g, out, x, *, output_size: xp.adaptive_avg_unpool(g, input_shape=tuple(x.shape[2:])),), policy="each",
    type=lambda x, *, output_size: Meta((*x.shape[:2], *output_size), x.dtype), display="AdaptiveAvgPool2DBackward0",
    jax=_adaptive_text,
)  # fmt: skip
row(
    "adaptive_avg_unpool", "g / input_shape", kernels.adaptive_avg_unpool,
    (lambda xp, h, out, g, *, input_shape: xp.adaptive_avg_pool(h, output_size=tuple(g.shape[2:])),), policy="each",
    type=lambda g, *, input_shape: Meta((*g.shape[:2], *input_shape), g.dtype), jax=_adaptive_unpool_text,
)  # fmt: skip
