"""Elementwise rows that take more than elementary functions, or care at their edges: erf, gamma, sinc, logit, atan2, xlogy, ..."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.exact import PI, logarithm, root
from symgrad.ops.kernels.windows import through_float32
from symgrad.ops.table import elementwise

LN2, ERF_SLOPE, NORMAL = logarithm(2), 2 / root(PI), root(2 * PI)


def scipy_kernel(name: str) -> Any:
    """A function of scipy.special, which is imported when it is first called."""
    found: Any = None

    def kernel(*args: Any) -> Any:
        nonlocal found
        if found is None:
            import scipy.special

            found = getattr(scipy.special, name)
        return found(*args)

    kernel.__name__ = name
    return kernel


def _at_least_single(x: str) -> str:
    """Half precision as single, in JAX."""
    return f"{x}.astype(jnp.promote_types({x}.dtype, jnp.float32))"


# --- the error function

elementwise(
    "erf", "x", scipy_kernel("erf"), (lambda xp, g, out, x: xp.exp(-x * x) * ERF_SLOPE * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.erf(x), jax="jax.scipy.special.erf",
)  # fmt: skip
elementwise(
    "erfc", "x", scipy_kernel("erfc"), (lambda xp, g, out, x: xp.exp(-x * x) * -ERF_SLOPE * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.erfc(x), jax="jax.scipy.special.erfc",
)  # fmt: skip
elementwise(
    "erfinv", "x", scipy_kernel("erfinv"), (lambda xp, g, out, x: xp.exp(out * out) / ERF_SLOPE * g,), saves="out", policy="float",
    kinds="bif", sympy=lambda sp, x: sp.erfinv(x), domain=(-0.9, 0.9), jax="jax.scipy.special.erfinv",
)  # fmt: skip


elementwise(
    "ndtri", "x", scipy_kernel("ndtri"), (lambda xp, g, out, x: xp.exp(out * out / 2) * NORMAL * g,), saves="out", policy="float",
    kinds="bif", sympy=lambda sp, x: sp.sqrt(2) * sp.erfinv(2 * x - 1), domain=(0.1, 0.9), display="SpecialNdtriBackward0",
    jax=lambda x: f"jax.scipy.special.ndtri({_at_least_single(x)}).astype({x}.dtype)",
)  # fmt: skip


# --- the gamma function

_gammaln, _positive_polygamma = scipy_kernel("gammaln"), scipy_kernel("polygamma")


def _lgamma(x):
    """SciPy has -inf at -inf."""
    out = _gammaln(x)
    return np.where(np.isinf(x), np.inf, out) if np.any(np.isneginf(x)) else out


def _cot_coefficients(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial in cot, the highest power first: cot' = -(1 + cot²)."""
    poly = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        poly = poly.deriv() * np.polynomial.Polynomial([-1, 0, -1])
    return [round(c) for c in reversed(poly.coef)]


def _cot_pi(r):
    """cot(πr) for abs(r) <= 1/2, exactly 0 at its ends."""
    return np.where(np.abs(r) < 0.25, 1 / np.tan(np.pi * r), np.sign(r) * np.tan(np.pi * (0.5 - np.abs(r))))


def _polygamma(x, *, n):
    """Reflection for x < 0: ψₙ(x) = (-1)ⁿ ψₙ(1 - x) - π dⁿ/dxⁿ cot(πx). SciPy's recurrence would take one step for each unit."""
    negative = x < 0
    if not np.any(negative):
        return np.asarray(_positive_polygamma(n, x), x.dtype)
    positive = _positive_polygamma(n, np.where(negative, 1 - x, x))
    slopes = np.polyval(_cot_coefficients(n), _cot_pi(x - np.round(x)))
    out = np.where(negative, (-1) ** n * positive - np.pi ** (n + 1) * slopes, positive)
    return np.asarray(np.where(negative & (np.floor(x) == x), (-1) ** (n + 1) * np.inf, out), x.dtype)


def _polygamma_jax(x: str, *, n: int) -> str:
    """The same: what JAX computes below -7 is wrong, and it gives NaN at poles and at infinity."""
    cot = "jnp.where(jnp.abs(r) < 0.25, 1 / jnp.tan(jnp.pi * r), jnp.sign(r) * jnp.tan(jnp.pi * (0.5 - jnp.abs(r))))"
    slopes = f"jnp.polyval(jnp.asarray({_cot_coefficients(n)!r}, r.dtype), {cot})"
    reflected = f"(lambda r: {(-1) ** n} * y - {math.pi ** (n + 1)!r} * {slopes})(x - jnp.round(x))"
    signed = f"jnp.where((x <= 0) & (jnp.floor(x) == x), {(-1) ** (n + 1)} * jnp.inf, jnp.where(x < 0, {reflected}, y))"
    positive = f"jnp.where(x == jnp.inf, {(-1) ** (n + 1)} * 0.0, jax.scipy.special.polygamma({n}, jnp.where(x < 0, 1 - x, x)))"
    return f"(lambda x: (lambda x, y: {signed})(x, {positive}))({_at_least_single(x)}).astype({x}.dtype)"


elementwise(
    "lgamma", "x", _lgamma, (lambda xp, g, out, x: xp.digamma(x) * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.loggamma(x), domain=(0.3, 4.0), jax="jax.scipy.special.gammaln",
)  # fmt: skip
elementwise(
    "digamma", "x", scipy_kernel("psi"), (lambda xp, g, out, x: xp.polygamma(x, n=1) * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: sp.polygamma(0, x), domain=(0.3, 4.0),
    jax=lambda x: f"jnp.where({x} == 0, jnp.copysign(jnp.inf, -{x}), jax.scipy.special.digamma({x}))",
)  # fmt: skip
elementwise(
    "polygamma", "x / n", _polygamma, (lambda xp, g, out, x, *, n: xp.polygamma(x, n=n + 1) * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x, n: sp.polygamma(n, x), domain=(0.3, 4.0), jax=_polygamma_jax,
)  # fmt: skip


# --- sinc, and all its derivatives: smooth at 0, where the closed forms are 0/0


@through_float32
def _sinc_derivative(x, *, order):
    """With u = π x, the derivatives of sin(u)/u obey u Sₙ + n Sₙ₋₁ = sin(u + nπ/2); near 0 that cancels, and the power series serves."""
    u = np.pi * x
    near = np.abs(u) < order + 1
    far = np.where(near, 1, u)
    closed = np.sin(far) / far
    for n in range(1, order + 1):
        closed = (np.sin(far + n * np.pi / 2) - n * closed) / far
    return (np.where(near, _sinc_series(np.where(near, u, 0), order), closed) * np.pi**order).astype(x.dtype)


def _sinc_coefficients(order: int) -> list[float]:
    """Sₙ = Σ (-1)ᵏ uᵐ / (m! (2k + 1)) over m = 2k - n >= 0: those of u², the highest first; if n is odd there is a factor u besides."""
    whole = [(m, (m + order) // 2) for m in range(40 + order % 2, -1, -2)]
    return [(-1) ** k / (math.factorial(m) * (2 * k + 1)) for m, k in whole]


def _sinc_series(u: Any, order: int) -> Any:
    squared, total = u * u, np.zeros_like(u)
    for coefficient in _sinc_coefficients(order):
        total = total * squared + coefficient
    return total * u if order % 2 else total


def _sinc_meaning(sp: Any, x: Any, order: int = 0) -> Any:
    u = sp.Dummy(real=True)
    return sp.diff(sp.sin(sp.pi * u) / (sp.pi * u), u, order).subs(u, x) if order else sp.sinc(sp.pi * x)


def _sinc_derivative_jax(x: str, *, order: int) -> str:
    """The same sums. What JAX derives of its own sinc cancels beside 0."""
    closed = "jnp.sin(far) / far"
    for n in range(1, order + 1):
        closed = f"(jnp.sin(far + {n * math.pi / 2!r}) - {n} * ({closed})) / far"
    series = f"jnp.polyval(jnp.asarray({_sinc_coefficients(order)!r}, near.dtype), near * near)"
    either = f"lambda small, near, far: jnp.where(small, {series}{' * near' if order % 2 else ''}, {closed}) * {math.pi**order!r}"
    chosen = f"lambda u, small: ({either})(small, jnp.where(small, u, 0), jnp.where(small, 1, u)).astype({x}.dtype)"
    return f"(lambda u: ({chosen})(u, jnp.abs(u) < {order + 1}))(jnp.pi * {_at_least_single(x)})"


elementwise(
    "sinc", "x", np.sinc, (lambda xp, g, out, x: xp.sinc_derivative(x, order=1) * g,), saves="x", policy="float", sympy=_sinc_meaning,
    jax="jnp.sinc", special=(0.0,),
)  # fmt: skip
elementwise(
    "sinc_derivative", "x / order", _sinc_derivative, (lambda xp, g, out, x, *, order: xp.sinc_derivative(x, order=order + 1) * g,),
    saves="x", policy="float", sympy=_sinc_meaning, jax=_sinc_derivative_jax, special=(0.0,),
)  # fmt: skip


# --- logarithms of more than one thing


def _logit(x, *, eps):
    z = x if eps is None else np.minimum(np.maximum(x, eps), 1 - eps)
    return np.log(z / (1 - z))


def _logit_rule(xp, g, out, x, *, eps):
    low, high, outside = (0, 1, math.nan) if eps is None else (eps, 1 - eps, 0)
    return xp.where(xp.logical_and(x >= low, x <= high), g / ((1 - x) * x), outside)


def _logit_sympy(sp: Any, x: Any, eps: Any) -> Any:
    z = x if eps is None else sp.Min(sp.Max(x, eps), 1 - eps)
    return sp.log(z / (1 - z))


def _logit_jax(x: str, *, eps: Any) -> str:
    return f"jax.scipy.special.logit({x})" if eps is None else f"jax.scipy.special.logit(jnp.clip({x}, {eps!r}, 1 - {eps!r}))"


elementwise(
    "logit", "x / eps", _logit, (_logit_rule,), saves="x", policy="float", kinds="bif", sympy=_logit_sympy, domain=(0.1, 0.9),
    jax=_logit_jax,
)  # fmt: skip


def _xlogy_rule(log: str, edge: int) -> Any:
    """In x: 0 where x is 0 and the logarithm is not finite."""
    return lambda xp, g, out, x, y: xp.where(xp.logical_and(x == 0, y <= edge), 0, getattr(xp, log)(g, y))


def _xlogy(logarithm: Any) -> Any:
    """0 where x is 0, whatever the logarithm; but NaN where y is."""

    def kernel(x, y):
        dtype = np.result_type(x, y)
        x, y = np.asarray(x, dtype), np.asarray(y, dtype)
        none = np.logical_and(np.equal(x, 0), np.logical_not(np.isnan(y)))
        return np.where(none, 0, x * logarithm(np.where(none, 1, y)))

    return kernel


def _title(name: str) -> Any:
    """Which of the two operands is a number shows in the name of the node."""

    def title(node: Any) -> str:
        x, y = (hasattr(edge, "shape") for edge in node.inputs)
        return f"{name}Backward{0 if x and y else 1 if y else 2}"

    return title


elementwise(
    "xlogy", "x y", _xlogy(np.log), (_xlogy_rule("xlogy", 0), lambda xp, g, out, x, y: g * x / y), saves=("x y", "x y"), policy="float",
    kinds="bif", sympy=lambda sp, x, y: x * sp.log(y), domain=(0.1, 2.0), display=_title("Xlogy"), jax="jax.scipy.special.xlogy",
    special=((0.0, 0.0),),
)  # fmt: skip
elementwise(
    "xlog1py", "x y", _xlogy(np.log1p), (_xlogy_rule("xlog1py", -1), lambda xp, g, out, x, y: g * x / (y + 1)), saves=("x y", "x y"),
    policy="float", kinds="bif", sympy=lambda sp, x, y: x * sp.log(1 + y), domain=(0.1, 2.0), display=_title("SpecialXlog1Py"),
    jax="jax.scipy.special.xlog1py",
)  # fmt: skip
elementwise(
    "entr", "x", scipy_kernel("entr"), (lambda xp, g, out, x: -(xp.log(x) + 1) * g,), saves="x", policy="float", kinds="bif",
    sympy=lambda sp, x: -x * sp.log(x), domain=(0.1, 2.0), display="SpecialEntrBackward0", jax="jax.scipy.special.entr",
)  # fmt: skip
elementwise(
    "logaddexp", "x y", np.logaddexp, (lambda xp, g, out, x, y: xp.sigmoid(x - y) * g, lambda xp, g, out, x, y: xp.sigmoid(y - x) * g),
    saves="x y", kinds="f", sympy=lambda sp, x, y: sp.log(sp.exp(x) + sp.exp(y)),
)  # fmt: skip
elementwise(
    "logaddexp2", "x y", np.logaddexp2,
    (lambda xp, g, out, x, y: xp.sigmoid((x - y) * LN2) * g, lambda xp, g, out, x, y: xp.sigmoid((y - x) * LN2) * g),
    saves="x y", kinds="f", sympy=lambda sp, x, y: sp.log(2**x + 2**y) / sp.log(2),
)  # fmt: skip


# --- the plane


def _over_square(xp, numerator, x, y):
    """numerator / (x² + y²), 0 at the origin."""
    square = x * x + y * y
    origin = square == 0
    return xp.where(origin, 0, numerator / xp.where(origin, 1, square))


elementwise(
    "hypot", "x y", np.hypot, (lambda xp, g, out, x, y: xp.cosine(x, y) * g, lambda xp, g, out, x, y: xp.cosine(y, x) * g), saves="x y",
    kinds="f", sympy=lambda sp, x, y: sp.sqrt(x**2 + y**2), special=((1.0, 1.0), (1.0, -1.0)),
)  # fmt: skip
elementwise(
    "atan2", "x y", np.arctan2,
    (lambda xp, g, out, x, y: _over_square(xp, g * y, x, y), lambda xp, g, out, x, y: _over_square(xp, -g * x, x, y)),
    saves="x y", policy="float", kinds="bif", sympy=lambda sp, x, y: sp.atan2(x, y), domain=(0.2, 2.0), special=((0.0, 0.0),),
)  # fmt: skip
