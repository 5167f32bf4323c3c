"""where(c, g, 0) * h -> where(c, g * h, 0): a mask stays outside of what is linear in the masked value.

In the gradient of where(x > 0, sqrt(x), 0) the cotangent of sqrt is where(x > 0, g, 0), and the rule of sqrt divides it by sqrt(x): 0 / 0
where x is 0. With the mask outside the quotient is not selected there, so that the gradient is 0, also to second order. Both sides are
equal wherever the left side is finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT
from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.table import Table
from symgrad.ops.promotion import kind

if TYPE_CHECKING:
    from symgrad.compiler.ir.graph import Value

c, g, h, x, axis, keepdims, shape, dtype = map(variable, ("c", "g", "h", "x", "axis", "keepdims", "shape", "dtype"))
_CONDITION = {"c": np.array([True, False, True])}
_SCALAR = {"c": np.array(True)}


def _is_inexact(m: Any) -> bool:
    return kind(m.meta.dtype) in "fc"


def _is_pulled(m: Any) -> bool:
    """False for a masked number times an argument, which is finite if the user's is: x / |x| stays (0 if |x| = 0 else 1 / |x|) x."""
    return _is_inexact(m) and (m.h.op != INPUT or np.broadcast_shapes(m.c.shape, m.g.shape) == m.meta.shape)


def _is_one_condition(m: Any) -> bool:
    return _is_inexact(m) and m.c.shape == ()


def _expanded(xp: Any, m: Any) -> Value:
    """Expand the masked value; the condition broadcasts with it."""
    return xp.where(m.c, xp.expand(m.g, shape=m.shape), 0)  # type: ignore[no-any-return]


def _reshaped(xp: Any, m: Any) -> Value:
    """Reshape the masked value and the condition."""
    whole = np.broadcast_shapes(m.c.shape, m.g.shape)
    condition, value = (a if a.shape == whole else xp.expand(a, shape=whole) for a in (m.c, m.g))
    return xp.where(xp.reshape(condition, shape=m.shape), xp.reshape(value, shape=m.shape), 0)  # type: ignore[no-any-return]


def _mask(name: str, pattern: Any, result: Any, when: Any = _is_inexact, **columns: Any) -> Rule:
    return Rule(name, pattern, result, when, **{"example": _CONDITION, **columns})


_GIVEN, _TAKEN = P.where(c, g, 0), P.where(c, 0, g)

finite_behind_masks = Table(
    "masks",
    _mask("mask_where", P.where(c, P.where(c, g, h), x), P.where(c, g, x)),
    _mask("mask_mul", _GIVEN * h, P.where(c, g * h, 0), _is_pulled),
    _mask("mask_mul_else", _TAKEN * h, P.where(c, 0, g * h), _is_pulled),
    _mask("mask_div", _GIVEN / h, P.where(c, g / h, 0)),
    _mask("mask_div_else", _TAKEN / h, P.where(c, 0, g / h)),
    _mask("mask_neg", -_GIVEN, P.where(c, -g, 0)),
    _mask("mask_neg_else", -_TAKEN, P.where(c, 0, -g)),
    _mask("mask_tanh", P.tanh_backward(_GIVEN, h), P.where(c, P.tanh_backward(g, h), 0)),
    _mask("mask_tanh_else", P.tanh_backward(_TAKEN, h), P.where(c, 0, P.tanh_backward(g, h))),
    _mask("mask_add", _GIVEN + P.where(c, h, 0), P.where(c, g + h, 0)),
    _mask("mask_add_else", _TAKEN + P.where(c, 0, h), P.where(c, 0, g + h)),
    _mask("mask_cast", P.cast(_GIVEN, dtype=dtype), P.where(c, P.cast(g, dtype=dtype), 0), example=_CONDITION | {"dtype": np.dtype("f4")}),
    _mask("mask_expand", P.expand(_GIVEN, shape=shape), _expanded, text="where(c, expand(g), 0)", example=_CONDITION | {"shape": (2, 3)}),
    _mask("mask_reshape", P.reshape(_GIVEN, shape=shape), _reshaped, text="where(reshape(c), reshape(g), 0)",
          example=_CONDITION | {"shape": (3, 1)}),
    _mask(
        "mask_sum", P.sum(_GIVEN, axis=axis, keepdims=keepdims), P.where(c, P.sum(g, axis=axis, keepdims=keepdims), 0), _is_one_condition,
        example=_SCALAR | {"axis": (0,), "keepdims": False},
    ),
    _mask("mask_matmul", P.matmul(_GIVEN, h), P.where(c, P.matmul(g, h), 0), _is_one_condition,
          example=_SCALAR | {"g": (3, 3), "h": (3, 3)}),
    _mask("matmul_mask", P.matmul(h, _GIVEN), P.where(c, P.matmul(h, g), 0), _is_one_condition,
          example=_SCALAR | {"g": (3, 3), "h": (3, 3)}),
    normal=False,
)  # fmt: skip
