"""All bounds on the work of SymPy. They are sizes, not seconds, so that a formula is the same on every machine.

    building, replacing, querying, printing  operands of a row have at most `Limits.parts` parts each: longer ones get a name
    diff                                     only of what is linear in a direction, up to MAX_UNNAMED parts; beyond, another notation
    factor                                   up to MAX_OPS operations and, expanded, MAX_TERMS terms of degree MAX_DEGREE
    expanding sums of deltas                 up to MAX_TERMS terms
    simplify, solve, integrate, limit        never

Beyond a bound an expression stays as it is: longer, but equally correct.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf, prod
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import Elementwise


@dataclass(frozen=True)
class Limits:
    """An expression gets a name if it has more symbols than `most`, or more parts than `parts`; if it is used more than once and has more
    symbols than `shared`; or if its repetitions have more parts than `repeated` and it has at least `worth_it` parts itself."""

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
"""A graph with more values than the first is no longer read as one formula; with more than the second, it is read line by line."""
MAX_UNNAMED = 2000
"""Largest number of parts of an expression that cannot get a name, since it will be differentiated or matched."""
MAX_OPS, MAX_TERMS = 60, 64
MAX_DEGREE = {0: 64, 1: 24, 2: 8, 3: 4}
"""By the number of variables: polynomials in several variables take much longer."""


def limits(values: int) -> Limits:
    """Return the limits for a graph with this many values."""
    return _LONG if values > _MANY else _NET if values > _SOME else _TEXTBOOK


def size(expression: Any, most: int, most_parts: int) -> tuple[int, int]:
    """Return the number of symbols, and the number of parts that a reader sees. Counting stops above either limit, and both are then
    reported as exceeded."""
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
        if isinstance(e, sp.Lambda):  # its variables are printed as matrices
            hidden.update(e.variables)
        parts += not (isinstance(e, (sp.Lambda, sp.Tuple, Elementwise)) or e in hidden)
        if not leaf:
            stack.extend(e.args)
    return leaves, parts


def tidy(e: Any) -> Any:
    """Return a short expression over one denominator, factored, if that is shorter; any other unchanged."""
    if size(e, MAX_OPS, 4 * MAX_OPS)[0] > MAX_OPS or e.count_ops() > MAX_OPS:
        return e
    if e.has(sp.Piecewise, sp.Float) or all(p.is_number for p in e.atoms(sp.Pow)):
        return e
    variables: set[Any] = set()
    above, below, degree = multiplied_out(e, variables)
    if max(above, below) > MAX_TERMS or degree > MAX_DEGREE.get(len(variables), 2):
        return e
    shorter = sp.factor(e)
    return shorter if shorter.count_ops() < e.count_ops() else e


def multiplied_out(e: Any, variables: set[Any]) -> tuple[int, int, int]:
    """Return upper bounds on the number of terms of numerator and denominator, as polynomials in all non-arithmetic parts, and on their
    degree; add these parts to `variables`."""
    if isinstance(e, (sp.Add, sp.Mul)):
        parts = [multiplied_out(a, variables) for a in e.args]
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
    above, below, degree = multiplied_out(e.base, variables)
    power = abs(int(e.exp))
    if power > MAX_TERMS:
        return 1, 1, power * degree
    ends = comb(above + power - 1, power), comb(below + power - 1, power)
    return *(ends if e.exp > 0 else reversed(ends)), power * degree


def _exponent(e: Any) -> int:
    """Return the degree of an exponential: exp(9 x) is a ninth power."""
    exponent = e.exp if isinstance(e, (sp.exp, sp.Pow)) else sp.Integer(1)
    scales = [term.as_coeff_Mul()[0] for term in sp.Add.make_args(exponent)]
    return max(abs(int(scale.p)) if scale.is_Rational else 1 for scale in scales)
