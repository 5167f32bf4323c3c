"""Arithmetic of the numbers in a formula: exact, as fractions and as numbers with a form such as sqrt(2), within bounded digits."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad.ops.exact import Exact, exact
from symgrad.ops.table import TABLE

_MOST_BITS = 2100
"""More than the numbers of double precision need."""
_EXACT_BITS = 53
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "scale": operator.mul, "divide": operator.truediv, "power": operator.pow,
}  # fmt: skip


def is_number(x: object) -> bool:
    """True for a number that is known without arguments; False for tensors."""
    return isinstance(x, (int, float, Fraction))


def combined(action: str, x: Any, y: Any) -> Any:
    """Return x + y, x - y, x y, x / y or x ** y for numbers; ArithmeticError if it is none or too large."""
    if action == "divide" and y == 0:
        raise ArithmeticError("division by zero")
    if action == "power":
        _check_power(x, y)
    inexact = isinstance(x, float) or isinstance(y, float) or (action == "power" and Fraction(y).denominator != 1)
    if not inexact:
        first = Fraction(x)
        return _bounded(_ARITHMETIC[action](first, int(y) if action == "power" else Fraction(y)))
    return _finite(_ARITHMETIC[action](plain(x), plain(y)))


def applied(row: str, x: Any) -> Any:
    """Return an elementwise row applied to a number, with its form."""
    given = plain(x)
    with np.errstate(all="ignore"):
        value = float(TABLE[row].numpy(np.asarray(float(given))))
    if math.isnan(value):
        raise ArithmeticError("the result is no real number")
    return Exact(_finite(value), (row, given)) if isinstance(given, (int, Exact)) else _finite(value)


def plain(x: Any) -> Any:
    """Return a number as ops take it: an integer, an exact number, or a float."""
    if not isinstance(x, Fraction):
        return x
    short = max(abs(x.numerator).bit_length(), x.denominator.bit_length()) <= _EXACT_BITS
    return exact(x) if short else float(x)


def _check_power(x: Any, y: Any) -> None:
    if x == 0 and y < 0:
        raise ArithmeticError("division by zero")
    if x < 0 and Fraction(y).denominator != 1:
        raise ArithmeticError("the power is no real number")
    if x not in (0, 1, -1) and abs(y) * abs(math.log2(abs(x)) if abs(x) < 2**1000 else 1000) > _MOST_BITS / 2:
        raise ArithmeticError("the number is too large or too small")


def _bounded(x: Fraction) -> Fraction:
    if max(abs(x.numerator).bit_length() - x.denominator.bit_length(), 0) > 1023 or x.denominator.bit_length() > _MOST_BITS:
        raise ArithmeticError("the number is too large or too small")
    return x


def _finite(x: float) -> float:
    if not math.isfinite(x):
        raise ArithmeticError("the number is too large, or no real number")
    return x
