"""Shorter forms of scalar expressions, by algebra whose work is bounded: never `simplify`.

    x/(1 - x)² + 1/(1 - x)     -> (1 - x)⁻²          together, cancel
    x exp(x) + 5 exp(x)        -> (x + 5) exp(x)     common factors
    x x^(x - 1)                -> x^x                powers of one base

Candidates are tried in turn, and the shortest is kept. An expression beyond the bounds of `symgrad.compiler.symbolic.limits` stays as it
is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.limits import MAX_DEGREE, MAX_OPS, MAX_TERMS, multiplied_out, size

_OPAQUE = (sp.Piecewise, sp.Rel, sp.Sum, sp.MatrixExpr)
_FEWEST = 4
"""Shorter expressions have no shorter form."""


def shorter(e: Any) -> Any:
    """Return the shortest of the forms of a scalar expression, or the expression itself."""
    if not isinstance(e, sp.Expr) or e.is_Atom:
        return e
    whole = {number: sp.Dummy(real=True) for number in _numbers_of_matrices(e)}
    found = _shortest(e.xreplace(whole)) if whole else _shortest(e)
    return found.xreplace({name: number for number, name in whole.items()}) if whole else found


def _numbers_of_matrices(e: Any) -> list[Any]:
    """Return the numbers made from matrices in an expression: xᵀ y, det X, sums. Algebra sees them as symbols."""
    if any(getattr(a, "is_Matrix", False) for a in e.args):
        return [e]
    if not isinstance(e, (sp.Add, sp.Mul, sp.Pow, sp.Function)) or isinstance(e, sp.Piecewise):
        return []
    return list(dict.fromkeys(n for a in e.args for n in _numbers_of_matrices(a)))


def _shortest(e: Any) -> Any:
    if not _is_small(e):
        return e
    best, least = e, length(e)
    for form in _FORMS if _is_polynomial(e) else _CHEAP:
        if least <= _FEWEST:
            break
        found = _tried(form, best)
        if found is not None and (count := length(found)) < least:
            best, least = found, count
    return best


def length(e: Any) -> int:
    """Return how many operators and symbols an expression has as text: 1/x has three, as x - 1."""
    if isinstance(e, sp.Add):
        return sum(length(_unsigned(t)) for t in e.args) + len(e.args) - 1 + all(t.could_extract_minus_sign() for t in e.args)
    if isinstance(e, sp.Mul):
        return _length_of_product(e)
    if isinstance(e, sp.Pow):
        return _length_of_power(e)
    if e.is_Rational:
        return (1 if e.q == 1 else 3) + bool(e < 0)
    return 1 + sum(map(length, e.args))


def _unsigned(term: Any) -> Any:
    return -term if term.as_coeff_Mul()[0].is_negative else term


def _length_of_product(e: Any) -> int:
    if e.as_coeff_Mul()[0].is_negative:
        return 1 + length(-e)
    above, below = sp.fraction(e)
    factors, divisors = [[f for f in sp.Mul.make_args(part) if f != 1] for part in (above, below)]
    found = sum(map(length, factors)) + max(len(factors) - 1, 0) if factors else 1
    return found + (sum(map(length, divisors)) + len(divisors) if divisors else 0)


def _length_of_power(e: Any) -> int:
    if e.exp.is_negative and e.exp.is_Rational:
        return 2 + length(1 / e)
    if e.exp == sp.Rational(1, 2):
        return 1 + length(e.base)
    return 1 + length(e.base) + length(e.exp)


def _is_small(e: Any) -> bool:
    return size(e, MAX_OPS, 4 * MAX_OPS)[0] <= MAX_OPS and e.count_ops() <= MAX_OPS and not e.has(*_OPAQUE)


def _is_polynomial(e: Any) -> bool:
    """True if the expression, over one denominator and expanded, is not much longer."""
    variables: set[Any] = set()
    above, below, degree = multiplied_out(e, variables)
    return max(above, below) <= MAX_TERMS and degree <= MAX_DEGREE.get(len(variables), 4)


def _tried(form: Callable[[Any], Any], e: Any) -> Any:
    try:
        return form(e)
    except (sp.PolynomialError, TypeError, ValueError, NotImplementedError, AttributeError):
        return None


def _cancelled(e: Any) -> Any:
    """Return one fraction with powers in it; None for a product that would become a sum, and lose digits."""
    if e.has(sp.Float):
        return None
    above, below = sp.fraction(sp.cancel(sp.together(e)))
    found = _oriented(_powers(above) / _powers(below))
    return None if isinstance(found, sp.Add) and isinstance(e, sp.Mul) else found


def _powers(e: Any) -> Any:
    """Return a polynomial with its common factors in front, and (x² - 1)² for x⁴ - 2 x² + 1."""
    return sp.Mul(*(sp.sqf(f) for f in sp.Mul.make_args(sp.factor_terms(e))))


def _oriented(e: Any) -> Any:
    """Return 1/(1 - x) for -1/(x - 1)."""
    if not e.as_coeff_Mul()[0].is_negative:
        return e
    for f in sp.Mul.make_args(e):
        base, exponent = f.as_base_exp()
        if isinstance(base, sp.Add) and exponent.is_Integer and exponent % 2 and length(-base) == length(base):
            return -e / f * (-base) ** exponent
    return e


def _factored(e: Any) -> Any:
    return None if e.has(sp.Float) else sp.factor(e)


def _collected(e: Any) -> Any:
    """Return a sum with a factor that all terms share, such as an exponential, in front."""
    if not isinstance(e, sp.Add):
        return None
    shared = set.intersection(*(set(sp.Mul.make_args(term)) for term in e.args))
    factor = sp.Mul(*(f for f in shared if not f.is_number))
    return sp.Mul(factor, sp.Add(*(term / factor for term in e.args))) if factor != 1 else None


_CHEAP: tuple[Callable[[Any], Any], ...] = (_collected, sp.powsimp, sp.factor_terms)
_FORMS = (*_CHEAP, _cancelled, _factored, sp.powsimp)
"""From the cheapest to the most expensive; each is tried on the shortest form so far."""
