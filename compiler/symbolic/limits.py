"""How much SymPy is asked to do at once: all bounds are here. They are sizes, not seconds, so a formula is the same on every machine.

    building, replacing, asking, printing   operands of a row have at most `Limits.parts` parts each: longer ones get a name
    diff                                    only of what is linear in a direction, up to MOST_UNNAMED parts; beyond, another notation
    factor                                  up to MOST_OPS operations, multiplied out MOST_TERMS terms, of MOST_DEGREE
    multiplying out sums of deltas          up to MOST_TERMS terms
    simplify, solve, integrate, limit       never

Beyond a bound the expression stays as it is: longer, and as right.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf, prod
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import Elementwise


@dataclass(frozen=True)
class Limits:
    """An expression gets a name if it mentions more symbols than `most`, or has more parts; if it is used more than once and mentions
    more symbols than `shared`; or if its repetitions have more parts than `repeated`, for which it must have some itself."""

    shared: int
    most: int
    parts: int
    repeated: float
    worth_it: int = 8

    def exceeded(self, size: tuple[int, int], uses: int) -> bool:
        leaves, parts = size
        if leaves > self.most or (uses > 1 and leaves > self.shared):
            return True
        return parts >= self.worth_it and parts * (uses - 1) > self.repeated


_TEXTBOOK, _NET, _LONG = Limits(8, 48, 96, inf), Limits(8, 48, 96, 16), Limits(2, 12, 32, 16)
_SOME, _MANY = 40, 150
"""A graph of so many values is no longer one formula; of so many, it is read line by line."""
MAX_UNNAMED = 2000
"""Parts of an expression that cannot have a name, since it is to be taken apart."""
MAX_OPS, MAX_TERMS = 60, 64
MAX_DEGREE = {0: 64, 1: 24, 2: 8, 3: 4}
"""By the number of variables: polynomials in several take much longer."""


def limits(values: int) -> Limits:
    """Those of a graph of so many values."""
    return _LONG if values > _MANY else _NET if values > _SOME else _TEXTBOOK


def size(expression: Any, most: int, most_parts: int) -> tuple[int, int]:
    """How many symbols, and how many parts that a reader sees. Counting stops at more parts than allowed: these are too many symbols."""
    leaves = parts = seen = 0
    hidden: set[Any] = set()
    stack = [expression]
    while stack:
        e = stack.pop()
        leaf = isinstance(e, (sp.Symbol, sp.MatrixSymbol))
        leaves += leaf
        seen += 1
        if leaves > most or seen > most_parts:
            return most + 1, most_parts + 1
        if isinstance(e, sp.Lambda):  # matrices are printed in place of its variables
            hidden.update(e.variables)
        parts += not (isinstance(e, (sp.Lambda, sp.Tuple, Elementwise)) or e in hidden)
        if not leaf:
            stack.extend(e.args)
    return leaves, parts


def tidy(e: Any) -> Any:
    """A short expression over one denominator, with its factors; others as they are."""
    if size(e, MAX_OPS, 4 * MAX_OPS)[0] > MAX_OPS or e.count_ops() > MAX_OPS:
        return e
    if e.has(sp.Piecewise, sp.Float) or all(p.is_number for p in e.atoms(sp.Pow)):
        return e
    variables: set[Any] = set()
    above, below, degree = _multiplied_out(e, variables)
    if max(above, below) > MAX_TERMS or degree > MAX_DEGREE.get(len(variables), 2):
        return e
    shorter = sp.factor(e)
    return shorter if shorter.count_ops() < e.count_ops() else e


def _multiplied_out(e: Any, variables: set[Any]) -> tuple[int, int, int]:
    """At most how many terms numerator and denominator have, as polynomials of what is no arithmetic, and their degree."""
    if isinstance(e, (sp.Add, sp.Mul)):
        parts = [_multiplied_out(a, variables) for a in e.args]
        below = prod(d for _, d, _ in parts)
        above = (sum if isinstance(e, sp.Add) else prod)(n for n, _, _ in parts)
        return above * (below if isinstance(e, sp.Add) else 1), below, sum(degree for *_, degree in parts)
    if e.is_Rational:
        return 1, 1, 0
    if not isinstance(e, sp.Pow) or not e.exp.is_Rational:
        variables.add(e)
        return 1, 1, _exponent(e)
    if not e.exp.is_Integer:
        variables.add(sp.root(e.base, e.exp.q))
        return 1, 1, abs(int(e.exp.p))
    above, below, degree = _multiplied_out(e.base, variables)
    power = abs(int(e.exp))
    if power > MAX_TERMS:
        return 1, 1, power * degree
    ends = comb(above + power - 1, power), comb(below + power - 1, power)
    return *(ends if e.exp > 0 else reversed(ends)), power * degree


def _exponent(e: Any) -> int:
    """exp(9 x) is a ninth power"""
    exponent = e.exp if isinstance(e, (sp.exp, sp.Pow)) else sp.Integer(1)
    scales = [term.as_coeff_Mul()[0] for term in sp.Add.make_args(exponent)]
    return max(abs(int(scale.p)) if scale.is_Rational else 1 for scale in scales)
