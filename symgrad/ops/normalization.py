"""Rows that scale a slice by its own statistics: softmax, log_softmax, and the affine norm under layer, batch and group norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.shapes import broadcast_shapes, reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def same_type(x: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, x.dtype)


def _softmax(x, *, axis):
    e = np.exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    e /= np.add.reduce(e, axis=axis, keepdims=True)
    return e


def _log_softmax(x, *, axis):
    shifted = x - np.maximum.reduce(x, axis=axis, keepdims=True)
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis=axis, keepdims=True))
    return shifted


def _softmax_rule(xp, g, out, x, *, axis):
    weighted = g * out
    return weighted - out * xp.sum(weighted, axis=(axis,), keepdims=True)


def _log_softmax_rule(xp, g, out, x, *, axis):
    return g - xp.exp(out) * xp.sum(g, axis=(axis,), keepdims=True)


row("softmax", "x / axis", _softmax, (_softmax_rule,), saves="out", policy="float", type=same_type, jax="jax.nn.softmax")
row("log_softmax", "x / axis", _log_softmax, (_log_softmax_rule,), saves="out", policy="float", type=same_type, jax="jax.nn.log_softmax")


# affine_norm: y = (x - mean) * scale * weight + bias, where mean and scale = 1 / sqrt(variance + eps) are taken over `axes` and are
# results, too: a derivative of the rule below goes through them. `weight` and `bias` broadcast against x; 1 and 0 stand for none.


def _affine_norm(x, weight, bias, *, axes, eps, title):
    count = x.size // max(1, int(np.prod(reduced_shape(x.shape, axes, False), dtype=np.int64)))
    mean = np.add.reduce(x, axis=axes, keepdims=True) / count
    y = x - mean
    scale = 1 / np.sqrt(np.add.reduce(y * y, axis=axes, keepdims=True) / count + eps)
    y *= scale
    if weight.__class__ is np.ndarray:
        y *= weight
    if bias.__class__ is np.ndarray:
        y += bias
    return y, mean.astype(x.dtype, copy=False), scale.astype(x.dtype, copy=False)


def _average(xp, value, axes, count):
    return xp.sum(value, axis=axes, keepdims=True) / count


def _count(x: Any, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


def _affine_norm_x(xp, g, out, x, weight, bias, *, axes, eps, title):
    _, mean, scale = out
    count, total = _count(x, axes), None
    centred = x - mean
    if g[0] is not None:
        gy = g[0] * weight
        unit = centred * scale
        total = scale * (gy - _average(xp, gy, axes, count) - unit * _average(xp, gy * unit, axes, count))
    if g[1] is not None:
        part = xp.expand(g[1] / count, shape=x.shape)
        total = part if total is None else total + part
    if g[2] is not None:
        part = -g[2] * (scale * scale * scale) * centred / count
        total = part if total is None else total + part
    return total


def _affine_norm_weight(xp, g, out, x, weight, bias, *, axes, eps, title):
    return None if g[0] is None else g[0] * ((x - out[1]) * out[2])


def _affine_norm_type(x: Any, weight: Any, bias: Any, *, axes: tuple[int, ...], eps: float, title: str) -> tuple[Meta, ...]:
    shape = broadcast_shapes(title, x.shape, *(tuple(p.shape) for p in (weight, bias) if hasattr(p, "shape")))
    statistics = Meta(reduced_shape(x.shape, axes, True), x.dtype)
    return Meta(shape, x.dtype), statistics, statistics


row(
    "affine_norm", "x weight bias / axes eps title", _affine_norm,
    (_affine_norm_x, _affine_norm_weight, lambda xp, g, out, x, weight, bias, *, axes, eps, title: g[0]),
    saves=("x weight out1 out2", "x out1 out2", ""), type=_affine_norm_type, outputs=3, display=lambda node: node.attrs["title"],
)  # fmt: skip
