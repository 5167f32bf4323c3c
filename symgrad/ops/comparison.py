"""Elementwise rows without derivatives: comparisons, logic, bits, and what kind of number it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import kind
from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise


def _relation(name: str, ufunc: Any, word: str, kinds: str) -> None:
    elementwise(name, "x y", ufunc, policy="compare", kinds=kinds, sympy=lambda sp, x, y: getattr(sp, word)(x, y))


_relation("lt", np.less, "Lt", "bif")
_relation("le", np.less_equal, "Le", "bif")
_relation("gt", np.greater, "Gt", "bif")
_relation("ge", np.greater_equal, "Ge", "bif")
_relation("eq", np.equal, "Eq", "bifc")
_relation("ne", np.not_equal, "Ne", "bifc")


# --- logic: a number is true unless it is 0


def _truth(sp: Any, x: Any) -> Any:
    return x if x.is_Boolean or x.is_Relational else sp.Ne(x, 0)


def _logic(name: str, ufunc: Any, word: str, args: str = "x y") -> None:
    elementwise(name, args, ufunc, policy="compare", sympy=lambda sp, *operands: getattr(sp, word)(*(_truth(sp, x) for x in operands)))


_logic("logical_and", np.logical_and, "And")
_logic("logical_or", np.logical_or, "Or")
_logic("logical_xor", np.logical_xor, "Xor")
_logic("logical_not", np.logical_not, "Not", "x")


# --- bits: of booleans they are logic, of integers SymPy has no word for them


def _bits_sympy(name: str, word: str) -> Any:
    def meaning(sp: Any, *operands: Any) -> Any:
        if all(x.is_Boolean or x.is_Relational for x in operands):
            return getattr(sp, word)(*operands)
        return sp.Function(name)(*operands)

    return meaning


def _not_type(x: Any) -> Meta:
    if kind(x.dtype) in "fc":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    meta: Meta = elementwise_type("bitwise_not", "promote")(x)
    return meta


elementwise("bitwise_and", "x y", np.bitwise_and, kinds="bi", sympy=_bits_sympy("bitwise_and", "And"))
elementwise("bitwise_or", "x y", np.bitwise_or, kinds="bi", sympy=_bits_sympy("bitwise_or", "Or"))
elementwise("bitwise_xor", "x y", np.bitwise_xor, kinds="bi", sympy=_bits_sympy("bitwise_xor", "Xor"))
elementwise("bitwise_not", "x", np.invert, kinds="bi", type=_not_type, sympy=_bits_sympy("bitwise_not", "Not"))
elementwise("bitwise_left_shift", "x y", np.left_shift, kinds="i", sympy=lambda sp, x, y: x * 2**y)
elementwise("bitwise_right_shift", "x y", np.right_shift, kinds="i", sympy=lambda sp, x, y: sp.floor(x / 2**y))


# --- what kind of number: a formula is about real, finite numbers


def _kind_of(name: str, kernel: Any, meaning: Any, kinds: str = "bifc", **columns: Any) -> None:
    elementwise(name, "x", kernel, policy="compare", kinds=kinds, sympy=meaning, **columns)


_kind_of("isnan", np.isnan, lambda sp, x: sp.false)
_kind_of("isinf", np.isinf, lambda sp, x: sp.false)
_kind_of("isfinite", np.isfinite, lambda sp, x: sp.true)
_kind_of("isposinf", lambda x: np.logical_and(np.isinf(x), x > 0), lambda sp, x: sp.false, "bif", jax="jnp.isposinf")
_kind_of("isneginf", lambda x: np.logical_and(np.isinf(x), x < 0), lambda sp, x: sp.false, "bif", jax="jnp.isneginf")
_kind_of("isreal", lambda x: np.equal(x.imag, 0), lambda sp, x: sp.true, jax="jnp.isreal")
_kind_of("signbit", lambda x: np.signbit(x) if kind(x.dtype) == "f" else x < 0, lambda sp, x: sp.Lt(x, 0), "bif", jax="jnp.signbit")
