"""Elementwise rows with kinks and steps. Where one has no derivative, the convention is PyTorch's: see the `special` column.

Steps (floor, sign, ...) have the derivative 0 and do have a backward node, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.kernels.layout import fresh
from symgrad.ops.kernels.select import select
from symgrad.ops.promotion import compute_type, kind, result_type
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise
from symgrad.ops.variants import is_complex

_zero = lambda xp, g, out, *args, **attrs: xp.zero(g)


def refuse_derivative(name: str) -> Any:
    """The rule of a row that PyTorch lets into the graph, but not through backward."""

    def rule(xp: Any, g: Any, out: Any, *args: Any, **attrs: Any) -> Any:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    rule.refuses = True  # type: ignore[attr-defined]
    return rule


# --- choosing


def _where_type(condition: Any, x: Any, y: Any) -> Meta:
    shape = broadcast_shapes("where", *(tuple(o.shape) for o in (condition, x, y) if hasattr(o, "shape")))
    dtype = compute_type("where", (condition, x, y))
    assert dtype is not None
    return Meta(shape, dtype)


elementwise(
    "where", "condition x y", select,
    (None, lambda xp, g, out, c, x, y: xp.where(c, g, 0), lambda xp, g, out, c, x, y: xp.where(c, 0, g)),
    saves=("", "condition", "condition"), policy="where", type=_where_type, jax="jnp.where", complex="own",
    sympy=lambda sp, c, x, y: sp.Piecewise((x, c), (y, True)),
)  # fmt: skip
elementwise(
    "relu", "x", lambda x: np.maximum(x, 0), (lambda xp, g, out, x: xp.where(out <= 0, 0, g),), saves="out", kinds="if",
    sympy=lambda sp, x: sp.Max(x, 0), jax="jax.nn.relu", special=(0.0,), tie=True,
)  # fmt: skip


def _share(g, x, y):
    """The cotangent of x in max(x, y): half of it at a tie; a NaN lets it through. Ties are rare, and looked for first."""
    out, tie = select(x < y, 0, g), np.equal(x, y)
    return select(tie, out / 2, out) if tie.any() else out


elementwise(
    "share", "g x y", _share, (lambda xp, g, out, h, x, y: xp.share(g, x, y), None, None), saves=("x y", "", ""), kinds="f",
    sympy=lambda sp, g, x, y: sp.Piecewise((0, x < y), (g / 2, sp.Eq(x, y)), (g, True)),
    jax=lambda g, x, y: f"jnp.where({x} < {y}, 0, jnp.where({x} == {y}, {g} / 2, {g}))",
)  # fmt: skip


def _extremum(name: str, kernel: Any, x_wins: Any, y_wins: Any, sympy: Any) -> None:
    elementwise(name, "x y", kernel, (x_wins, y_wins), saves="x y", kinds="bif", sympy=sympy, special=((1.0, 1.0),))


_extremum(
    "maximum", np.maximum, lambda xp, g, out, x, y: xp.share(g, x, y), lambda xp, g, out, x, y: xp.share(g, y, x),
    lambda sp, x, y: sp.Max(x, y),
)  # fmt: skip
_extremum(
    "minimum", np.minimum, lambda xp, g, out, x, y: xp.share(g, y, x), lambda xp, g, out, x, y: xp.share(g, x, y),
    lambda sp, x, y: sp.Min(x, y),
)  # fmt: skip
_extremum(
    "fmax", np.fmax, lambda xp, g, out, x, y: xp.where(xp.logical_or(x >= y, xp.isnan(y)), g, 0),
    lambda xp, g, out, x, y: xp.where(xp.logical_or(x >= y, xp.isnan(y)), 0, g), lambda sp, x, y: sp.Max(x, y),
)  # fmt: skip
_extremum(
    "fmin", np.fmin, lambda xp, g, out, x, y: xp.where(xp.logical_or(x <= y, xp.isnan(y)), g, 0),
    lambda xp, g, out, x, y: xp.where(xp.logical_or(x <= y, xp.isnan(y)), 0, g), lambda sp, x, y: sp.Min(x, y),
)  # fmt: skip


# --- clamping: the derivative is 1 at the bounds


def _clamp_type(x: Any, *, min: Any, max: Any) -> Meta:
    """The bounds take part in the type of the result."""
    return Meta(x.shape, result_type(x, *(bound for bound in (min, max) if bound is not None)))


def _clamp(x, *, min, max):
    if kind(x.dtype) in "bi":
        x = x.astype(_clamp_type(x, min=min, max=max).dtype)
    if min is None:
        return np.minimum(x, max)
    if max is None:
        return np.maximum(x, min)
    out = np.maximum(x, min, out=fresh(x))
    return np.minimum(out, max, out=out)


def _clamp_rule(xp, g, out, x, *, min, max):
    if min is None:
        return xp.where(x <= max, g, 0)
    return xp.where(x >= min, g, 0) if max is None else xp.where(xp.logical_and(x >= min, x <= max), g, 0)


def _clamp_sympy(sp: Any, x: Any, min: Any, max: Any) -> Any:
    low = x if min is None else sp.Max(x, min)
    return low if max is None else sp.Min(low, max)


def _clamp_jax(x: str, *, min: Any, max: Any) -> str:
    return f"jnp.clip({x}, {min!r}, {max!r})"


elementwise(
    "clamp", "x / min max", _clamp, (_clamp_rule,), saves="x", kinds="bif", type=_clamp_type, sympy=_clamp_sympy, jax=_clamp_jax,
    display="ClampBackward1", special=(0.0, 1.0),
)  # fmt: skip
elementwise(
    "clamp_between", "x low high", lambda x, low, high: np.minimum(np.maximum(x, low), high),
    (
        lambda xp, g, out, x, low, high: xp.where(xp.logical_and(x >= low, x <= high), g, 0),
        lambda xp, g, out, x, low, high: xp.where(xp.logical_and(x < low, low < high), g, 0),
        lambda xp, g, out, x, low, high: xp.where(xp.logical_or(x > high, high < low), g, 0),
    ),
    saves="x low high", kinds="bif", sympy=lambda sp, x, low, high: sp.Min(sp.Max(x, low), high), display="ClampBackward0",
    jax=lambda x, low, high: f"jnp.minimum(jnp.maximum({x}, {low}), {high})",
)  # fmt: skip


def _clamp_title(word: str) -> Any:
    return lambda node: f"Clamp{word}Backward{int(hasattr(node.inputs[1], 'shape'))}"


elementwise(
    "clamp_min", "x y", np.maximum, (lambda xp, g, out, x, y: xp.where(x >= y, g, 0), lambda xp, g, out, x, y: xp.where(x < y, g, 0)),
    saves="x y", kinds="bif", sympy=lambda sp, x, y: sp.Max(x, y), display=_clamp_title("Min"), special=((1.0, 1.0),),
)  # fmt: skip
elementwise(
    "clamp_max", "x y", np.minimum, (lambda xp, g, out, x, y: xp.where(x <= y, g, 0), lambda xp, g, out, x, y: xp.where(x > y, g, 0)),
    saves="x y", kinds="bif", sympy=lambda sp, x, y: sp.Min(x, y), display=_clamp_title("Max"), special=((1.0, 1.0),),
)  # fmt: skip


# --- steps


def _sign(x):
    """0 of a NaN, as in PyTorch."""
    if x.dtype.kind == "b":
        return x.copy()
    out = np.sign(x)
    if x.dtype.kind == "f" and np.isnan(np.add.reduce(out, axis=None)):
        out = np.where(np.isnan(out), 0, out)
    return out


def _sign_jax(x: str) -> str:
    return f"jnp.where(jnp.isnan({x}), 0, jnp.sign({x}))"


def _round_sympy(sp: Any, x: Any) -> Any:
    """Halves go to the even neighbour."""
    up = sp.floor(x + sp.Rational(1, 2))
    return sp.Piecewise((up - 1, sp.Eq(sp.Mod(x + sp.Rational(1, 2), 2), 1)), (up, True))


def _round(x):
    return x.copy() if kind(x.dtype) in "bi" else np.rint(x)


def _round_to_sympy(sp: Any, x: Any, decimals: int) -> Any:
    scale = sp.Integer(10) ** decimals
    return _round_sympy(sp, x * scale) / scale


def _round_to(x, *, decimals):
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


elementwise("floor", "x", np.floor, (_zero,), kinds="if", sympy=lambda sp, x: sp.floor(x))
elementwise("ceil", "x", np.ceil, (_zero,), kinds="if", sympy=lambda sp, x: sp.ceiling(x))
elementwise("trunc", "x", np.trunc, (_zero,), kinds="if", sympy=lambda sp, x: sp.sign(x) * sp.floor(sp.Abs(x)))
elementwise("round", "x", _round, (_zero,), kinds="if", sympy=_round_sympy, jax="jnp.round")
elementwise(
    "round_to", "x / decimals", _round_to, (_zero,), kinds="f", sympy=_round_to_sympy, jax="jnp.round", display="RoundBackward1",
)  # fmt: skip
elementwise("sign", "x", _sign, (_zero,), kinds="bif", sympy=lambda sp, x: sp.sign(x), jax=_sign_jax, special=(0.0,))
elementwise(
    "frac", "x", lambda x: x - np.trunc(x), (lambda xp, g, out, x: g,), kinds="f",
    sympy=lambda sp, x: x - sp.sign(x) * sp.floor(sp.Abs(x)), jax=lambda x: f"{x} - jnp.trunc({x})",
)  # fmt: skip


# --- division with a remainder


def _refuse_zero(y):
    if np.any(np.equal(y, 0)):
        raise RuntimeError("ZeroDivisionError")


def _floor_divide(x, y):
    if kind(np.result_type(x, y)) == "i":
        _refuse_zero(y)
    return np.floor_divide(x, y)


def _div_rounded(x, y, *, rounding_mode):
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if kind(np.result_type(x, y)) != "i":
        return np.trunc(np.divide(x, y))
    _refuse_zero(y)
    quotient = np.floor_divide(x, y)
    return quotient + ((np.remainder(x, y) != 0) & (quotient < 0)).astype(quotient.dtype)


def _div_rounded_sympy(sp: Any, x: Any, y: Any, rounding_mode: str) -> Any:
    return sp.floor(x / y) if rounding_mode == "floor" else sp.sign(x / y) * sp.floor(sp.Abs(x / y))


def _div_rounded_jax(x: str, y: str, *, rounding_mode: str) -> str:
    return f"jnp.floor_divide({x}, {y})" if rounding_mode == "floor" else f"jnp.trunc({x} / {y})"


def _checked(kernel: Any) -> Any:
    """Integers are not divided by zero."""

    def divide(x, y):
        if kind(np.result_type(x, y)) == "i":
            _refuse_zero(y)
        return kernel(x, y)

    return divide


def _remainder(x, y):
    """As NumPy's, but a zero has the sign of x, not of y."""
    out = np.remainder(x, y)
    if out.dtype.kind != "f" or out.all():
        return out
    return np.where(out == 0, np.copysign(out, x), out)


elementwise(
    "floor_divide", "x y", _floor_divide, (refuse_derivative("floor_divide"),) * 2, kinds="if", sympy=lambda sp, x, y: sp.floor(x / y),
    jax="jnp.floor_divide", display="NotImplemented", domain=(0.3, 2.0),
)  # fmt: skip
elementwise(
    "div_rounded", "x y / rounding_mode", _div_rounded, (_zero, _zero), kinds="if", sympy=_div_rounded_sympy, jax=_div_rounded_jax,
    display="DivBackward2", domain=(0.3, 2.0),
)  # fmt: skip
for _name, _ufunc, _mode in (("fmod", np.fmod, "trunc"), ("remainder", _remainder, "floor")):
    elementwise(
        _name, "x y", _checked(_ufunc),
        (
            lambda xp, g, out, x, y: g,
            lambda xp, g, out, x, y, _mode=_mode: xp.div_rounded(x, y, rounding_mode=_mode) * -g,
        ),
        saves=("", "x y"), kinds="if", domain=(0.3, 2.0), jax=f"jnp.{_name}",
        sympy=lambda sp, x, y, _mode=_mode: x - y * _div_rounded_sympy(sp, x, y, _mode),
        display=lambda node, _name=_name: f"{_name.title()}Backward{int(hasattr(node.inputs[1], 'shape'))}",
    )  # fmt: skip


# --- signs and the not-quite-finite


def _copysign_x(xp, g, out, x, y):
    zero = x == 0
    return xp.where(zero, 0, out / xp.where(zero, 1, x) * g)


elementwise(
    "copysign", "x y", np.copysign, (_copysign_x, _zero), saves=("x out", ""), policy="float", kinds="bif",
    sympy=lambda sp, x, y: sp.Abs(x) * sp.Piecewise((-1, y < 0), (1, True)),
)  # fmt: skip


def _heaviside(x, y):
    if kind(x.dtype) != "f":
        return np.where(x == 0, y, x > 0)
    return np.heaviside(x, y).astype(np.result_type(x, y))


elementwise(
    "heaviside", "x y", _heaviside, (refuse_derivative("heaviside"),) * 2, kinds="bif", display="NotImplemented",
    sympy=lambda sp, x, y: sp.Heaviside(x, y),
    jax=lambda x, y: f"jnp.where({x} == 0, {y}, jnp.heaviside({x}, 0).astype(jnp.result_type({x}, {y})))",
)  # fmt: skip


def _nan_to_num(x, *, nan, posinf, neginf):
    return x.copy() if kind(x.dtype) in "bi" else np.nan_to_num(x, copy=True, nan=nan, posinf=posinf, neginf=neginf)


elementwise(
    "nan_to_num", "x / nan posinf neginf", _nan_to_num,
    (lambda xp, g, out, x, *, nan, posinf, neginf: xp.where(xp.isfinite(x), g, 0),), saves="x", complex="refused",
    sympy=lambda sp, x, nan, posinf, neginf: x, display="NanToNumBackward0",
)  # fmt: skip


def _abs_type(x: Any) -> Meta:
    return Meta(x.shape, np.empty(0, x.dtype).real.dtype)


def _sgn_rule(xp, g, out, x):
    """Real: 0. Complex: the part of g across the direction of x, by |x|."""
    if not is_complex(x):
        return xp.zero(g)
    along = xp.real(xp.conj(out) * g)
    size = xp.abs(x)
    return xp.where(size == 0, 0, (g - out * along) / xp.where(size == 0, 1, size))


elementwise(
    "abs", "x", np.absolute, (lambda xp, g, out, x: xp.sgn(x) * g,), saves="x", kinds="ifc", complex="own", type=_abs_type,
    sympy=lambda sp, x: sp.Abs(x), special=(0.0,),
)  # fmt: skip
elementwise("sgn", "x", _sign, (_sgn_rule,), saves="x out", complex="own", sympy=lambda sp, x: sp.sign(x), jax=_sign_jax, special=(0.0,))
