"""Rows that scale a slice by its own statistics: softmax, log_softmax, and the affine norm under layer, batch and group norm."""

from __future__ import annotations

from functools import partial, wraps
from math import prod
from typing import Any

import numpy as np

from symgrad.ops.kernels.blocks import BLOCK, LARGE, in_rows
from symgrad.ops.kernels.channels import by_channel, channel_norm, channel_norm_weight, channel_norm_x
from symgrad.ops.reduction import wide_sum
from symgrad.ops.shapes import broadcast_shapes, reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise, row


def same_type(x: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, x.dtype)


# The axis of softmax is a tuple, as everywhere: of one dimension, or of none for a 0-d tensor.


def _shifted(x, axis):
    """x minus its largest element, in fresh memory."""
    return np.subtract(x, np.maximum.reduce(x, axis, keepdims=True, initial=None if x.size else 0), out=np.empty(x.shape, x.dtype))


@in_rows
def _softmax(x, *, axis):
    e = _shifted(x, axis)
    np.exp(e, out=e)
    e /= np.add.reduce(e, axis, keepdims=True)
    return e


@in_rows
def _log_softmax(x, *, axis):
    shifted = _shifted(x, axis)
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True))
    return shifted


@in_rows
def _softmax_rule(xp, g, out, x, *, axis):
    return out * (g - xp.sum(g * out, axis=axis, keepdims=True))


@in_rows
def _log_softmax_rule(xp, g, out, x, *, axis):
    return g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True)


row("softmax", "x / axis", _softmax, (_softmax_rule,), saves="out", policy="each", kinds="f", type=same_type, jax="jax.nn.softmax")
row(
    "log_softmax",
    "x / axis",
    _log_softmax,
    (_log_softmax_rule,),
    saves="out",
    policy="each",
    kinds="f",
    type=same_type,
    jax="jax.nn.log_softmax",
)

# Batch norm with statistics that are given.
elementwise(
    "normalize_by", "x mean rate weight bias", lambda x, mean, rate, weight, bias: (x - mean) * (rate * weight) + bias,
    (
        lambda xp, g, out, x, mean, rate, weight, bias: g * (rate * weight),
        lambda xp, g, out, x, mean, rate, weight, bias: -g * (rate * weight),
        lambda xp, g, out, x, mean, rate, weight, bias: g * (x - mean) * weight,
        lambda xp, g, out, x, mean, rate, weight, bias: g * ((x - mean) * rate),
        lambda xp, g, out, x, mean, rate, weight, bias: g,
    ),
    saves=("rate weight", "rate weight", "x mean weight", "x mean rate", ""),
    sympy=lambda sp, x, mean, rate, weight, bias: (x - mean) * rate * weight + bias,
    jax=lambda x, mean, rate, weight, bias: f"({x} - {mean}) * ({rate} * {weight}) + {bias}", kinds="f", display="NativeBatchNormBackward0",
)  # fmt: skip


# affine_norm: y = (x - mean) * scale * weight + bias, where mean and scale = 1 / sqrt(variance + eps) are taken over `axes` and are
# results, too: a derivative of the rules below goes through them. `weight` and `bias` broadcast against x; 1 and 0 stand for none.
# With `shape` all this happens to x in that shape (group norm).


def _affine_norm(x, weight, bias, *, axes, eps, shape, title):
    if by_channel(x, axes, weight, bias):
        return channel_norm(x, weight, bias, eps)
    given = x.shape
    x = np.ascontiguousarray(x if shape is None else x.reshape(shape))
    y = np.empty_like(x)
    statistics = reduced_shape(x.shape, axes, True)
    mean, scale = np.empty(statistics, x.dtype), np.empty(statistics, x.dtype)
    for part in _parts(x, axes):
        _normalize(x[part], y[part], mean[part], scale[part], axes, eps)
        if weight.__class__ is np.ndarray:
            y[part] *= weight
        if bias.__class__ is np.ndarray:
            y[part] += bias
    return y.reshape(given), mean, scale


def _parts(x, axes):
    """Blocks of the first axis that stay in the cache, if there are no statistics along it."""
    if 0 in axes or x.size <= LARGE:
        return [slice(None)]
    step = max(1, BLOCK * len(x) // x.size)
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _normalize(x, y, mean, scale, axes, eps):
    """Mean and scale of x over axes, and (x - mean) * scale, written into the arrays given."""
    count = _count(x, axes)
    np.divide(wide_sum(x, axes, True), count, out=mean)
    np.subtract(x, mean, out=y)
    np.divide(_squares(y, axes), count, out=scale)
    scale += eps
    np.sqrt(scale, out=scale)
    np.reciprocal(scale, out=scale)
    y *= scale


def _squares(y, axes):
    """The sum of squares over axes; of rows it is a product of vectors, which needs no memory."""
    if axes == tuple(range(y.ndim - len(axes), y.ndim)):
        rows = y.reshape(*y.shape[: -len(axes)], _count(y, axes))
        return np.vecdot(rows, rows).reshape(reduced_shape(y.shape, axes, True))
    return wide_sum(y * y, axes, True)


def _count(x: Any, axes: tuple[int, ...]) -> int:
    return prod(x.shape[a] for a in axes)


def _shaped(xp, x, shape):
    return x if shape is None else xp.reshape(x, shape=shape)


def _by_parts(fast):
    """Run a rule part by part of the first axis; the results are joined. For batch norm there is a faster kernel, to first order."""
    return partial(_in_parts, fast)


def _in_parts(fast, rule):

    @wraps(rule)
    def run(xp, g, out, x, weight, bias, *, axes, shape, **attrs):
        if g[1] is None and g[2] is None and x.__class__ is np.ndarray and by_channel(x, axes, weight, bias):
            return fast(g[0], x, out[1], out[2], weight)
        if x.__class__ is not np.ndarray or x.size <= LARGE or 0 in axes:
            return rule(xp, g, out, x, weight, bias, axes=axes, shape=shape, **attrs)
        whole = None
        for part in _parts(x, axes):
            pieces = tuple(None if t is None else t[part] for t in g), tuple(None if t is None else t[part] for t in out)
            inner = None if shape is None else (len(x[part]), *shape[1:])
            result = rule(xp, *pieces, x[part], weight, bias, axes=axes, shape=inner, **attrs)
            if result is None:
                return None
            whole = np.empty((len(x), *result.shape[1:]), x.dtype) if whole is None else whole
            whole[part] = result
        return whole

    return run


@_by_parts(channel_norm_x)
def _affine_norm_x(xp, g, out, x, weight, bias, *, axes, eps, shape, title):
    _, mean, scale = out
    given, total = x.shape, None
    x = _shaped(xp, x, shape)
    centred = x - mean
    if g[0] is not None:
        gy = _shaped(xp, g[0], shape)
        gy = gy if weight.__class__ is int else gy * weight
        slope = scale * scale * scale * xp.mean(gy * centred, axis=axes, keepdims=True)
        total = (gy - xp.mean(gy, axis=axes, keepdims=True)) * scale - centred * slope
    if g[1] is not None:
        part = xp.expand(g[1] / _count(x, axes), shape=tuple(x.shape))
        total = part if total is None else total + part
    if g[2] is not None:
        part = (g[2] * (scale * scale * scale) / -_count(x, axes)) * centred
        total = part if total is None else total + part
    return _shaped(xp, total, None if shape is None else tuple(given))


@_by_parts(channel_norm_weight)
def _affine_norm_weight(xp, g, out, x, weight, bias, *, axes, eps, shape, title):
    return None if g[0] is None else (_shaped(xp, x, shape) - out[1]) * out[2] * _shaped(xp, g[0], shape)


def _affine_norm_bias(xp, g, out, x, weight, bias, *, axes, eps, shape, title):
    return None if g[0] is None else _shaped(xp, g[0], shape)


def _affine_norm_type(x: Any, weight: Any, bias: Any, *, axes: Any, eps: float, shape: Any, title: str) -> tuple[Meta, ...]:
    inner = tuple(x.shape) if shape is None else shape
    for name, parameter in (("weight", weight), ("bias", bias)):
        if hasattr(parameter, "shape") and broadcast_shapes(title, inner, tuple(parameter.shape)) != inner:
            raise RuntimeError(f"{title}: {name} of shape {list(parameter.shape)} does not fit an input of shape {list(inner)}")
    statistics = Meta(reduced_shape(inner, axes, True), x.dtype)
    return Meta(tuple(x.shape), x.dtype), statistics, statistics


def _affine_norm_text(x: str, weight: str, bias: str, *, axes: Any, eps: float, shape: Any, title: str) -> str:
    x, given = (x, "") if shape is None else (f"{x}.reshape({shape!r})", f".reshape({x}.shape)")
    mean, variance = f"jnp.mean({x}, axis={axes!r}, keepdims=True)", f"jnp.var({x}, axis={axes!r}, keepdims=True)"
    scale = f"jax.lax.rsqrt({variance} + {eps!r})"
    return f"((({x} - {mean}) * {scale} * {weight} + {bias}){given}, {mean}, {scale})"


def _affine_norm_compose(xp, x, weight, bias, *, axes, eps, shape, title):
    given, x = tuple(x.shape), _shaped(xp, x, shape)
    mean = xp.mean(x, axis=axes, keepdims=True)
    scale = xp.rsqrt(xp.mean(xp.power(x - mean, exponent=2), axis=axes, keepdims=True) + eps)
    return _shaped(xp, (x - mean) * scale * weight + bias, None if shape is None else given), mean, scale


row(
    "affine_norm", "x weight bias / axes eps shape title", _affine_norm, (_affine_norm_x, _affine_norm_weight, _affine_norm_bias),
    saves=("x weight out1 out2", "x out1 out2", ""), kinds="f", type=_affine_norm_type, outputs=3, display=lambda node: node.attrs["title"],
    jax=_affine_norm_text, compose=_affine_norm_compose,
)  # fmt: skip
