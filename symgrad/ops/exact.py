"""Exact numbers: floats that remember which number they round, so that a formula shows sqrt(2) and 1/3.

A form is a row of the table applied to integers and exact numbers: `("sqrt", 2)`, `("div", 1, 3)`. What arithmetic makes of exact numbers
is exact, as long as it is short.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

_MOST_PARTS = 16
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
}  # fmt: skip


class Exact(float):
    """A float with the form of the number that it stands for. NumPy sees a plain float, which leaves the type to the array."""

    __slots__ = ("form",)

    form: tuple[Any, ...]

    def __new__(cls, value: float, form: tuple[Any, ...]) -> Exact:
        self = super().__new__(cls, value)
        self.form = form
        return self

    def __getnewargs__(self) -> tuple[float, tuple[Any, ...]]:  # type: ignore[override]
        return float(self), self.form

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*(float(x) if isinstance(x, Exact) else x for x in inputs), **options)

    def __neg__(self) -> float:
        return _combined("mul", self, -1)


Exact.__name__ = float.__name__  # in Python's own messages, too; its __qualname__ is what pickle looks up


def exact(x: int | Fraction | Exact) -> int | Exact:
    """A number in the form that graphs take; a Fraction is a quotient."""
    if not isinstance(x, Fraction):
        return x
    return x.numerator if x.denominator == 1 else Exact(float(x), ("div", x.numerator, x.denominator))


def root(x: Any) -> float:
    """The square root of an exact number, exactly."""
    return Exact(math.sqrt(x), ("sqrt", exact(x))) if x >= 0 else math.nan


def logarithm(x: int | Exact) -> Exact:
    """The natural logarithm of a positive number."""
    return Exact(math.log(x), ("log", x))


def is_exact(x: Any) -> bool:
    """Whether a number is known exactly; a bool is no number here."""
    return x.__class__ in (int, Fraction, Exact)


def _parts(x: Any) -> int:
    return 1 + sum(map(_parts, x.form[1:])) if isinstance(x, Exact) else 1


def _combined(name: str, x: Any, y: Any) -> float:
    value = _OPERATIONS[name](float(x), float(y))
    form = (name, exact(x), exact(y))
    return Exact(value, form) if _parts(x) + _parts(y) < _MOST_PARTS else value


def _install(name: str, word: str) -> None:
    plain, reflected = getattr(float, f"__{word}__"), getattr(float, f"__r{word}__")

    def forward(self: Exact, other: Any) -> Any:
        return _combined(name, self, other) if is_exact(other) else plain(self, other)

    def backward(self: Exact, other: Any) -> Any:
        return _combined(name, other, self) if is_exact(other) else reflected(self, other)

    setattr(Exact, f"__{word}__", forward)
    setattr(Exact, f"__r{word}__", backward)


for _name in _OPERATIONS:
    _install(_name, {"div": "truediv"}.get(_name, _name))

PI = Exact(math.pi, ("acos", -1))
"""The angle whose cosine is -1."""
