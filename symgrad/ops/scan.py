"""Scans: rows that run along one dimension and keep it. `reverse` runs from the end, so a scan's transpose is a scan."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from symgrad.ops.promotion import FLOAT64, INT64, kind
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def scan_type(x: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, x.dtype)


def summing_type(x: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, INT64 if kind(x.dtype) in "bi" else x.dtype)


def backwards(axis: int) -> tuple[Any, ...]:
    """The index that turns a dimension round."""
    return (*((slice(None),) * axis), slice(None, None, -1))


def accumulate(ufunc: Any, x: Any, axis: int, reverse: bool) -> Any:
    """A running fold: integers in int64, floats in float64, so that a million terms do not pile up float32's error."""
    turn = backwards(axis) if reverse else ()
    if kind(x.dtype) == "f" and x.dtype != FLOAT64:
        wide = x.astype(FLOAT64, "C")
        ufunc.accumulate(wide[turn], axis, out=wide[turn])  # in place: a new array of this size takes longer than the sum
        return wide.astype(x.dtype)
    result = ufunc.accumulate(x[turn], axis, INT64 if kind(x.dtype) in "bi" else None)
    return np.ascontiguousarray(result[turn])


def _cumsum(x, *, axis, reverse):
    return accumulate(np.add, x, axis, reverse)


def _cumprod(x, *, axis, reverse):
    return accumulate(np.multiply, x, axis, reverse)


def _logcumsumexp(x, *, axis, reverse):
    return accumulate(np.logaddexp, x, axis, reverse)


def _step(reverse: bool) -> int:
    return -1 if reverse else 1


def _cumprod_rule(xp, g, out, x, *, axis, reverse):
    """out[k] = x[k] out[k-1], so each x[k] gets out[k-1] times what the later results pass back: no division, zeros do no harm."""
    step = _step(reverse)
    passed = xp.recurrence(xp.shift(x, axis=axis, by=-step, fill=0), g, axis=axis, reverse=not reverse)
    return xp.shift(out, axis=axis, by=step, fill=1) * passed


def _logcumsumexp_rule(xp, g, out, x, *, axis, reverse):
    """The same chain in logarithms: out[k] reaches out[k+1] with the weight exp(out[k] - out[k+1]) <= 1, the last one nothing."""
    step = _step(reverse)
    weight = xp.exp(out - xp.shift(out, axis=axis, by=-step, fill=inf))
    return xp.exp(x - out) * xp.recurrence(weight, g, axis=axis, reverse=not reverse)


def _reversible(function: str) -> Any:
    def text(x, *, axis, reverse):
        return f"jax.lax.{function}({x}, axis={axis}, reverse={reverse})"

    return text


row(
    "cumsum", "x / axis reverse", _cumsum, (lambda xp, g, out, x, *, axis, reverse: xp.cumsum(g, axis=axis, reverse=not reverse),),
    policy="count", type=summing_type, jax=_reversible("cumsum"),
)  # fmt: skip
row(
    "cumprod", "x / axis reverse", _cumprod, (_cumprod_rule,), saves="x out", policy="count", type=summing_type, jax=_reversible("cumprod"),
)  # fmt: skip
row(
    "logcumsumexp", "x / axis reverse", _logcumsumexp, (_logcumsumexp_rule,), saves="x out", policy="float", kinds="f", type=scan_type,
    jax=_reversible("cumlogsumexp"),
)  # fmt: skip


# The helpers of the rules: moving along a dimension, and the linear recurrence s[k] = x[k] s[k-1] + y[k], whose transpose is another.


def _shift(x, *, axis, by, fill):
    out = np.full_like(x, fill, order="C")
    lead = (slice(None),) * axis
    if by > 0:
        out[(*lead, slice(by, None))] = x[(*lead, slice(None, -by))]
    else:
        out[(*lead, slice(None, by))] = x[(*lead, slice(-by, None))]
    return out


def _shift_text(x, *, axis, by, fill):
    return (
        f"jax.lax.pad({x}, jnp.asarray({'jnp.inf' if fill == inf else fill}, {x}.dtype),"
        f" [({by}, {-by}, 0) if i == {axis} else (0, 0, 0) for i in range({x}.ndim)])"
    )


def _recurrence(x, y, *, axis, reverse):
    """x[0] plays no part: before the first there is nothing."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    turn = slice(None, None, -1 if reverse else 1)
    x, y = (np.moveaxis(np.broadcast_to(a, shape), axis, 0)[turn] for a in (x, y))
    by_steps = len(x) <= 32 or x.size > 512 * len(x)
    return np.ascontiguousarray(np.moveaxis((_steps if by_steps else _halves)(x, y)[turn], 0, axis))


def _steps(x, y):
    s = np.array(y, order="C")
    for k in range(1, len(s)):
        s[k] += x[k] * s[k - 1]
    return s


def _halves(x, y):
    """Join neighbours, solve the recurrence of half the length, fill in: a logarithmic number of whole-array operations."""
    if len(y) == 1:
        return y.copy()
    later = x[1::2]
    joined = _halves(later * x[: len(later) * 2 : 2], later * y[: len(later) * 2 : 2] + y[1::2])
    s = np.empty(y.shape, y.dtype)
    s[0], s[1::2] = y[0], joined
    s[2::2] = x[2::2] * joined[: len(s[2::2])] + y[2::2]
    return s


def _recurrence_y(xp, g, out, x, y, *, axis, reverse):
    return xp.recurrence(xp.shift(x, axis=axis, by=-_step(reverse), fill=0), g, axis=axis, reverse=not reverse)


def _recurrence_x(xp, g, out, x, y, *, axis, reverse):
    return _recurrence_y(xp, g, out, x, y, axis=axis, reverse=reverse) * xp.shift(out, axis=axis, by=_step(reverse), fill=0)


def _recurrence_text(x, y, *, axis, reverse):
    return (
        "jax.lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),"
        f" ({x}, {y}), reverse={reverse}, axis={axis})[1]"
    )


row(
    "shift", "x / axis by fill", _shift, (lambda xp, g, out, x, *, axis, by, fill: xp.shift(g, axis=axis, by=-by, fill=0),),
    policy="each", type=scan_type, jax=_shift_text,
)  # fmt: skip
row(
    "recurrence", "x y / axis reverse", _recurrence, (_recurrence_x, _recurrence_y), saves=("x out", "x"),
    type=lambda x, y, **attrs: Meta(x.shape, x.dtype), jax=_recurrence_text,
)  # fmt: skip


# Running extremes: the latest of equal ones is chosen, and a NaN stays.


def running_extreme(name: str, ufunc: Any) -> None:
    def kernel(x, *, axis):
        values = ufunc.accumulate(x, axis)
        position = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - axis - 1))
        reached = np.where((x == values) | (x != x), position, 0)
        return values, np.maximum.accumulate(reached, axis)

    def text(x, *, axis):
        values = f"jax.lax.{name}({x}, axis={axis})"
        position = f"jax.lax.broadcasted_iota(jnp.int64, {x}.shape, {axis})"
        return f"({values}, jax.lax.cummax(jnp.where(({x} == {values}) | ({x} != {x}), {position}, 0), axis={axis}))"

    row(
        name, "x / axis", kernel,
        (lambda xp, g, out, x, *, axis: xp.scatter_along(g[0], out[1], axis=axis, size=x.shape[axis]),), saves="out1",
        outputs=2, policy="each", kinds="bif", type=lambda x, *, axis: (Meta(x.shape, x.dtype), Meta(x.shape, INT64)), jax=text,
    )  # fmt: skip


running_extreme("cummax", np.maximum)
running_extreme("cummin", np.minimum)
