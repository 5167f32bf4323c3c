"""Activation rows: elementwise, one tape node each, with PyTorch's conventions at the kinks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.table import elementwise

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1 / math.sqrt(2 * math.pi)
GELU_ROOT = math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715


def _sigmoid(x):
    """Stable on both sides: exp never sees a positive argument."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _softplus(x, *, beta, threshold):
    scaled = x * beta
    smooth = (np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))) / beta
    return np.where(scaled > threshold, x, smooth)


def _erf(x):
    from scipy.special import erf  # first use

    return erf(x)


def _leaky_relu(x, *, negative_slope):
    return np.where(x > 0, x, x * negative_slope)


elementwise(
    "leaky_relu", "x / negative_slope", _leaky_relu,
    (lambda xp, g, out, x, *, negative_slope: xp.where(x > 0, g, g * negative_slope),), kinds="f", saves="x",
    sympy=lambda sp, x, negative_slope: sp.Piecewise((x, x > 0), (negative_slope * x, True)), special=(0.0,),
    jax=lambda x, *, negative_slope: f"jnp.where({x} > 0, {x}, {x} * {negative_slope!r})",
)  # fmt: skip
elementwise(
    "prelu", "x y", lambda x, y: np.where(x > 0, x, x * y),
    (lambda xp, g, out, x, y: xp.where(x > 0, g, g * y), lambda xp, g, out, x, y: xp.where(x > 0, 0, g * x)), saves=("x y", "x"),
    sympy=lambda sp, x, y: sp.Piecewise((x, x > 0), (y * x, True)), display="PreluKernelBackward0",
    jax=lambda x, y: f"jnp.where({x} > 0, {x}, {x} * {y})",
)  # fmt: skip


def _elu(x, *, alpha, scale, rate):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0) * rate) * alpha) * scale


def _elu_rule(xp, g, out, x, *, alpha, scale, rate):
    """The left branch holds at 0; its exponential never sees a positive argument."""
    return xp.where(x > 0, g * scale, g * (scale * alpha * rate) * xp.exp(xp.where(x > 0, 0, x) * rate))


def _elu_jax(x: str, *, alpha: float, scale: float, rate: float) -> str:
    return f"jnp.where({x} > 0, {x}, jnp.expm1(jnp.minimum({x}, 0) * {rate!r}) * {alpha!r}) * {scale!r}"


elementwise(
    "elu", "x / alpha scale rate", _elu, (_elu_rule,), saves="x", policy="float", jax=_elu_jax,
    sympy=lambda sp, x, alpha, scale, rate: scale * sp.Piecewise((x, x > 0), (alpha * (sp.exp(rate * x) - 1), True)), special=(0.0,),
)  # fmt: skip


def _gelu(x, *, approximate):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(GELU_ROOT * (x + GELU_CUBE * x * x * x)))
    return 0.5 * x * (1 + _erf(x * ROOT_HALF))


def _gelu_rule(xp, g, out, x, *, approximate):
    if approximate == "tanh":
        square = x * x
        t = xp.tanh(GELU_ROOT * x * (1 + GELU_CUBE * square))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_ROOT * (1 + 3 * GELU_CUBE * square))
    return g * (0.5 * (1 + xp.erf(x * ROOT_HALF)) + x * xp.exp(x * x * -0.5) * NORMAL)


def _gelu_sympy(sp: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        cube = sp.Rational(44715, 1_000_000)
        return x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + cube * x**3))) / 2
    return x * (1 + sp.erf(x / sp.sqrt(2))) / 2


elementwise(
    "gelu", "x / approximate", _gelu, (_gelu_rule,), saves="x", policy="float", sympy=_gelu_sympy,
    jax=lambda x, *, approximate: f"jax.nn.gelu({x}, approximate={approximate == 'tanh'})",
)  # fmt: skip


def _silu_rule(xp, g, out, x):
    s = xp.sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


def _mish(x):
    return x * np.tanh(_softplus(x, beta=1, threshold=math.inf))


def _mish_rule(xp, g, out, x):
    t = xp.tanh(xp.softplus(x, beta=1, threshold=math.inf))
    return g * (t + x * xp.sigmoid(x) * (1 - t * t))


elementwise("silu", "x", lambda x: x * _sigmoid(x), (_silu_rule,), saves="x", policy="float", sympy=lambda sp, x: x / (1 + sp.exp(-x)), jax="jax.nn.silu")
elementwise("mish", "x", _mish, (_mish_rule,), saves="x", policy="float", sympy=lambda sp, x: x * sp.tanh(sp.log(1 + sp.exp(x))), jax="jax.nn.mish")
elementwise(
    "softplus", "x / beta threshold", _softplus,
    (lambda xp, g, out, x, *, beta, threshold: xp.where(x * beta > threshold, g, g * xp.sigmoid(x * beta)),), saves="x", policy="float",
    sympy=lambda sp, x, beta, threshold: sp.log(1 + sp.exp(beta * x)) / beta,
    jax=lambda x, *, beta, threshold: f"jnp.where({x} * {beta!r} > {_number(threshold)}, {x}, jax.nn.softplus({x} * {beta!r}) / {beta!r})",
)  # fmt: skip
elementwise(
    "log_sigmoid", "x", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), (lambda xp, g, out, x: g * xp.sigmoid(-x),), saves="x",
    policy="float", sympy=lambda sp, x: -sp.log(1 + sp.exp(-x)), jax="jax.nn.log_sigmoid",
)  # fmt: skip


def _number(value: float) -> str:
    """A Python number as text that JAX source understands."""
    return "jnp.inf" if value == math.inf else "-jnp.inf" if value == -math.inf else repr(value)


elementwise(
    "hardtanh", "x / low high", lambda x, *, low, high: np.clip(x, low, high).astype(x.dtype, copy=False),
    (lambda xp, g, out, x, *, low, high: xp.where(xp.logical_and(x > low, x < high), g, 0),), kinds="if", saves="x",
    sympy=lambda sp, x, low, high: sp.Piecewise((low, x < low), (high, x > high), (x, True)),
    jax=lambda x, *, low, high: f"jnp.clip({x}, {low!r}, {high!r})", special=(-1.0, 1.0),
)  # fmt: skip
elementwise(
    "hardsigmoid", "x", lambda x: np.clip(x + 3, 0, 6) / 6, (lambda xp, g, out, x: xp.where(xp.logical_and(x > -3, x < 3), g / 6, 0),), saves="x",
    policy="float", sympy=lambda sp, x: sp.Piecewise((0, x < -3), (1, x > 3), (x / 6 + sp.Rational(1, 2), True)),
    jax=lambda x: f"jnp.clip({x} + 3, 0, 6) / 6", special=(-3.0, 3.0),
)  # fmt: skip
elementwise(
    "hardswish", "x", lambda x: x * np.clip(x + 3, 0, 6) / 6,
    (lambda xp, g, out, x: xp.where(x <= -3, 0, xp.where(x < 3, g * (x / 3 + 0.5), g)),), saves="x", policy="float",
    sympy=lambda sp, x: sp.Piecewise((0, x < -3), (x, x > 3), (x * (x + 3) / 6, True)), jax=lambda x: f"{x} * jnp.clip({x} + 3, 0, 6) / 6",
    special=(-3.0, 3.0),
)  # fmt: skip
elementwise(
    "softshrink", "x / lambd", lambda x, *, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0)),
    (lambda xp, g, out, x, *, lambd: xp.where(xp.logical_or(x > lambd, x < -lambd), g, 0),), kinds="f", saves="x",
    sympy=lambda sp, x, lambd: sp.Piecewise((x - lambd, x > lambd), (x + lambd, x < -lambd), (0, True)), special=(0.5, -0.5),
    jax=lambda x, *, lambd: f"jnp.where({x} > {lambd!r}, {x} - {lambd!r}, jnp.where({x} < -{lambd!r}, {x} + {lambd!r}, 0 * {x}))",
)  # fmt: skip
elementwise(
    "hardshrink", "x / lambd", lambda x, *, lambd: np.where(np.abs(x) <= lambd, 0, x),
    (lambda xp, g, out, x, *, lambd: xp.where(xp.logical_or(x > lambd, x < -lambd), g, 0),), kinds="f", saves="x",
    sympy=lambda sp, x, lambd: sp.Piecewise((x, sp.Or(x > lambd, x < -lambd)), (0, True)), special=(0.5, -0.5),
    jax=lambda x, *, lambd: f"jnp.where(jnp.abs({x}) <= {lambd!r}, 0, {x})",
)  # fmt: skip
elementwise(
    "threshold", "x / threshold value", lambda x, *, threshold, value: np.where(x <= threshold, value, x).astype(x.dtype, copy=False),
    (lambda xp, g, out, x, *, threshold, value: xp.where(x > threshold, g, 0),), kinds="if", saves="x",
    sympy=lambda sp, x, threshold, value: sp.Piecewise((x, x > threshold), (value, True)), special=(0.0,),
    jax=lambda x, *, threshold, value: f"jnp.where({x} <= {threshold!r}, {value!r}, {x})",
)  # fmt: skip
