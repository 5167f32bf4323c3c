"""The index normal form: a sum of terms, each a coefficient times factors, deltas and brackets, summed over bound labels.

    coefficient · Π factor[affine, ...] · Π δ(affine = 0) · Π [low <= affine < high],  summed over the bound labels
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, TooLarge
from symgrad.compiler.ir.graph import Value

MAX_TERMS = 256
"""Products of sums with more terms than this are not expanded."""
MAX_FACTORS = 96

Coefficient = Fraction | float | complex
Factor = tuple[Value, tuple[Affine, ...]]
Bracket = tuple[Affine, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One product, summed over `bound`."""

    coefficient: Coefficient = Fraction(1)
    factors: tuple[Factor, ...] = ()
    deltas: tuple[Affine, ...] = ()
    brackets: tuple[Bracket, ...] = ()
    bound: frozenset[Label] = frozenset()

    @property
    def used_labels(self) -> frozenset[Label]:
        """The labels of factors and deltas; a bound label that only brackets mention is a count."""
        places = [i for _, at in self.factors for i in at]
        return frozenset(label for e in (*places, *self.deltas) for label in e.reached)

    def substitute(self, given: Mapping[Label, Affine]) -> Term:
        """Return the term with labels replaced; `bound` is unchanged."""
        return replace(
            self,
            factors=tuple((v, tuple(i.substitute(given) for i in at)) for v, at in self.factors),
            deltas=tuple(d.substitute(given) for d in self.deltas),
            brackets=tuple((b.substitute(given), low, high) for b, low, high in self.brackets),
        )

    def with_fresh_labels(self) -> Term:
        """Return the term with bound labels of its own: terms of one expansion share theirs."""
        if not self.bound:
            return self
        given = {label: Label(label.size) for label in sorted(self.bound, key=lambda label: label.serial)}
        renamed = self.substitute({old: Affine.label(new) for old, new in given.items()})
        return replace(renamed, bound=frozenset(given.values()))


class Expression:
    """A sum of terms; the results of element functions."""

    __slots__ = ("terms",)

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = [t for t in terms if t.coefficient != 0]

    @staticmethod
    def of(x: Any) -> Expression:
        return x if isinstance(x, Expression) else Expression([Term(coefficient_of(x))])

    def __add__(self, other: Any) -> Expression:
        return Expression(_bounded(self.terms + Expression.of(other).terms))

    __radd__ = __add__

    def __neg__(self) -> Expression:
        return Expression(replace(t, coefficient=-t.coefficient) for t in self.terms)

    def __sub__(self, other: Any) -> Expression:
        return self + -Expression.of(other)

    def __rsub__(self, other: Any) -> Expression:
        return Expression.of(other) - self

    def __mul__(self, other: Any) -> Expression:
        right = Expression.of(other).terms
        if len(self.terms) * len(right) > MAX_TERMS:
            raise TooLarge("too many terms")
        return Expression(_product(a, b) for a in self.terms for b in right)

    __rmul__ = __mul__


def coefficient_of(x: Any) -> Coefficient:
    """Return a number as a coefficient: exact if it is an integer."""
    if isinstance(x, (bool, int, Fraction)):
        return Fraction(x)
    if isinstance(x, complex):
        return x
    return Fraction(x) if float(x).is_integer() and abs(x) < 2**53 else float(x)


def _product(a: Term, b: Term) -> Term:
    if len(a.factors) + len(b.factors) > MAX_FACTORS:
        raise TooLarge("too many factors")
    factors, deltas, brackets = a.factors + b.factors, a.deltas + b.deltas, a.brackets + b.brackets
    return Term(a.coefficient * b.coefficient, factors, deltas, brackets, a.bound | b.bound)


def _bounded(terms: list[Term]) -> list[Term]:
    if len(terms) > MAX_TERMS:
        raise TooLarge("too many terms")
    return terms
