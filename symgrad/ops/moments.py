"""Variance, deviation and norms: reductions of squares and other powers. `axis` is as in `symgrad.ops.reduction`."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from symgrad.ops.reduction import Everything, add, count, maximum, minimum, reduction_type, restore, share, sum_of_squares, wide_sum
from symgrad.ops.shapes import reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import row
from symgrad.ops.variants import is_complex


def real_type(x: Any, *, axis: tuple[int, ...], keepdims: bool, **attrs: Any) -> Meta:
    dtype = x.dtype if x.dtype.kind != "c" else np.empty(0, x.dtype).real.dtype
    return Meta(reduced_shape(x.shape, axis, keepdims), dtype)


def pair_type(x: Any, *, axis: tuple[int, ...], correction: Any, keepdims: bool) -> tuple[Meta, Meta]:
    return real_type(x, axis=axis, keepdims=keepdims), reduction_type(x, axis=axis, keepdims=keepdims)


def _var_mean(x, *, axis, correction, keepdims):
    n = count(x.shape, axis)
    mean = np.divide(wide_sum(x, axis, True), n)
    total = sum_of_squares(x - mean, axis, keepdims)
    return np.divide(total, max(n - correction, 0)), mean if keepdims else mean.reshape(reduced_shape(x.shape, axis, False))


def _std_mean(x, **attrs):
    variance, mean = _var_mean(x, **attrs)
    return np.sqrt(variance), mean


def _var_vjp(xp, g, mean, x, axis, correction, keepdims):
    freedom = count(x.shape, axis) - correction
    g = restore(xp, g, x, axis, keepdims)
    scale = g * 2 / freedom if freedom else g * inf
    return scale * (x - restore(xp, mean, x, axis, keepdims))


def _half_over(xp, g, deviation):
    """g / (2 deviation), and 0 where the deviation is: equal values pass nothing back, to second order, too."""
    still = deviation == 0
    return xp.where(still, 0, g / (2 * xp.where(still, 1, deviation)))


def _var_rule(xp, g, out, x, *, axis, correction, keepdims):
    return _var_vjp(xp, g, xp.mean(x, axis=axis, keepdims=keepdims), x, axis, correction, keepdims)


def _std_rule(xp, g, out, x, *, axis, correction, keepdims):
    return _var_rule(xp, _half_over(xp, g, out), out, x, axis=axis, correction=correction, keepdims=keepdims)


def _with_mean(xp, g_spread, g_mean, out, x, axis, correction, keepdims):
    """The cotangents of a spread and of the mean beside it; either may be missing."""
    parts = []
    if g_spread is not None:
        parts.append(_var_vjp(xp, g_spread, out[1], x, axis, correction, keepdims))
    if g_mean is not None:
        part = restore(xp, g_mean / count(x.shape, axis), x, axis, keepdims)
        parts.append(part if parts else xp.expand(part, shape=x.shape))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _var_mean_rule(xp, g, out, x, *, axis, correction, keepdims):
    return _with_mean(xp, g[0], g[1], out, x, axis, correction, keepdims)


def _std_mean_rule(xp, g, out, x, *, axis, correction, keepdims):
    g_spread = None if g[0] is None else _half_over(xp, g[0], out[0])
    return _with_mean(xp, g_spread, g[1], out, x, axis, correction, keepdims)


def _spread_text(name: str) -> Any:
    def text(x, *, axis, correction, keepdims):
        return f"jnp.{name}({x}, axis={tuple(axis)}, ddof={correction!r}, keepdims={keepdims})"

    return text


def _pair_text(name: str) -> Any:
    spread = _spread_text(name)

    def text(x, **attrs):
        return f"({spread(x, **attrs)}, jnp.mean({x}, axis={tuple(attrs['axis'])}, keepdims={attrs['keepdims']}))"

    return text


def _var_compose(xp, x, *, axis, correction, keepdims):
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    squares = xp.power(xp.abs(centred) if is_complex(x) else centred, exponent=2)
    return xp.sum(squares, axis=axis, keepdims=keepdims) / max(count(x.shape, axis) - correction, 0)


def _pair_compose(name: str) -> Any:
    def compose(xp, x, *, axis, correction, keepdims):
        spread = getattr(xp, name)(x, axis=axis, correction=correction, keepdims=keepdims)
        return spread, xp.mean(x, axis=axis, keepdims=keepdims)

    return compose


def spread_row(name: str, kernel: Any, rule: Any, saves: str, **columns: Any) -> None:
    row(name, "x / axis correction keepdims", kernel, (rule,), saves, policy="each", kinds="fc", complex="own", **columns)


spread_row(
    "var", lambda x, **attrs: _var_mean(x, **attrs)[0], _var_rule, "x", type=real_type, jax=_spread_text("var"), compose=_var_compose,
)  # fmt: skip
spread_row(
    "std", lambda x, **attrs: _std_mean(x, **attrs)[0], _std_rule, "x out", type=real_type, jax=_spread_text("std"),
    compose=lambda xp, x, **attrs: xp.sqrt(_var_compose(xp, x, **attrs)),
)  # fmt: skip
spread_row(
    "var_mean", _var_mean, _var_mean_rule, "x out1", type=pair_type, outputs=2, jax=_pair_text("var"), compose=_pair_compose("var"),
)  # fmt: skip
spread_row(
    "std_mean", _std_mean, _std_mean_rule, "x out", type=pair_type, outputs=2, jax=_pair_text("std"), compose=_pair_compose("std"),
)  # fmt: skip


# Vector norms of any order, over any dimensions at once.


def _vector_norm(x, *, ord, axis, keepdims):
    if ord == 2:
        return np.sqrt(sum_of_squares(x, axis, keepdims))
    if ord == 0:
        return add.reduce(x != 0, axis, x.real.dtype, None, keepdims)
    size = np.abs(x)
    if ord == 1:
        return wide_sum(size, axis, keepdims)
    if abs(ord) == inf:
        return (maximum if ord > 0 else minimum).reduce(size, axis, None, None, keepdims)
    if ord < 0 and count(x.shape, axis) == 0:
        raise ValueError("nothing to divide by")
    return wide_sum(size**ord, axis, keepdims) ** (1 / ord)


def _vector_norm_rule(xp, g, out, x, *, ord, axis, keepdims):
    """PyTorch's choices where the norm has a kink: 0 at the origin, equal shares among the largest."""
    if ord == 0:
        return xp.expand(restore(xp, g, x, axis, keepdims) * 0, shape=x.shape)
    if ord == 1:
        return restore(xp, g, x, axis, keepdims) * xp.sgn(x)
    if abs(ord) == inf:
        return share(xp, g, xp.abs(x) == restore(xp, out, x, axis, keepdims), x, axis, keepdims) * xp.sgn(x)
    length = xp.where(out == 0, 1, out)  # so that what is linear in g is finite at the origin: forward mode is its transpose
    if ord == 2:
        return x * restore(xp, xp.where(out == 0, 0, g / length), x, axis, keepdims)
    scale = xp.where(out == 0, 0, g * xp.power(length, exponent=1 - ord))
    if ord < 2:
        direction = xp.where(x == 0, 0, xp.sgn(x) * xp.power(xp.abs(x), exponent=ord - 1))
    else:
        direction = x * xp.power(xp.abs(x), exponent=ord - 2)
    return direction * restore(xp, scale, x, axis, keepdims)


def _vector_norm_type(x: Any, *, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Meta:
    if ord < 0 or ord == inf:
        for i in axis:
            if x.shape[i] == 0:
                whole = axis.__class__ is Everything
                where = "an empty tensor because" if whole else f"the dimension {i} because this dimension is empty and"
                raise RuntimeError(f"linalg.vector_norm cannot compute the {ord} norm on {where} the operation does not have an identity")
    return real_type(x, axis=axis, keepdims=keepdims)


def _vector_norm_compose(xp, x, *, ord, axis, keepdims):
    if ord == 0:
        return xp.cast(xp.count_nonzero(x, axis=axis, keepdims=keepdims), dtype=np.dtype(x.dtype))
    size = x if ord == 2 and not is_complex(x) else xp.abs(x)
    if ord == 1:
        return xp.sum(size, axis=axis, keepdims=keepdims)
    if abs(ord) == inf:
        return (xp.amax if ord > 0 else xp.amin)(size, axis=axis, keepdims=keepdims)
    total = xp.sum(xp.power(size, exponent=ord), axis=axis, keepdims=keepdims)
    return xp.sqrt(total) if ord == 2 else xp.power(total, exponent=1 / ord)


def _vector_norm_text(x, *, ord, axis, keepdims):
    fold = f"axis={tuple(axis)}, keepdims={keepdims}"
    if ord == 2:
        return f"jnp.sqrt(jnp.sum(jnp.abs({x}) ** 2, {fold}))"
    if ord == 0:
        return f"jnp.sum({x} != 0, {fold}, dtype={x}.real.dtype)"
    if ord == 1:
        return f"jnp.sum(jnp.abs({x}), {fold})"
    if abs(ord) == inf:
        return f"jnp.{'max' if ord > 0 else 'min'}(jnp.abs({x}), {fold})"
    return f"jnp.sum(jnp.abs({x}) ** {ord!r}, {fold}) ** (1 / {ord!r})"


row(
    "vector_norm", "x / ord axis keepdims", _vector_norm, (_vector_norm_rule,), saves="x out", policy="each", kinds="fc", complex="own",
    type=_vector_norm_type, display="LinalgVectorNormBackward0", jax=_vector_norm_text, compose=_vector_norm_compose,
)  # fmt: skip
