"""Elementwise rows: scalar functions, applied to every element after broadcasting."""

from __future__ import annotations

import numpy as np

from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise


def _power(x, *, exponent):
    return x**exponent


def _power_rule(xp, g, out, x, *, exponent):
    if exponent == 0:
        return g * 0
    if exponent == 1:
        return g
    return g * (exponent * xp.power(x, exponent=exponent - 1)) if exponent != 2 else g * (2 * x)


elementwise("add", "x y", np.add, (lambda xp, g, out, x, y: g, lambda xp, g, out, x, y: g), sympy=lambda sp, x, y: x + y)
elementwise("sub", "x y", np.subtract, (lambda xp, g, out, x, y: g, lambda xp, g, out, x, y: -g), sympy=lambda sp, x, y: x - y)
elementwise(
    "mul", "x y", np.multiply, (lambda xp, g, out, x, y: g * y, lambda xp, g, out, x, y: g * x), saves=("y", "x"),
    sympy=lambda sp, x, y: x * y,
)
elementwise(
    "div", "x y", np.divide, (lambda xp, g, out, x, y: g / y, lambda xp, g, out, x, y: -g * out / y), saves=("y", "out y"),
    policy="float", sympy=lambda sp, x, y: x / y, special=((0.0, 1.0),),
)
elementwise("neg", "x", np.negative, (lambda xp, g, out, x: -g,), sympy=lambda sp, x: -x)
elementwise("exp", "x", np.exp, (lambda xp, g, out, x: g * out,), saves="out", policy="float", sympy=lambda sp, x: sp.exp(x))
elementwise("log", "x", np.log, (lambda xp, g, out, x: g / x,), saves="x", policy="float", domain=(0.1, 3.0), sympy=lambda sp, x: sp.log(x))
elementwise("sin", "x", np.sin, (lambda xp, g, out, x: g * xp.cos(x),), saves="x", policy="float", sympy=lambda sp, x: sp.sin(x))
elementwise("cos", "x", np.cos, (lambda xp, g, out, x: -g * xp.sin(x),), saves="x", policy="float", sympy=lambda sp, x: sp.cos(x))
elementwise("tanh", "x", np.tanh, (lambda xp, g, out, x: g * (1 - out * out),), saves="out", policy="float", sympy=lambda sp, x: sp.tanh(x))
elementwise("power", "x / exponent", _power, (_power_rule,), saves="x", sympy=lambda sp, x, exponent: x**exponent, display="PowBackward0", domain=(0.2, 2.0))


def _pow_y(xp, g, out, x, y):
    """At x = 0 the derivative is 0 where out is, as in PyTorch, not 0 * log 0."""
    return g * out * xp.log(xp.where(x == 0, 1, x))


def _cast(x, *, dtype):
    return x.astype(dtype)


elementwise(
    "pow", "x y", np.power, (lambda xp, g, out, x, y: g * (y * x ** (y - 1)), _pow_y), saves=("x y", "out x"),
    sympy=lambda sp, x, y: x**y, display="PowBackward1", domain=(0.2, 2.0),
)
elementwise(
    "relu", "x", lambda x: np.maximum(x, 0), (lambda xp, g, out, x: g * (out > 0),), saves="out",
    sympy=lambda sp, x: sp.Max(x, 0), jax="jax.nn.relu", special=(0.0,),
)
elementwise(
    "where", "condition x y", np.where,
    (None, lambda xp, g, out, c, x, y: xp.where(c, g, 0), lambda xp, g, out, c, x, y: xp.where(c, 0, g)),
    saves=("", "condition", "condition"), policy="where", sympy=lambda sp, c, x, y: sp.Piecewise((x, c), (y, True)),
)
elementwise(
    "cast", "x / dtype", _cast, (lambda xp, g, out, x, *, dtype: g,), policy="each", sympy=lambda sp, x, dtype: x,
    type=lambda x, *, dtype: Meta(x.shape, np.dtype(dtype)), display="ToCopyBackward0",
)
for _name, _ufunc, _relation in (
    ("lt", np.less, "Lt"), ("le", np.less_equal, "Le"), ("gt", np.greater, "Gt"), ("ge", np.greater_equal, "Ge"), ("eq", np.equal, "Eq"),
    ("ne", np.not_equal, "Ne"),
):
    elementwise(_name, "x y", _ufunc, policy="compare", sympy=lambda sp, x, y, _relation=_relation: getattr(sp, _relation)(x, y))
