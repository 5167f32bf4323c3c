"""Rows that take complex numbers apart and put them together. None is analytic, so each has rules of its own, in PyTorch's convention:
the cotangent of z = a + ib is (cotangent of a) + i (cotangent of b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import COMPLEX64, COMPLEX128, FLOAT64, compute_type
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise, row
from symgrad.ops.variants import is_complex


def real_type_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def complex_type_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex type whose parts have this one."""
    return COMPLEX128 if dtype in (FLOAT64, COMPLEX128) else COMPLEX64


def _real_part_type(x: Any) -> Meta:
    return Meta(x.shape, real_type_of(x.dtype))


def _imag_type(x: Any) -> Meta:
    if not is_complex(x):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _real_part_type(x)


def _angle_type(x: Any) -> Meta:
    dtype = compute_type("float", (x,))
    assert dtype is not None
    return Meta(x.shape, real_type_of(dtype))


def _angle(x):
    """Of a real number 0 or π; of -0.0 it is 0, as in PyTorch."""
    return np.angle(x) if x.dtype.kind == "c" else np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)).astype(x.dtype)


def _angle_rule(xp, g, out, x):
    """Of a complex number i z / |z|², 0 at the origin; of a real one 0."""
    if not is_complex(x):
        return xp.zero(g)
    square = xp.real(x * xp.conj(x))
    return xp.where(square == 0, 0, g * 1j * x / xp.where(square == 0, 1, square))


def _complex(x, y):
    if x.dtype != y.dtype:
        raise TypeError("two types")  # the type rule has the words
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), COMPLEX128 if x.dtype == FLOAT64 else COMPLEX64)
    out.real, out.imag = x, y
    return out


def _complex_type(x: Any, y: Any) -> Meta:
    words = [a.dtype.name for a in (x, y)]
    if any(a.dtype.kind != "f" for a in (x, y)):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {' and '.join(words)} (complex)")
    if x.dtype != y.dtype:
        raise RuntimeError(f"Expected object of scalar type {words[0]} but got scalar type {words[1]} for second argument (complex)")
    return Meta(broadcast_shapes("complex", x.shape, y.shape), COMPLEX128 if x.dtype == FLOAT64 else COMPLEX64)


def _complex_text(x: str, y: str) -> str:
    """XLA wants two arrays of one shape, of single or double precision."""
    return f"jax.lax.complex(*(a.astype(jnp.promote_types(a.dtype, jnp.float32)) for a in jnp.broadcast_arrays({x}, {y})))"


def _as_real_type(x: Any) -> Meta:
    if not is_complex(x):
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {x.dtype}")
    return Meta((*x.shape, 2), real_type_of(x.dtype))


def _as_complex_type(x: Any) -> Meta:
    if not x.shape or x.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got shape {list(x.shape)} (view_as_complex)")
    if is_complex(x):
        raise RuntimeError("view_as_complex is only supported for floating point tensors")
    return Meta(x.shape[:-1], COMPLEX128 if x.dtype == FLOAT64 else COMPLEX64)


def _as_real(x):
    return x[..., None].view(real_type_of(x.dtype))


def _as_complex(x):
    if x.strides[-1] != x.itemsize:  # a cotangent may be one number for all elements; the public function refuses such tensors
        x = np.ascontiguousarray(x)
    return x.view(COMPLEX128 if x.dtype == FLOAT64 else COMPLEX64)[..., 0]


elementwise("conj", "x", np.conjugate, (lambda xp, g, out, x: xp.conj(g),), kinds="ifc", complex="own", sympy=lambda sp, x: sp.conjugate(x))
elementwise(
    "real", "x", lambda x: x.real, (lambda xp, g, out, x: g,), policy="each", type=_real_part_type, complex="own", view=True,
    sympy=lambda sp, x: sp.re(x), jax="jnp.real", display="SelectBackward0",
)  # fmt: skip
elementwise(
    "imag", "x", lambda x: x.imag, (lambda xp, g, out, x: g * 1j,), policy="each", type=_imag_type, kinds="c", complex="own", view=True,
    sympy=lambda sp, x: sp.im(x), jax="jnp.imag", display="SelectBackward0",
)  # fmt: skip
elementwise(
    "angle", "x", _angle, (_angle_rule,), saves="x", policy="float", type=_angle_type, complex="own",
    sympy=lambda sp, x: sp.arg(x), jax=lambda x: f"jnp.angle(jnp.where({x} == 0, 0, {x}))",
)  # fmt: skip
elementwise(
    "complex", "x y", _complex, (lambda xp, g, out, x, y: xp.real(g), lambda xp, g, out, x, y: xp.imag(g)), policy="each",
    type=_complex_type, kinds="f", complex="own", sympy=lambda sp, x, y: x + sp.I * y, jax=_complex_text,
)  # fmt: skip
row(
    "view_as_real", "x", _as_real, (lambda xp, g, out, x: xp.view_as_complex(g),), policy="each", type=_as_real_type, complex="own",
    view=True, jax=lambda x: f"jnp.stack((jnp.real({x}), jnp.imag({x})), -1)",
)  # fmt: skip
row(
    "view_as_complex", "x", _as_complex, (lambda xp, g, out, x: xp.view_as_real(g),), policy="each", type=_as_complex_type, complex="own",
    view=True, jax=lambda x: f"jax.lax.complex({x}[..., 0], {x}[..., 1])",
)  # fmt: skip
