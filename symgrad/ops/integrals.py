"""Elementwise rows that are defined by integrals and inverses: gamma, Si, Ci, Ei, erfi, the Fresnel integrals, Lambert's W, zeta."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from symgrad.ops.exact import PI
from symgrad.ops.kernels.windows import through_float32
from symgrad.ops.special import ERF_SLOPE, _at_least_single, scipy_kernel
from symgrad.ops.table import elementwise


def _wide(text: str, x: str) -> str:
    """Bind x to the operand, at least in single precision."""
    return f"(lambda x: {text})({_at_least_single(x)}).astype({x}.dtype)"


def _scipy(name: str, index: int | None = None) -> Any:
    """A function of SciPy, or one of its two results, in the dtype of its operand."""
    function = scipy_kernel(name)

    @through_float32
    def kernel(x):
        return np.asarray(function(x) if index is None else function(x)[index], x.dtype)

    return kernel


elementwise(
    "gamma", "x", scipy_kernel("gamma"), (lambda xp, g, out, x: xp.digamma(x) * out * g,), saves="x out", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.gamma(x), domain=(0.3, 4.0), jax="jax.scipy.special.gamma",
)  # fmt: skip
elementwise(
    "erfi", "x", _scipy("erfi"), (lambda xp, g, out, x: xp.exp(x * x) * ERF_SLOPE * g,),
    saves="x", policy="float", kinds="bif", sympy=lambda sp, x: sp.erfi(x),
    jax=lambda x: _wide(f"jnp.exp(x * x) * jax.scipy.special.dawsn(x) * {2 / math.sqrt(math.pi)!r}", x),
)  # fmt: skip
elementwise(
    "sine_integral", "x", _scipy("sici", 0), (lambda xp, g, out, x: xp.sinc(x / PI) * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.Si(x), domain=(-6.0, 6.0), jax=lambda x: _wide("jax.scipy.special.sici(x)[0]", x),
)  # fmt: skip
elementwise(
    "cosine_integral", "x", _scipy("sici", 1), (lambda xp, g, out, x: xp.cos(x) / x * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.Ci(x), domain=(0.3, 6.0), jax=lambda x: _wide("jax.scipy.special.sici(x)[1]", x),
)  # fmt: skip
elementwise(
    "exp_integral", "x", _scipy("expi"), (lambda xp, g, out, x: xp.exp(x) / x * g,), saves="x",
    policy="float", kinds="bif", sympy=lambda sp, x: sp.Ei(x), domain=(0.5, 4.0), jax=lambda x: _wide("jax.scipy.special.expi(x)", x),
)  # fmt: skip
elementwise(
    "fresnel_s", "x", _scipy("fresnel", 0), (lambda xp, g, out, x: xp.sin(x * x * PI / 2) * g,), saves="x", policy="float",
    kinds="bif", sympy=lambda sp, x: sp.fresnels(x), jax=lambda x: _wide("jax.scipy.special.fresnel(x)[0]", x),
)  # fmt: skip
elementwise(
    "fresnel_c", "x", _scipy("fresnel", 1), (lambda xp, g, out, x: xp.cos(x * x * PI / 2) * g,), saves="x", policy="float",
    kinds="bif", sympy=lambda sp, x: sp.fresnelc(x), jax=lambda x: _wide("jax.scipy.special.fresnel(x)[1]", x),
)  # fmt: skip


# --- Lambert's W: W exp(W) = x

_lambertw_of_scipy = scipy_kernel("lambertw")


@through_float32
def _lambertw(x, *, branch):
    """The real values of a branch, 0 or -1; NaN where it has none."""
    out = np.asarray(_lambertw_of_scipy(x, branch).real, x.dtype)
    real = x >= np.asarray(-math.exp(-1), x.dtype)
    return np.where(real if branch == 0 else real & (x <= 0), out, np.asarray(np.nan, x.dtype))


def _lambertw_jax(x: str, *, branch: int) -> str:
    """Halley's iteration, from the series at the branch point, or from logarithms."""
    sign = 1 if branch == 0 else -1
    near = f"(lambda p: -1 + p * (1 - p * (1 / 3 - p * 11 / 72)))({sign} * jnp.sqrt(jnp.maximum(2 * ({math.e!r} * x + 1), 0)))"
    if branch == 0:
        logs = "(lambda l: l - jnp.log(l))(jnp.log(jnp.maximum(x, 3)))"
        start = f"jnp.where(x > 3, {logs}, jnp.where(x > 0, jnp.log1p(jnp.maximum(x, 0)) * 0.75, {near}))"
        inside, edges = f"x >= {-math.exp(-1)!r}", "jnp.where(x == jnp.inf, jnp.inf, jnp.nan)"
    else:
        logs = "(lambda l: l - jnp.log(-l))(jnp.log(jnp.clip(-x, 1e-300, 0.25)))"
        start = f"jnp.where(x > -0.25, {logs}, {near})"
        inside, edges = f"(x >= {-math.exp(-1)!r}) & (x < 0)", "jnp.where(x == 0, -jnp.inf, jnp.nan)"
    residual = "(lambda f: w - f / jnp.where(w == -1, 1, w + 1 - (w + 2) * f / (2 * jnp.where(w == -1, 1, w + 1))))(w - x * jnp.exp(-w))"
    steps = reduce(lambda text, _: f"(lambda w: {residual})({text})", range(6), start)
    return _wide(f"jnp.where(({inside}) & (x != jnp.inf), {steps}, {edges})", x)


elementwise(
    "lambertw", "x / branch", _lambertw, (lambda xp, g, out, x, *, branch: g / (x + xp.exp(out)),), saves="x out", policy="float",
    kinds="bif", sympy=lambda sp, x, branch: sp.LambertW(x, branch), domain=(-0.3, -0.1), jax=_lambertw_jax,
)  # fmt: skip


# --- Riemann's zeta function and its derivatives

_SUMMED, _CORRECTIONS = 8, 12
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
_zeta_of_scipy = scipy_kernel("zeta")
ZETA_FROM = -1.0
"""Left of here the sums for derivatives of zeta lose digits, and NaN is given."""


def _corrections(order: int) -> list[list[float]]:
    """With N = _SUMMED: 1/2 + Σ B₂ⱼ/(2j)! N^(1-2j) s (s+1) ... (s+2j-2) as a polynomial in s, and its derivatives; the highest power
    first."""
    total, rising = np.polynomial.Polynomial([0.5]), np.polynomial.Polynomial([0.0, 1.0])
    for j, bernoulli in enumerate(_BERNOULLI[:_CORRECTIONS], start=1):
        total = total + rising * (bernoulli / math.factorial(2 * j) * float(_SUMMED) ** (1 - 2 * j))
        rising = rising * np.polynomial.Polynomial([2 * j - 1, 1]) * np.polynomial.Polynomial([2 * j, 1])
    return [list(map(float, total.deriv(m).coef[::-1] if m else total.coef[::-1])) for m in range(order + 1)]


def _zeta_sum(order: int) -> str:
    """The Euler-Maclaurin formula for the derivative of this order, as text for either library: Σ k⁻ˢ, and N⁻ˢ times its corrections."""
    logs = [math.log(k) for k in range(1, _SUMMED)]
    scales, logs_text = (f"jnp.asarray({numbers!r}, x.dtype)" for numbers in ([(-log) ** order for log in logs], logs))
    head = f"jnp.sum({scales} * jnp.exp(-x[..., None] * {logs_text}), -1)"
    last, terms = math.log(_SUMMED), []
    for m, coefficients in enumerate(_corrections(order)):
        scale = math.comb(order, m) * (-last) ** (order - m)
        pole = f"{(-1) ** m * math.factorial(m) * _SUMMED} / (x - 1) ** {m + 1}"
        terms.append(f"{scale!r} * ({pole} + jnp.polyval(jnp.asarray({coefficients!r}, x.dtype), x))")
    return f"{head} + jnp.exp(-x * {last!r}) * ({' + '.join(terms)})"


@through_float32
def _zeta(x, *, order):
    if order == 0:
        return np.asarray(_zeta_of_scipy(x), x.dtype)
    logs = np.log(np.arange(1, _SUMMED))
    wide = x.astype(np.float64)
    total = np.sum((-logs) ** order * np.exp(-wide[..., None] * logs), -1)
    last = math.log(_SUMMED)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for m, coefficients in enumerate(_corrections(order)):
            pole = (-1) ** m * math.factorial(m) * _SUMMED / (wide - 1) ** (m + 1)
            scale = math.comb(order, m) * (-last) ** (order - m)
            total = total + np.exp(-wide * last) * scale * (pole + np.polyval(coefficients, wide))
    return np.where(x >= ZETA_FROM, total, np.nan).astype(x.dtype)


def _zeta_jax(x: str, *, order: int) -> str:
    if order:
        return _wide(f"jnp.where(x >= {ZETA_FROM}, {_zeta_sum(order)}, jnp.nan)", x)
    factor = f"2 * {2 * math.pi!r} ** (x - 1) * jnp.sin(jnp.pi * x / 2) * jax.scipy.special.gamma(1 - x)"
    mirrored = f"{factor} * (lambda x: {_zeta_sum(0)})(1 - x)"
    return _wide(f"jnp.where(x < 0, (lambda x: {mirrored})(jnp.where(x < 0, x, -1)), {_zeta_sum(0)})", x)


def _zeta_meaning(sp: Any, x: Any, order: int) -> Any:
    u = sp.Dummy("u")
    return sp.Subs(sp.Derivative(sp.zeta(u), (u, order)), u, x) if order else sp.zeta(x)


elementwise(
    "riemann_zeta", "x / order", _zeta, (lambda xp, g, out, x, *, order: xp.riemann_zeta(x, order=order + 1) * g,), saves="x",
    policy="float", kinds="bif", sympy=_zeta_meaning, domain=(1.5, 5.0), jax=_zeta_jax,
)  # fmt: skip
