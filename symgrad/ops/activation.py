"""Activation rows: one tape node each, with PyTorch's conventions at the kinks, also of the second derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.exact import PI, root
from symgrad.ops.kernels.blocks import in_blocks
from symgrad.ops.kernels.layout import fresh
from symgrad.ops.kernels.select import select
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise, row

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1 / root(2 * PI)
GELU_ROOT = root(2 / PI)
GELU_CUBE = 0.044715


def _sigmoid(x):
    """Stable on both sides: exp never sees a positive argument."""
    e = np.exp(-np.abs(x))
    return select(x >= 0, 1, e) / (1 + e)


def _log1p_exp(x):
    """log(1 + exp(x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.maximum(x, 0) + np.log1p(e)


@in_blocks
def _softplus(x, *, beta, threshold):
    scaled = x * beta
    return select(scaled > threshold, x, _log1p_exp(scaled) / beta)


def _softplus_in_jax(x, *, beta, threshold):
    value, scaled = (f"jax.nn.softplus({x})", x) if beta == 1 else (f"jax.nn.softplus({x} * {beta!r}) / {beta!r}", f"{x} * {beta!r}")
    return value if threshold == math.inf else f"jnp.where({scaled} > {_number(threshold)}, {x}, {value})"


@in_blocks
def _softplus_rule(xp, g, out, x, *, beta, threshold):
    """Beyond the threshold the function is the identity; the second derivative ends at the threshold itself."""
    scaled = x * beta
    if threshold == math.inf:
        return g * xp.sigmoid(scaled)
    return xp.where(scaled > threshold, g, g * xp.sigmoid(xp.where(scaled >= threshold, threshold, scaled)))


ERF = (1.128379464149475, 0.10276727378368378, -0.0001879251649370417, -0.0006229861173778772, 8.87758142198436e-05, -5.844329280080274e-06,
       1.5139798392738157e-07)  # fmt: skip
"""erf(x) = tanh(x p(x²)) within 1.5e-7 in float32, p by these coefficients: fitted to atanh(erf(x)) / x on [0, 3.95].
Beyond that it goes on growing, and tanh is 1 before 4.5."""


def _normal_cdf(x):
    """(1 + erf(x / sqrt 2)) / 2. SciPy's erf has no vector instructions: for float32 NumPy's tanh is five times as fast."""
    if x.dtype != np.float32:
        from scipy.special import ndtr  # first use

        return ndtr(x)
    t = np.multiply(x, ROOT_HALF, out=fresh(x))
    np.minimum(np.maximum(t, -4.5, out=t), 4.5, out=t)
    s = np.multiply(t, t, out=fresh(x))
    y = np.multiply(s, ERF[-1], out=fresh(x))
    for coefficient in ERF[-2:0:-1]:
        y += coefficient
        y *= s
    y += ERF[0]
    y *= t
    np.tanh(y, out=y)
    y += 1
    y *= 0.5
    return y


def _leaky_relu(x, *, negative_slope):
    return np.maximum(x, x * negative_slope) if 0 < negative_slope <= 1 else select(x > 0, x, x * negative_slope)


elementwise(
    "leaky_relu", "x / negative_slope", _leaky_relu,
    (lambda xp, g, out, x, *, negative_slope: xp.where(x > 0, g, g * negative_slope),), kinds="f", saves="x",
    sympy=lambda sp, x, negative_slope: sp.Piecewise((x, x > 0), (negative_slope * x, True)), special=(0.0,),
    jax=lambda x, *, negative_slope: f"jnp.where({x} > 0, {x}, {x} * {negative_slope!r})",
    tie=True,
)  # fmt: skip
elementwise(
    "prelu", "x y", lambda x, y: select(x > 0, x, x * y),
    (lambda xp, g, out, x, y: xp.where(x > 0, g, g * y), lambda xp, g, out, x, y: xp.where(x < 0, g * x, 0)), saves=("x y", "x"),
    sympy=lambda sp, x, y: sp.Piecewise((x, x > 0), (y * x, True)), display="PreluKernelBackward0",
    jax=lambda x, y: f"jnp.where({x} > 0, {x}, {x} * {y})",
    tie=True,
)  # fmt: skip


@in_blocks
def _elu(x, *, alpha, scale, rate):
    y = np.minimum(x, 0) * rate
    return select(x > 0, x, np.expm1(y, out=y if y.__class__ is np.ndarray else None) * alpha) * scale


@in_blocks
def _elu_rule(xp, g, out, x, *, alpha, scale, rate):
    """The left branch holds at 0, where its second derivative is 0; its exponential never sees a positive argument."""
    return xp.where(x <= 0, g * (scale * alpha * rate) * xp.exp(xp.where(x < 0, x, 0) * rate), g * scale)


def _elu_jax(x: str, *, alpha: float, scale: float, rate: float) -> str:
    return f"jnp.where({x} > 0, {x}, jnp.expm1(jnp.minimum({x}, 0) * {rate!r}) * {alpha!r}) * {scale!r}"


def _elu_sympy(sp: Any, x: Any, alpha: Any, scale: Any, rate: Any) -> Any:
    return scale * sp.Piecewise((x, x > 0), (alpha * (sp.exp(rate * x) - 1), True))


elementwise(
    "elu", "x / alpha scale rate", _elu, (_elu_rule,), saves="x", kinds="f", jax=_elu_jax, sympy=_elu_sympy, special=(0.0,),
)  # fmt: skip
elementwise(
    "celu", "x / alpha", lambda x, *, alpha: _elu(x, alpha=alpha, scale=1, rate=1 / alpha),
    (lambda xp, g, out, x, *, alpha: _elu_rule(xp, g, out, x, alpha=alpha, scale=1, rate=1 / alpha),), saves="x", kinds="f", special=(0.0,),
    jax=lambda x, *, alpha: _elu_jax(x, alpha=alpha, scale=1, rate=1 / alpha),
    sympy=lambda sp, x, alpha: _elu_sympy(sp, x, alpha, 1, 1 / alpha),
)  # fmt: skip


@in_blocks
def _gelu(x, *, approximate):
    if approximate == "tanh":
        y = x * x
        y = (y * GELU_CUBE + 1) * x * GELU_ROOT
        return (np.tanh(y) + 1) * x * 0.5
    return _normal_cdf(x) * x


@in_blocks
def _gelu_rule(xp, g, out, x, *, approximate):
    if approximate == "tanh":
        square = x * x
        t = xp.tanh(GELU_ROOT * x * (1 + GELU_CUBE * square))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_ROOT * (1 + 3 * GELU_CUBE * square))
    return g * (xp.normal_cdf(x) + x * xp.exp(x * x * -0.5) * NORMAL)


def _gelu_sympy(sp: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        cube = sp.Rational(44715, 1_000_000)
        return x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + cube * x**3))) / 2
    return x * (1 + sp.erf(x / sp.sqrt(2))) / 2


elementwise(
    "normal_cdf", "x", in_blocks(_normal_cdf), (lambda xp, g, out, x: xp.exp(x * x * -0.5) * NORMAL * g,), saves="x", kinds="f",
    sympy=lambda sp, x: (1 + sp.erf(x / sp.sqrt(2))) / 2, display="SpecialNdtrBackward0",
    jax=lambda x: f"0.5 * jax.lax.erfc(-{x} * 0.7071067811865476)",  # as gelu has it, so that XLA computes it once
)  # fmt: skip
elementwise(
    "gelu", "x / approximate", _gelu, (_gelu_rule,), saves="x", kinds="f", sympy=_gelu_sympy,
    jax=lambda x, *, approximate: f"jax.nn.gelu({x}, approximate={approximate == 'tanh'})",
)  # fmt: skip


@in_blocks
def _silu_rule(xp, g, out, x):
    s = xp.sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


@in_blocks
def _mish(x):
    return x * np.tanh(_log1p_exp(x))


@in_blocks
def _mish_rule(xp, g, out, x):
    t = xp.tanh(xp.softplus(x, beta=1, threshold=math.inf))
    return g * (t + x * xp.sigmoid(x) * (1 - t * t))


elementwise(
    "silu",
    "x",
    in_blocks(lambda x: x * _sigmoid(x)),
    (_silu_rule,),
    saves="x",
    kinds="f",
    sympy=lambda sp, x: x / (1 + sp.exp(-x)),
    jax="jax.nn.silu",
)
elementwise(
    "mish", "x", _mish, (_mish_rule,), saves="x", kinds="f", sympy=lambda sp, x: x * sp.tanh(sp.log(1 + sp.exp(x))), jax="jax.nn.mish"
)
elementwise(
    "softplus", "x / beta threshold", _softplus, (_softplus_rule,), saves="x", kinds="f",
    sympy=lambda sp, x, beta, threshold: sp.log(1 + sp.exp(beta * x)) / beta,
    jax=_softplus_in_jax,
)  # fmt: skip
elementwise(
    "log_sigmoid", "x", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), (lambda xp, g, out, x: g * xp.sigmoid(-x),), saves="x",
    kinds="f", sympy=lambda sp, x: -sp.log(1 + sp.exp(-x)), jax="jax.nn.log_sigmoid",
)  # fmt: skip


def _number(value: float) -> str:
    """A Python number as text that JAX source understands."""
    return "jnp.inf" if value == math.inf else "-jnp.inf" if value == -math.inf else repr(value)


elementwise(
    "hardtanh", "x / low high", lambda x, *, low, high: np.clip(x, low, high).astype(x.dtype, copy=False),
    (lambda xp, g, out, x, *, low, high: xp.where(xp.logical_or(x <= low, x >= high), 0, g),), kinds="if", saves="x",
    sympy=lambda sp, x, low, high: sp.Piecewise((low, x < low), (high, x > high), (x, True)),
    jax=lambda x, *, low, high: f"jnp.clip({x}, {low!r}, {high!r})", special=(-1.0, 1.0),
    tie=True,
)  # fmt: skip
elementwise(
    "hardsigmoid", "x", lambda x: np.clip(x + 3, 0, 6) / 6,
    (lambda xp, g, out, x: xp.where(xp.logical_and(x > -3, x < 3), g / 6, 0),), saves="x", kinds="f",
    sympy=lambda sp, x: sp.Piecewise((0, x < -3), (1, x > 3), (x / 6 + sp.Rational(1, 2), True)),
    jax=lambda x: f"jnp.clip({x} + 3, 0, 6) / 6", special=(-3.0, 3.0),
    tie=True,
)  # fmt: skip
elementwise(
    "hardswish", "x", lambda x: x * np.clip(x + 3, 0, 6) / 6,
    (lambda xp, g, out, x: xp.where(x <= -3, 0, xp.where(x < 3, g * (x / 3 + 0.5), g)),), saves="x", kinds="f",
    sympy=lambda sp, x: sp.Piecewise((0, x < -3), (x, x > 3), (x * (x + 3) / 6, True)), jax=lambda x: f"{x} * jnp.clip({x} + 3, 0, 6) / 6",
    special=(-3.0, 3.0),
)  # fmt: skip
elementwise(
    "softshrink", "x / lambd", lambda x, *, lambd: select(x > lambd, x - lambd, select(x < -lambd, x + lambd, x * 0)),
    (lambda xp, g, out, x, *, lambd: xp.where(xp.abs(x) <= lambd, 0, g),), kinds="f", saves="x",
    sympy=lambda sp, x, lambd: sp.Piecewise((0, sp.And(x <= lambd, x >= -lambd)), (x - lambd, x > 0), (x + lambd, True)),
    special=(0.5, -0.5),
    jax=lambda x, *, lambd: f"jnp.where({x} > {lambd!r}, {x} - {lambd!r}, jnp.where({x} < -{lambd!r}, {x} + {lambd!r}, 0 * {x}))",
    tie=True,
)  # fmt: skip
elementwise(
    "hardshrink", "x / lambd", lambda x, *, lambd: select(np.abs(x) <= lambd, 0, x),
    (lambda xp, g, out, x, *, lambd: xp.where(xp.abs(x) <= lambd, 0, g),), kinds="f", saves="x",
    sympy=lambda sp, x, lambd: sp.Piecewise((0, sp.And(x <= lambd, x >= -lambd)), (x, True)), special=(0.5, -0.5),
    jax=lambda x, *, lambd: f"jnp.where(jnp.abs({x}) <= {lambd!r}, 0, {x})",
    tie=True,
)  # fmt: skip


def _threshold(x, *, threshold, value):
    if kind(x.dtype) == "i":  # the numbers are cut off, as in PyTorch
        return np.where(x <= int(threshold), np.array(int(value)).astype(x.dtype), x)
    return select(x <= threshold, value, x).astype(x.dtype, copy=False)


elementwise(
    "threshold", "x / threshold value", _threshold,
    (lambda xp, g, out, x, *, threshold, value: xp.where(x <= threshold, 0, g),), kinds="if", saves="x",
    sympy=lambda sp, x, threshold, value: sp.Piecewise((value, x <= threshold), (x, True)), special=(0.0,),
    jax=lambda x, *, threshold, value: f"jnp.where({x} <= {threshold!r}, {value!r}, {x})",
    tie=True,
)  # fmt: skip


def glu_type(x: Any, *, axis: int) -> Meta:
    if x.shape[axis] % 2:
        raise RuntimeError(f"glu: Halving dimension must be even, but dimension {axis} is size {x.shape[axis]}")
    return Meta((*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :]), x.dtype)


def _halves(x: Any, axis: int) -> tuple[Any, Any]:
    """The indices of the two halves along an axis."""
    n = x.shape[axis] // 2
    whole = tuple((0, size, 1) for size in x.shape)
    return (*whole[:axis], (0, n, 1), *whole[axis + 1 :]), (*whole[:axis], (n, 2 * n, 1), *whole[axis + 1 :])


def _glu(x, *, axis):
    a, b = np.split(x, 2, axis)
    return a * _sigmoid(b)


def _glu_rule(xp, g, out, x, *, axis):
    first, second = _halves(x, axis)
    a, s = xp.getitem(x, index=first), xp.sigmoid(xp.getitem(x, index=second))
    gated = g * s
    return xp.cat(gated, gated * a * (1 - s), axis=axis)


def _glu_compose(xp, x, *, axis):
    first, second = _halves(x, axis)
    return xp.getitem(x, index=first) * xp.sigmoid(xp.getitem(x, index=second))


row(
    "glu", "x / axis", _glu, (_glu_rule,), saves="x", policy="each", kinds="f", type=glu_type, jax="jax.nn.glu", compose=_glu_compose,
)  # fmt: skip
