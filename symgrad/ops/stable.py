"""Rows without cancellation or overflow, which stable rules put in the place of differences and quotients: log1mexp, log_cosh, exprel, ...

Each has a kernel that is accurate for every argument, and a rule that is a product of such rows, so that derivatives are accurate, too.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from symgrad.ops.kernels.windows import through_float32
from symgrad.ops.table import elementwise

LN2 = math.log(2)


def _wide(x: str) -> str:
    return f"{x}.astype(jnp.promote_types({x}.dtype, jnp.float32))"


# --- logarithms


def _log1mexp(x):
    near = x > -LN2
    return np.where(near, np.log(-np.expm1(x)), np.log1p(-np.exp(np.where(near, -1, x))))


elementwise(
    "log1mexp", "x", _log1mexp, (lambda xp, g, out, x: xp.exp(x) / xp.expm1(x) * g,), saves="x", policy="float", kinds="f",
    sympy=lambda sp, x: sp.log(1 - sp.exp(x)), domain=(-3.0, -0.1),
    jax=lambda x: f"jnp.where({x} > {-LN2!r}, jnp.log(-jnp.expm1({x})), jnp.log1p(-jnp.exp({x})))",
)  # fmt: skip


def _log_cosh(x):
    size = np.abs(x)
    near = np.log1p(2 * np.square(np.sinh(np.minimum(size, 1) / 2)))
    return np.where(size < 1, near, size + np.log1p(np.exp(-2 * size)) - LN2)


def _log_cosh_jax(x: str) -> str:
    far = f"a + jnp.log1p(jnp.exp(-2 * a)) - {LN2!r}"
    return f"(lambda a: jnp.where(a < 1, jnp.log1p(2 * jnp.square(jnp.sinh(jnp.minimum(a, 1) / 2))), {far}))(jnp.abs({x}))"


elementwise(
    "log_cosh", "x", _log_cosh, (lambda xp, g, out, x: xp.tanh(x) * g,), saves="x", policy="float", kinds="f",
    sympy=lambda sp, x: sp.log(sp.cosh(x)), jax=_log_cosh_jax,
)  # fmt: skip


def _log1p_square(x):
    size = np.abs(x)
    near = size <= 1
    far = np.where(near, 1, size)
    return np.where(near, np.log1p(np.square(np.where(near, x, 0))), 2 * np.log(far) + np.log1p(np.square(1 / far)))


def _inverted(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return whether |x| <= 1, and the smaller one of x and 1 / x, whose square does not overflow."""
    near = xp.abs(x) <= 1
    return near, xp.where(near, x, 1 / xp.where(near, 1, x))


def _log1p_square_slope(x):
    """2 x / (1 + x²) is the same at x and 1 / x."""
    _, z = _inverted(np, x)
    return 2 * z / (z * z + 1)


def _log1p_square_slope_rule(xp, g, out, x):
    """2 (1 - x²) / (1 + x²)², which is -z² times as large at z = 1 / x."""
    near, z = _inverted(xp, x)
    square = z * z
    return (1 - square) * xp.where(near, 2, -2 * square) / xp.square(square + 1) * g


def _log1p_square_jax(x: str) -> str:
    far = "(lambda far: 2 * jnp.log(far) + jnp.log1p(jnp.square(1 / far)))(jnp.maximum(a, 1))"
    return f"(lambda a: jnp.where(a <= 1, jnp.log1p(jnp.square(jnp.minimum(a, 1))), {far}))(jnp.abs({x}))"


elementwise(
    "log1p_square_slope", "x", _log1p_square_slope, (_log1p_square_slope_rule,), saves="x", policy="float", kinds="f", special=(0.0, 1.0),
    sympy=lambda sp, x: 2 * x / (1 + x**2), jax=lambda x: f"(lambda z: 2 * z / (z * z + 1))(jnp.where(jnp.abs({x}) <= 1, {x}, 1 / {x}))",
)  # fmt: skip
elementwise(
    "log1p_square", "x", _log1p_square, (lambda xp, g, out, x: xp.log1p_square_slope(x) * g,), saves="x", policy="float", kinds="f",
    jax=_log1p_square_jax, sympy=lambda sp, x: sp.log(1 + x**2), special=(0.0, 1.0),
)  # fmt: skip
elementwise(
    "xlogx", "x", lambda x: np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, x))), (lambda xp, g, out, x: (xp.log(x) + 1) * g,),
    saves="x", policy="float", kinds="f", sympy=lambda sp, x: x * sp.log(x), domain=(0.1, 2.0),
    jax=lambda x: f"jnp.where({x} == 0, 0, {x} * jnp.log(jnp.where({x} == 0, 1, {x})))",
)  # fmt: skip


# --- powers and the plane


def _power1pm1(x, *, exponent):
    rate = np.log1p(x) * exponent
    return np.where(np.abs(rate) < 0.5, np.expm1(rate), np.power(1 + x, np.asarray(exponent, x.dtype)) - 1)


def _power1pm1_jax(x: str, *, exponent: Any) -> str:
    far = f"({x} + 1) ** {exponent!r} - 1"
    return f"(lambda rate: jnp.where(jnp.abs(rate) < 0.5, jnp.expm1(rate), {far}))(jnp.log1p({x}) * {exponent!r})"


elementwise(
    "power1pm1", "x / exponent", _power1pm1,
    (lambda xp, g, out, x, *, exponent: xp.power(x + 1, exponent=exponent - 1) * exponent * g,), saves="x", policy="float", kinds="f",
    sympy=lambda sp, x, exponent: (1 + x) ** exponent - 1, domain=(-0.8, 2.0), jax=_power1pm1_jax,
)  # fmt: skip


elementwise(
    "cosine", "x y", lambda x, y: x / np.hypot(x, y),
    (
        lambda xp, g, out, x, y: xp.square(xp.cosine(y, x)) * (g / xp.hypot(x, y)),
        lambda xp, g, out, x, y: -(out * xp.cosine(y, x)) * (g / xp.hypot(x, y)),
    ),
    saves=("x y", "x y out"), kinds="f", sympy=lambda sp, x, y: x / sp.sqrt(x**2 + y**2),
    jax=lambda x, y: f"{x} / jnp.hypot({x}, {y})",
)  # fmt: skip


# --- 1 / cosh(x)²


def _sech_square(x):
    e = np.exp(-np.abs(x))
    return np.square(2 * e / (1 + e * e))


elementwise(
    "sech_square", "x", _sech_square, (lambda xp, g, out, x: xp.tanh(x) * out * -2 * g,), saves="x out", policy="float", kinds="f",
    sympy=lambda sp, x: 1 / sp.cosh(x) ** 2,
    # not in terms of the exponential itself: XLA makes exp(2a) of exp(a) * exp(a), and computes both
    jax=lambda x: f"(lambda e: jnp.square(e / (1 + e * e * 0.25)))(2 * jnp.exp(-jnp.abs({x})))",
)  # fmt: skip


# --- (exp(x) - 1) / x and x / (exp(x) - 1), with all their derivatives: smooth at 0, where the closed forms are 0/0


def _exprel_coefficients(order: int) -> list[float]:
    """∫ tⁿ exp(x t) dt over [0, 1] = Σ xᵏ / (k! (k + n + 1)): the coefficients, the highest power first."""
    return [1 / (math.factorial(k) * (k + order + 1)) for k in range(24 + 8 * order, -1, -1)]


@through_float32
def _exprel(x, *, order):
    """The derivatives obey x Eₙ + n Eₙ₋₁ = exp(x); near 0 that cancels, and the power series serves. exp(x/2)² / x overflows only if the
    result does."""
    near = np.abs(x) < order + 1
    far = np.where(near, 2, x)
    half = np.exp(far / 2)
    top = half / far * half
    closed = top - 1 / far
    for n in range(1, order + 1):
        closed = top - n * closed / far
    closed = np.where(np.isposinf(top), top, closed)
    return np.where(near, np.polyval(_exprel_coefficients(order), np.where(near, x, 0)), closed).astype(x.dtype)


def _exprel_jax(x: str, *, order: int) -> str:
    closed = "top - 1 / far"
    for n in range(1, order + 1):
        closed = f"top - {n} * ({closed}) / far"
    closed = f"(lambda far, top: jnp.where(top == jnp.inf, top, {closed}))(far, jnp.exp(far / 2) / far * jnp.exp(far / 2))"
    series = f"jnp.polyval(jnp.asarray({_exprel_coefficients(order)!r}, near.dtype), near)"
    chosen = f"lambda small, near, far: jnp.where(small, {series}, {closed})"
    split = f"lambda x, small: ({chosen})(small, jnp.where(small, x, 0), jnp.where(small, 2, x))"
    return f"(lambda x: ({split})(x, jnp.abs(x) < {order + 1}))({_wide(x)}).astype({x}.dtype)"


@cache
def _bernoulli(n: int) -> Fraction:
    if n == 0:
        return Fraction(1)
    if n > 1 and n % 2:
        return Fraction(0)
    return -sum((math.comb(n + 1, k) * _bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


def _bose_coefficients(order: int) -> list[float]:
    """Return the coefficients of x² in the even or odd part of the n-th derivative of Σ Bₖ xᵏ / k!, without B₁: the highest first."""
    powers = range(56 - order % 2, -1, -2) if order % 2 == 0 else range(55, -1, -2)
    return [float(_bernoulli(k + order) / math.factorial(k)) for k in powers if (k + order) != 1]


def _bose_steps(order: int) -> list[list[int]]:
    """The binomial coefficients of x B⁽ⁿ⁺¹⁾ = (1 - x - n) B⁽ⁿ⁾ - n B⁽ⁿ⁻¹⁾ - Σ (n over k) B⁽ᵏ⁾ B⁽ⁿ⁻ᵏ⁾."""
    return [[math.comb(n, k) for k in range(n + 1)] for n in range(order)]


@through_float32
def _bose(x, *, order):
    """Near 0 the power series; elsewhere the recurrence at |x|, and B(x) = B(-x) - x."""
    near = np.abs(x) < 2
    small = np.where(near, x, 0)
    series = np.polyval(_bose_coefficients(order), small * small)
    series = series * small if order % 2 else series
    series = series - (small / 2 if order == 0 else 0.5 if order == 1 else 0)
    size = np.where(near, 2, np.minimum(np.abs(x), 4000))
    half = np.exp(size / -2)
    found = [size * half * half / -np.expm1(-size)]
    for n, binomials in enumerate(_bose_steps(order)):
        products = sum(c * found[k] * found[n - k] for k, c in enumerate(binomials))
        found.append(((1 - n - size) * found[n] - (n * found[n - 1] if n else 0) - products) / size)
    closed = np.where(x < 0, (-1) ** order * found[order] + (np.abs(x) if order == 0 else -1 if order == 1 else 0), found[order])
    return np.where(near, series, closed).astype(x.dtype)


def _bose_jax(x: str, *, order: int) -> str:
    series = f"jnp.polyval(jnp.asarray({_bose_coefficients(order)!r}, near.dtype), near * near){' * near' if order % 2 else ''}"
    series += {0: " - near / 2", 1: " - 0.5"}.get(order, "")
    names, closed = ["b0"], "size * h * h / -jnp.expm1(-size)"
    values = [f"(lambda h: {closed})(jnp.exp(size / -2))"]
    for n, binomials in enumerate(_bose_steps(order)):
        products = "".join(f" - {c} * b{k} * b{n - k}" for k, c in enumerate(binomials))
        before = f" - {n} * b{n - 1}" if n else ""
        values.append(f"(({1 - n} - size) * b{n}{before}{products}) / size")
        names.append(f"b{n + 1}")
    beyond = {0: " + jnp.abs(x)", 1: " - 1"}.get(order, "")
    text = f"jnp.where(x < 0, {(-1) ** order} * b{order}{beyond}, b{order})"
    for name, value in zip(names[::-1], values[::-1], strict=True):
        text = f"(lambda {name}: {text})({value})"
    chosen = f"lambda x, small, near, size: jnp.where(small, {series}, {text})"
    split = f"lambda x, small: ({chosen})(x, small, jnp.where(small, x, 0), jnp.where(small, 2, jnp.minimum(jnp.abs(x), 4000)))"
    return f"(lambda x: ({split})(x, jnp.abs(x) < 2))({_wide(x)}).astype({x}.dtype)"


def _derivatives(meaning: Any) -> Any:
    def derivative(sp: Any, x: Any, order: int) -> Any:
        u = sp.Dummy(real=True)
        return sp.diff(meaning(sp, u), u, order).subs(u, x)

    return derivative


for _name, _kernel, _jax, _meaning in (
    ("exprel", _exprel, _exprel_jax, lambda sp, x: (sp.exp(x) - 1) / x),
    ("bose", _bose, _bose_jax, lambda sp, x: x / (sp.exp(x) - 1)),
):
    elementwise(
        _name, "x / order", _kernel, (lambda xp, g, out, x, *, order, _name=_name: getattr(xp, _name)(x, order=order + 1) * g,),
        saves="x", policy="float", kinds="f", sympy=_derivatives(_meaning), jax=_jax, special=(0.0,),
    )  # fmt: skip
