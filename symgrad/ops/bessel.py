"""Bessel functions of a fixed real order: J and Y, which oscillate, I and K, which grow and decay.

NumPy runs SciPy's kernels. JAX has few orders, and no Y and K, so its lowerings are sums of a fixed number of terms, of three kinds:

    power series               J near 0, I up to 20
    asymptotic series          I beyond
    the trapezoidal rule       for integrals over the real line whose integrand decays doubly exponentially, where it converges
                               exponentially: K(x) = ∫ exp(-x cosh t) cosh(νt) dt, and J + iY along the path of steepest descent
                               t = u + i gd(u), on which exp(i x cosh t) = exp(i x - x sinh u tanh u)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.kernels.windows import through_float32
from symgrad.ops.special import _at_least_single, scipy_kernel
from symgrad.ops.table import elementwise

_NODES = 96
MAX_ORDER = 8
"""Largest order for which the sums of the lowerings to JAX have full accuracy."""


def _kernel(name: str) -> Any:
    function = scipy_kernel(name)

    @through_float32
    def kernel(x, *, order):
        return np.asarray(function(float(order), x), x.dtype) if math.isfinite(order) else np.full_like(x, np.nan)

    return kernel


def _neighbours(row: str, below: int, above: int) -> Any:
    """The derivative, half the sum or difference of the functions of the neighbouring orders."""

    def rule(xp, g, out, x, *, order):
        bessel = getattr(xp, row)
        if order == 0:  # the neighbours are equal but for a sign
            return bessel(x, order=1) * g * above
        lower, upper = bessel(x, order=order - 1), bessel(x, order=order + 1)
        return (lower * below + upper * above) * g / 2

    return rule


def _checked(order: float) -> float:
    if math.isfinite(order) and abs(order) > MAX_ORDER:
        raise ValueError(f"the lowering to JAX has Bessel functions of orders up to {MAX_ORDER}, got {order}: use backend='numpy'")
    return float(order)


def _wide(text: str, x: str) -> str:
    """Bind x to the operand, at least in single precision."""
    return f"(lambda x: {text})({_at_least_single(x)}).astype({x}.dtype)"


def _series(order: float, sign: int, terms: int) -> str:
    """The power series in (x/2)², times (x/2)^order."""
    coefficients = [sign**k / math.gamma(order + k + 1) / math.factorial(k) for k in range(terms)]
    power = f"(x / 2) ** {int(order)}" if order.is_integer() else f"(x / 2) ** {order!r}"
    return f"{power} * jnp.polyval(jnp.asarray({coefficients[::-1]!r}, x.dtype), x * x / 4)"


def _oscillating(part: str, order: float) -> str:
    """J or Y for x > 0, as part of exp(i(x - νπ/2 - π/2))/π ∫ 2 exp(-x sinh u tanh u) cosh(νu + iν gd(u)) (1 + i sech u) du."""
    end = "jnp.log1p(s + jnp.sqrt(1 + s * s) - 1)"  # asinh s
    bound = "jnp.sqrt(c * (c + jnp.sqrt(c * c + 4)) / 2)"
    sums = f"jnp.sum(w * (a - b / cosh), -1), jnp.sum(w * (b + a / cosh), -1), x - {(order + 1) * math.pi / 2!r}"
    turned = f"(lambda p, q, z: {'p * jnp.cos(z) - q * jnp.sin(z)' if part == 'real' else 'p * jnp.sin(z) + q * jnp.cos(z)'})({sums})"
    weight = "jnp.where(k == 0, 0.5, 1) * jnp.exp(-x[..., None] * sinh * sinh / cosh) * (h[..., None] / jnp.pi)"
    parts = "(r + 1 / r) * jnp.cos(turn), (r - 1 / r) * jnp.sin(turn)"
    inner = f"(lambda cosh, sinh: (lambda r, turn: (lambda w, a, b: {turned})({weight}, {parts}))"
    inner += f"(e ** {order!r}, {order!r} * jnp.arctan(sinh)))((e + 1 / e) / 2, (e - 1 / e) / 2)"
    nodes = f"jnp.arange({_NODES + 1}, dtype=x.dtype)"
    stepped = f"(lambda h, k: (lambda e: {inner})(jnp.exp(h[..., None] * k)))({end} / {_NODES}, {nodes})"
    return f"(lambda c: (lambda s: {stepped})({bound}))({45 + 4 * abs(order)!r} / x)"


def _j_jax(x: str, *, order: float) -> str:
    order = _checked(order)
    if not math.isfinite(order):
        return f"({x} * jnp.nan)"
    near = 2 * math.sqrt(abs(order) + 1) + 1
    if order.is_integer() and order < 0:
        return f"({(-1) ** int(order)} * {_j_jax(x, order=-order)})"
    sign = f"jnp.where(x < 0, {(-1) ** int(order)}, 1)" if order.is_integer() else "jnp.where(x < 0, jnp.nan, 1)"
    far = f"(lambda x: {_oscillating('real', order)})(jnp.where(x < {near!r}, {near!r}, x))"
    either = f"lambda x: jnp.where(x < {near!r}, (lambda x: {_series(order, -1, 30)})(jnp.where(x < {near!r}, x, 0)), {far})"
    return _wide(f"{sign} * ({either})(jnp.abs(x))", x)


def _y_jax(x: str, *, order: float) -> str:
    order = _checked(order)
    if not math.isfinite(order):
        return f"({x} * jnp.nan)"
    if order < 0:  # a sum of both functions of the opposite order
        cos, sin = (round(f(-order * math.pi), 15) for f in (math.cos, math.sin))
        terms = [f"{c!r} * {f(x, order=-order)}" for c, f in ((cos, _y_jax), (sin, _j_jax)) if c]
        return f"({' + '.join(terms)})"
    inside = f"(lambda x: {_oscillating('imag', order)})(jnp.where(x > 0, x, 1))"
    return _wide(f"jnp.where(x > 0, {inside}, jnp.where(x == 0, -jnp.inf, jnp.nan))", x)


def _i_jax(x: str, *, order: float) -> str:
    order = _checked(order)
    if not math.isfinite(order):
        return f"({x} * jnp.nan)"
    if order.is_integer() and order < 0:
        return _i_jax(x, order=-order)
    coefficients = [1.0]
    for k in range(1, 24):
        coefficients.append(-coefficients[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    sign = f"jnp.where(x < 0, {(-1) ** int(order)}, 1)" if order.is_integer() else "jnp.where(x < 0, jnp.nan, 1)"
    series = f"(lambda x: {_series(order, 1, 48)})(jnp.where(x < 20, x, 0))"
    tail = f"jnp.polyval(jnp.asarray({coefficients[::-1]!r}, x.dtype), 1 / x) / jnp.sqrt({2 * math.pi!r} * x)"
    tail = f"jnp.exp(x / 2) * (jnp.exp(x / 2) * {tail})"  # exp(x) alone may overflow
    either = f"lambda x: jnp.where(x < 20, {series}, (lambda x: {tail})(jnp.where(x < 20, 20, x)))"
    return _wide(f"{sign} * ({either})(jnp.abs(x))", x)


def _k_jax(x: str, *, order: float) -> str:
    order = _checked(order)
    if not math.isfinite(order):
        return f"({x} * jnp.nan)"
    end, nodes = f"jnp.arccosh(1 + {45 + 4 * abs(order)!r} / x)", f"jnp.arange({_NODES + 1}, dtype=x.dtype)"
    terms = f"jnp.where(k == 0, 0.5, 1) * jnp.exp(-x[..., None] * 2 * jnp.sinh(t / 2) ** 2) * jnp.cosh({order!r} * t)"
    inner = f"(lambda h, k: (lambda t: h * jnp.exp(-x) * jnp.sum({terms}, -1))(h[..., None] * k))({end} / {_NODES}, {nodes})"
    inside = f"(lambda x: {inner})(jnp.where(x > 0, x, 1))"
    return _wide(f"jnp.where(x > 0, {inside}, jnp.where(x == 0, jnp.inf, jnp.nan))", x)


elementwise(
    "bessel_j", "x / order", _kernel("jv"), (_neighbours("bessel_j", 1, -1),), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x, order: sp.besselj(order, x), domain=(0.5, 6.0), jax=_j_jax,
)  # fmt: skip
elementwise(
    "bessel_y", "x / order", _kernel("yv"), (_neighbours("bessel_y", 1, -1),), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x, order: sp.bessely(order, x), domain=(0.5, 6.0), jax=_y_jax,
)  # fmt: skip
elementwise(
    "bessel_i", "x / order", _kernel("iv"), (_neighbours("bessel_i", 1, 1),), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x, order: sp.besseli(order, x), domain=(0.5, 4.0), jax=_i_jax,
)  # fmt: skip
elementwise(
    "bessel_k", "x / order", _kernel("kv"), (_neighbours("bessel_k", -1, -1),), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x, order: sp.besselk(order, x), domain=(0.5, 4.0), jax=_k_jax,
)  # fmt: skip
