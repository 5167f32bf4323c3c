"""Points at which an expression has a value: where a branch of a Piecewise is not taken, it is evaluated there.

The gradient of a choice multiplies the slope of a branch that is not taken by 0, and 0 times an infinite slope is NaN. So the arguments of
such a branch are replaced, where it is not taken, by numbers inside of its domain.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import sympy as sp

_CANDIDATES = tuple(sp.Rational(n, 16) for n in (11, 23, -11, -23, 43, 117, -117, 667, -667))
"""Fractions that floats hold exactly, away from integers and from each other's squares."""
_MOST_TRIED = 60
_BOUNDED = (sp.sin, sp.cos, sp.tanh, sp.atan, sp.erf, sp.Abs, sp.Max, sp.Min, sp.Heaviside, sp.sign)


def safe_point(e: Any) -> dict[Any, Any] | None:
    """Return numbers for the symbols of an expression at which it is finite; None if it is finite everywhere, or no point was found."""
    symbols = tuple(sorted((s for s in e.free_symbols if type(s) in (sp.Symbol, sp.Dummy)), key=sp.default_sort_key))
    if not symbols or _is_finite_everywhere(e) or e.has(sp.MatrixExpr, sp.Indexed, sp.Sum, sp.Product):
        return None
    return _found(e, symbols)


def _is_finite_everywhere(e: Any) -> bool:
    if isinstance(e, sp.Pow):
        return bool(e.exp.is_Integer and e.exp > 0) and _is_finite_everywhere(e.base)
    return (not e.args or isinstance(e, (sp.Add, sp.Mul, *_BOUNDED))) and all(map(_is_finite_everywhere, e.args))


@functools.lru_cache(maxsize=1024)
def _found(e: Any, symbols: tuple[Any, ...]) -> dict[Any, Any] | None:
    equal = ((c,) * len(symbols) for c in _CANDIDATES)
    mixed = itertools.product(_CANDIDATES, repeat=len(symbols))
    for numbers in itertools.islice(itertools.chain(equal, mixed), _MOST_TRIED):
        point = dict(zip(symbols, numbers, strict=True))
        value = e.xreplace(point).evalf(6)
        if value.is_real and value.is_finite:
            return point
    return None
