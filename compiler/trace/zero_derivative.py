"""Zero-derivative links: x**0 is folded to the constant 1, and still requires grad, as in eager code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import Value
from symgrad.ops.promotion import kind


def link_zero_derivative(value: Value, operands: Sequence[Any]) -> Value:
    """`value`, the result of an op; if it was folded to a constant, linked by a zero derivative to each operand that is no constant."""
    if number(value) is None or kind(value.dtype) not in "fc":
        return value
    for x in operands:
        if isinstance(x, Value) and number(x) is None and kind(x.dtype) in "fc":
            value = xp.replace(_like(x, value), value)
    return value


def _like(x: Value, value: Value) -> Value:
    """`x` summed and expanded to the shape of `value`, if that differs, and cast to its dtype."""
    if x.shape != value.shape:
        x = xp.expand(xp.sum(x, axis=tuple(range(x.ndim)), keepdims=False), shape=value.shape)
    return xp.cast(x, dtype=value.dtype)
