"""Elementwise rows: arithmetic, powers, exponentials, circular and hyperbolic functions.

Rules are written so that NumPy reuses temporaries: a product with a fresh array on either side is computed in its memory,
a difference only if the fresh array stands on the left. At 10⁶ elements a second temporary doubles the time.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from symgrad.ops.exact import PI, is_exact, logarithm
from symgrad.ops.kernels.layout import fresh
from symgrad.ops.promotion import FLOAT64, kind, result_type
from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise
from symgrad.ops.variants import is_complex

LN2, LN10, RADIAN = logarithm(2), logarithm(10), PI / 180


# --- arithmetic


def _sub_type(x: Any, y: Any) -> Meta:
    booleans = [isinstance(o, bool) or kind(getattr(o, "dtype", FLOAT64)) == "b" for o in (x, y)]
    if all(booleans):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
        )
    if any(booleans):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or"
            " `logical_not()` operator instead."
        )
    meta: Meta = elementwise_type("sub", "promote")(x, y)
    return meta


def _neg_type(x: Any) -> Meta:
    if kind(result_type(x)) == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or"
            " `logical_not()` operator instead."
        )
    meta: Meta = elementwise_type("neg", "promote")(x)
    return meta


elementwise("add", "x y", np.add, (lambda xp, g, out, x, y: g, lambda xp, g, out, x, y: g), sympy=lambda sp, x, y: x + y)
elementwise(
    "sub", "x y", np.subtract, (lambda xp, g, out, x, y: g, lambda xp, g, out, x, y: -g), type=_sub_type, kinds="ifc",
    sympy=lambda sp, x, y: x - y,
)  # fmt: skip
elementwise(
    "rsub", "x y", lambda x, y: np.subtract(y, x), (lambda xp, g, out, x, y: -g, lambda xp, g, out, x, y: g), type=_sub_type,
    kinds="ifc", sympy=lambda sp, x, y: y - x, jax=lambda x, y: f"{y} - {x}",
    display=lambda node: f"RsubBackward{int(not hasattr(node.inputs[1], 'shape'))}",
)  # fmt: skip
elementwise(
    "mul", "x y", np.multiply, (lambda xp, g, out, x, y: g * y, lambda xp, g, out, x, y: g * x), saves=("y", "x"),
    sympy=lambda sp, x, y: x * y,
)  # fmt: skip
elementwise(
    "div", "x y", np.divide, (lambda xp, g, out, x, y: g / y, lambda xp, g, out, x, y: -(x / y / y * g)), saves=("y", "x y"),
    policy="float", sympy=lambda sp, x, y: x / y, domain=(0.3, 2.0), special=((0.0, 1.0),),
)  # fmt: skip
elementwise(
    "rdiv", "x y", lambda x, y: np.divide(y, x), (lambda xp, g, out, x, y: -(out / x * g), lambda xp, g, out, x, y: g / x),
    saves=("out x", "x"), policy="float", sympy=lambda sp, x, y: y / x, jax=lambda x, y: f"{y} / {x}", domain=(0.3, 2.0),
    display="MulBackward0",
)  # fmt: skip
elementwise("neg", "x", np.negative, (lambda xp, g, out, x: -g,), type=_neg_type, kinds="ifc", sympy=lambda sp, x: -x)
elementwise("zero", "x", np.zeros_like, (lambda xp, g, out, x: xp.zero(g),), sympy=lambda sp, x: sp.Integer(0), jax="jnp.zeros_like")
elementwise(
    "reciprocal", "x", np.reciprocal, (lambda xp, g, out, x: out * -out * g,), saves="out", policy="float", domain=(0.3, 2.0),
    sympy=lambda sp, x: 1 / x,
)  # fmt: skip
elementwise(
    "addcmul", "x y z / value", lambda x, y, z, *, value: x + y * z * np.asarray(value, x.dtype),
    (
        lambda xp, g, out, x, y, z, *, value: g,
        lambda xp, g, out, x, y, z, *, value: g * z * value,
        lambda xp, g, out, x, y, z, *, value: g * y * value,
    ),
    saves=("", "z", "y"), sympy=lambda sp, x, y, z, value: x + value * y * z, jax=lambda x, y, z, *, value: f"{x} + {value!r} * {y} * {z}",
)  # fmt: skip


def _addcdiv_type(x: Any, y: Any, z: Any, *, value: Any) -> Meta:
    meta: Meta = elementwise_type("addcdiv", "promote")(x, y, z)
    if kind(meta.dtype) in "bi":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true division of"
            " tensor1 and tensor2. Use input + value * torch.trunc(tensor1 / tensor2) for the historic behaviour."
        )
    return meta


elementwise(
    "addcdiv", "x y z / value", lambda x, y, z, *, value: x + y / z * value,
    (
        lambda xp, g, out, x, y, z, *, value: g,
        lambda xp, g, out, x, y, z, *, value: g / z * value,
        lambda xp, g, out, x, y, z, *, value: -g * value * y / (z * z),
    ),
    saves=("", "z", "y z"), type=_addcdiv_type, kinds="fc", domain=(0.3, 2.0), sympy=lambda sp, x, y, z, value: x + value * y / z,
    jax=lambda x, y, z, *, value: f"{x} + {value!r} * {y} / {z}",
)  # fmt: skip


def _lerp(x, y, weight):
    """From the nearer end, as PyTorch: exact at both."""
    if weight.__class__ is not np.ndarray:
        return x + weight * (y - x) if abs(weight) < 0.5 else y - (y - x) * (1 - weight)
    return np.where(np.abs(weight) < 0.5, x + weight * (y - x), y - (y - x) * (1 - weight))


elementwise(
    "lerp", "x y weight", _lerp,
    (
        lambda xp, g, out, x, y, weight: g * (1 - weight),
        lambda xp, g, out, x, y, weight: g * weight,
        lambda xp, g, out, x, y, weight: (y - x) * g,
    ),
    saves=("weight", "weight", "x y"), kinds="fc", sympy=lambda sp, x, y, weight: x + weight * (y - x),
    jax=lambda x, y, weight: f"jnp.where(jnp.abs({weight}) < 0.5, {x} + {weight} * ({y} - {x}), {y} - ({y} - {x}) * (1 - {weight}))",
    display=lambda node: f"LerpBackward{int(hasattr(node.inputs[2], 'shape'))}",
)  # fmt: skip


def _cast(x, *, dtype):
    if x.dtype.kind == "c" and dtype.kind not in "bc":  # 1j is true
        x = x.real
    return x.astype(dtype, "C" if 0 in x.strides else "K")


def _cast_jax(x, *, dtype):
    """Small integers wrap around, as in NumPy and PyTorch: XLA would cut floats off at the ends of their range."""
    small = ".astype('int32')" if dtype.kind in "iu" and dtype.itemsize < 4 else ""
    return f"{x}{small}.astype({dtype.name!r})"


elementwise(
    "cast", "x / dtype", _cast, (lambda xp, g, out, x, *, dtype: g,), policy="each", sympy=lambda sp, x, dtype: x, complex="own",
    type=lambda x, *, dtype: Meta(x.shape, np.dtype(dtype)), display="ToCopyBackward0",
    jax=_cast_jax,
)  # fmt: skip
elementwise(  # x, whose derivative in y is known to be zero: how a cotangent that is constant stays part of a history
    "tied", "x y", lambda x, y: np.array(x), (lambda xp, g, out, x, y: g, lambda xp, g, out, x, y: xp.zero(g)), policy="each",
    complex="own", sympy=lambda sp, x, y: x, jax=lambda x, y: x, type=lambda x, y: Meta(x.shape, x.dtype),
)  # fmt: skip
elementwise("detach", "x", np.array, policy="each", complex="own", sympy=lambda sp, x: x, jax="jax.lax.stop_gradient")


# --- powers


def _rsqrt(x):
    out = np.sqrt(x, fresh(x))
    return np.reciprocal(out, out)


_POWERS: dict[float, Any] = {
    0.5: np.sqrt,
    -0.5: _rsqrt,
    -1: np.reciprocal,
    2: np.square,
    3: lambda x: x * x * x,
    4: lambda x: np.square(np.square(x)),
    -2: lambda x: np.reciprocal(np.square(x)),
}


def _power(x, *, exponent):
    """np.power takes 50 times as long as a multiplication: small exponents have kernels of their own."""
    if kind(x.dtype) in "bi":
        return _integer_power(x, exponent)
    kernel = _POWERS.get(exponent)
    return x**exponent if kernel is None else kernel(x)


def _integer_power(x, exponent):
    if exponent.__class__ is int and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return x.astype(result_type(x, exponent)) ** exponent


def _power_jax(x: str, *, exponent: Any) -> str:
    """Roots by name: a power of a negative infinity, or of -0.0, would be another number."""
    roots = {0.5: f"jnp.sqrt({x})", -0.5: f"1 / jnp.sqrt({x})"}
    return roots.get(exponent, f"{x} ** {exponent!r}")


def _power_type(x: Any, *, exponent: Any) -> Meta:
    return Meta(x.shape, result_type(x, exponent))


def _power_rule(xp, g, out, x, *, exponent):
    if exponent == 0:
        return xp.zero(g)
    if exponent == 1:
        return g
    return x * 2 * g if exponent == 2 else xp.power(x, exponent=exponent - 1) * exponent * g


def _pow(x, y):
    """Integers to a negative power are 0, save for 1 and -1, as in PyTorch."""
    if getattr(x, "dtype", FLOAT64).kind in "iu" and np.any(y < 0):
        sign = np.where(y % 2 == 0, 1, x)
        return np.where(y < 0, np.where(np.abs(x) == 1, sign, 0), np.power(x, np.maximum(y, 0))).astype(x.dtype)
    return np.power(x, y)


def _logarithm(x: Any) -> Any:
    """Of a Python number."""
    if isinstance(x, complex):
        return cmath.log(x)
    return math.nan if x <= 0 else logarithm(x) if is_exact(x) else math.log(x)


def _pow_x(xp, g, out, x, y):
    """At y = 0 the derivative is 0, also where x is."""
    return xp.where(y == 0, 0, xp.pow(x, y - 1) * y * g)


def _pow_y(xp, g, out, x, y):
    """At x = 0 the derivative is 0 for y >= 0, as in PyTorch, not 0 * log 0."""
    size = xp.real(y) if is_complex(y) else y
    if not hasattr(x, "shape"):
        return xp.where(size >= 0, 0, out * -math.inf * g) if x == 0 else out * _logarithm(x) * g
    zero = xp.logical_and(x == 0, size >= 0)
    return xp.where(zero, 0, xp.log(xp.where(zero, 1, x)) * out * g)


elementwise(
    "power", "x / exponent", _power, (_power_rule,), saves="x", sympy=lambda sp, x, exponent: x**exponent, display="PowBackward0",
    type=_power_type, domain=(0.2, 2.0), jax=_power_jax, tie=True,
)  # fmt: skip
elementwise(
    "pow", "x y", _pow, (_pow_x, _pow_y), saves=("x y", "out x y"), sympy=lambda sp, x, y: x**y, domain=(0.2, 2.0), jax="jnp.power",
    kinds="ifc", display=lambda node: f"PowBackward{1 if hasattr(node.inputs[0], 'shape') else 2}",
)  # fmt: skip
elementwise(
    "square", "x", np.square, (lambda xp, g, out, x: x * 2 * g,), saves="x", sympy=lambda sp, x: x**2, display="PowBackward0",
    kinds="ifc", tie=True,
)  # fmt: skip
elementwise(
    "sqrt", "x", np.sqrt, (lambda xp, g, out, x: g / out / 2,), saves="out", policy="float", domain=(0.1, 3.0),
    sympy=lambda sp, x: sp.sqrt(x),
)  # fmt: skip
elementwise(
    "rsqrt", "x", _rsqrt, (lambda xp, g, out, x: out * out * out * g / -2,), saves="out", policy="float",
    domain=(0.1, 3.0), sympy=lambda sp, x: 1 / sp.sqrt(x), jax="jax.lax.rsqrt",
)  # fmt: skip


# --- exponentials and logarithms

elementwise("exp", "x", np.exp, (lambda xp, g, out, x: g * out,), saves="out", policy="float", sympy=lambda sp, x: sp.exp(x))
elementwise("exp2", "x", np.exp2, (lambda xp, g, out, x: g * out * LN2,), saves="out", policy="float", sympy=lambda sp, x: 2**x)
elementwise("expm1", "x", np.expm1, (lambda xp, g, out, x: xp.exp(x) * g,), saves="x", policy="float", sympy=lambda sp, x: sp.exp(x) - 1)
elementwise("log", "x", np.log, (lambda xp, g, out, x: g / x,), saves="x", policy="float", domain=(0.1, 3.0), sympy=lambda sp, x: sp.log(x))
elementwise(
    "log2", "x", np.log2, (lambda xp, g, out, x: g / x / LN2,), saves="x", policy="float", domain=(0.1, 3.0),
    sympy=lambda sp, x: sp.log(x) / sp.log(2),
)  # fmt: skip
elementwise(
    "log10", "x", np.log10, (lambda xp, g, out, x: g / x / LN10,), saves="x", policy="float", domain=(0.1, 3.0),
    sympy=lambda sp, x: sp.log(x) / sp.log(10),
)  # fmt: skip
elementwise(
    "log1p", "x", np.log1p, (lambda xp, g, out, x: g / (x + 1),), saves="x", policy="float", domain=(-0.8, 3.0),
    sympy=lambda sp, x: sp.log(1 + x), jax="jnp.log1p",
)  # fmt: skip


def _sigmoid(x):
    """In the memory of one array; exp overflows to infinity, whose reciprocal is the right 0."""
    out = np.negative(x, fresh(x))
    np.exp(out, out)
    out += 1
    return np.reciprocal(out, out)


elementwise(
    "sigmoid", "x", _sigmoid, (lambda xp, g, out, x: xp.sigmoid(-x) * out * g,), saves="x out", policy="float",
    sympy=lambda sp, x: 1 / (1 + sp.exp(-x)), jax="jax.nn.sigmoid",
)  # fmt: skip


# --- circular and hyperbolic functions


def _tanh_backward(x, y):
    """(1 - y²) x in the memory of one array."""
    out = np.multiply(y, y, fresh(y))
    np.subtract(1, out, out)
    return np.multiply(out, x, out) if np.shape(x) == out.shape else out * x


def _elementary(name: str, kernel: Any, rule: Any, saves: str, **columns: Any) -> None:
    elementwise(name, "x", kernel, (rule,), saves=saves, policy="float", **{"sympy": lambda sp, x: getattr(sp, name)(x), **columns})


_elementary("sin", np.sin, lambda xp, g, out, x: xp.cos(x) * g, "x")
_elementary("cos", np.cos, lambda xp, g, out, x: -xp.sin(x) * g, "x")
_elementary("tan", np.tan, lambda xp, g, out, x: (out * out + 1) * g, "out", domain=(-1.2, 1.2))
_elementary("asin", np.arcsin, lambda xp, g, out, x: xp.rsqrt(-x * x + 1) * g, "x", domain=(-0.9, 0.9))
_elementary("acos", np.arccos, lambda xp, g, out, x: -xp.rsqrt(-x * x + 1) * g, "x", domain=(-0.9, 0.9))
_elementary("atan", np.arctan, lambda xp, g, out, x: g / (x * x + 1), "x")
_elementary("sinh", np.sinh, lambda xp, g, out, x: xp.cosh(x) * g, "x")
_elementary("cosh", np.cosh, lambda xp, g, out, x: xp.sinh(x) * g, "x")
_elementary("tanh", np.tanh, lambda xp, g, out, x: xp.tanh_backward(g, out), "out")
_elementary("asinh", np.arcsinh, lambda xp, g, out, x: xp.rsqrt(x * x + 1) * g, "x")
_elementary("acosh", np.arccosh, lambda xp, g, out, x: xp.rsqrt(x * x - 1) * g, "x", domain=(1.1, 3.0))
_elementary("atanh", np.arctanh, lambda xp, g, out, x: g / (-x * x + 1), "x", domain=(-0.9, 0.9))
elementwise(
    "tanh_backward", "x y", _tanh_backward, (lambda xp, g, out, x, y: xp.tanh_backward(g, y), lambda xp, g, out, x, y: y * -2 * g * x),
    saves=("y", "x y"), kinds="fc", sympy=lambda sp, x, y: x * (1 - y**2), jax=lambda x, y: f"{x} * (1 - {y} * {y})",
)  # fmt: skip
elementwise(
    "deg2rad", "x", np.deg2rad, (lambda xp, g, out, x: g * RADIAN,), policy="float", kinds="bif", sympy=lambda sp, x: x * sp.pi / 180,
    display="Deg2RadBackward0",
)  # fmt: skip
elementwise(
    "rad2deg", "x", np.rad2deg, (lambda xp, g, out, x: g / RADIAN,), policy="float", kinds="bif", sympy=lambda sp, x: x * 180 / sp.pi,
    display="Rad2DegBackward0",
)  # fmt: skip
