"""exp(x - logsumexp(x)) -> softmax(x): forms that a formula shows as people write them. For formulas only.

A rule holds for all arguments for which both sides are finite. Kernels keep the left sides, which are what derivatives compute from the
values that are there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.pattern import P, constant, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.table import Table
from symgrad.ops.promotion import kind

if TYPE_CHECKING:
    from symgrad.compiler.ir.graph import Value

a, b = constant("a"), constant("b")
c, h, x, y, z, axis, keepdims, shape, check = map(variable, ("c", "h", "x", "y", "z", "axis", "keepdims", "shape", "check"))
_CONDITION = {"c": np.array([True, False, True])}


def _is_real(m: Any) -> bool:
    return kind(m.meta.dtype) == "f"


def _is_softmax(m: Any) -> bool:
    """True if the subtracted sum over one axis lines up with the exponents."""
    return _is_real(m) and len(m.axis) == 1 and (m.keepdims or m.axis == (0,)) and m.meta.shape == m.x.shape


def _is_reshaped_softmax(m: Any) -> bool:
    kept = tuple(1 if i in m.axis else n for i, n in enumerate(m.x.shape))
    return _is_real(m) and len(m.axis) == 1 and m.shape == kept and m.meta.shape == m.x.shape


def _is_ordered(m: Any) -> bool:
    return _is_real(m) and m.x.shape == m.meta.shape and m.a < m.b


def _is_one(m: Any) -> bool:
    return _is_real(m) and m.x.shape == m.meta.shape and m.a == 1


def _clamped(xp: Any, m: Any) -> Value:
    return xp.clamp(m.x, min=m.a, max=m.b)  # type: ignore[no-any-return]


def _within_one(xp: Any, m: Any) -> Value:
    return xp.clamp(m.x, min=-1, max=1)  # type: ignore[no-any-return]


_LOGSUMEXP = P.logsumexp(x, axis=axis, keepdims=keepdims)

short = Table(
    "short",
    Rule("double_angle", P.square(P.cos(x)) - P.square(P.sin(x)), P.cos(2 * x), _is_real),
    Rule("positive_part", P.where(P.relu(x) <= 0, 0, P.relu(x)), P.relu(x), _is_real),
    Rule("sign_quotient", P.sgn(x) / P.abs(x), P.reciprocal(x), _is_real),
    Rule("inverse_of_inverse", P.inv(P.inv(x, check=check), check=check), x, _is_real, example={"x": (3, 3), "check": True}),
)  # fmt: skip

choices = Table(
    "choices",
    Rule("softmax_of_logsumexp", P.exp(x - _LOGSUMEXP), P.softmax(x, axis=axis), _is_softmax, example={"axis": (0,), "keepdims": True}),
    Rule(
        "softmax_of_rows", P.exp(x - P.reshape(_LOGSUMEXP, shape=shape)), P.softmax(x, axis=axis), _is_reshaped_softmax,
        example={"x": (2, 3), "axis": (1,), "keepdims": False, "shape": (2, 1)},
    ),
    Rule(
        "within_one_or_sign", P.where(P.abs(x) <= a, x, 0) + P.where(P.abs(x) <= a, 0, P.sgn(x)), _within_one, _is_one, "clamp(x)",
        example={"a": 1}, differentiable=False,
    ),
    Rule("one_choice", P.where(c, x, y) + P.where(c, h, z), P.where(c, x + h, y + z), _is_real, example=_CONDITION),
    Rule("within_one", P.where(P.abs(x) <= a, x, P.sgn(x)), _within_one, _is_one, "clamp(x)", example={"a": 1}, differentiable=False),
    Rule(
        "within", P.where(x < a, a, P.where(x > b, b, x)), _clamped, _is_ordered, "clamp(x)", example={"a": -1, "b": 1},
        differentiable=False,
    ),
    normal=False,
)  # fmt: skip
"""Choices and softmax; matched as they stand, so that no sum is taken apart."""
