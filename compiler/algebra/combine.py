"""A sum of terms as one value: f a + f b -> f (a + b) where that is cheaper."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label
from symgrad.compiler.algebra.cost import flops_of
from symgrad.compiler.algebra.emit import Operand, arrange, number_value
from symgrad.compiler.algebra.place import contract_term
from symgrad.compiler.algebra.term import Factor, Term
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value, toposort


def combine(terms: Sequence[Term], out: Sequence[Label], dtype: Any) -> Value:
    """Return the sum of the terms as a value with the labels of the result in this order, the cheapest of those tried."""
    plain = add_terms(terms, out, dtype)
    merged = _merge(list(terms), out, dtype) if len(terms) > 1 else None
    if merged is None:
        return plain
    factored = add_terms(merged, out, dtype)
    return min(plain, factored, key=lambda v: flops_of(toposort((v,))))


def add_terms(terms: Sequence[Term], out: Sequence[Label], dtype: Any) -> Value:
    """Return the sum of the terms, each contracted on its own; small ones are added first, and negative ones subtracted."""
    total = Operand(number_value(Fraction(0), dtype), ())
    for sign, x in _signed_parts(terms, out, dtype):
        labels = [label for label in out if label in x.labels or label in total.labels]
        operands = arrange(total, labels), arrange(x, labels)
        total = Operand(xp.add(*operands) if sign > 0 else xp.sub(*operands), tuple(labels))
    return xp.expand(arrange(total, out), shape=tuple(label.size for label in out))


def _signed_parts(terms: Sequence[Term], out: Sequence[Label], dtype: Any) -> list[tuple[int, Operand]]:
    """Return the terms that are not zero, contracted, each with the sign by which it is added; the first is positive."""
    signs = [-1 if _is_negative(t) else 1 for t in terms]
    if 1 not in signs:
        signs = [1] * len(terms)
    found = [(sign, contract_term(replace(t, coefficient=t.coefficient * sign), out, dtype)) for sign, t in zip(signs, terms, strict=True)]
    parts = sorted(((sign, x) for sign, x in found if x is not None), key=lambda part: (part[1].value.size, -part[0]))
    first = next((n for n, (sign, _) in enumerate(parts) if sign > 0), 0)
    return [*parts[first : first + 1], *parts[:first], *parts[first + 1 :]]


def _is_negative(t: Term) -> bool:
    return not isinstance(t.coefficient, complex) and t.coefficient < 0


def _merge(terms: Sequence[Term], out: Sequence[Label], dtype: Any) -> list[Term] | None:
    """Return the terms with common factors taken out, the largest first; None if there are none."""
    shared = _SharedFactors(terms, frozenset(out))
    while (pair := shared.largest()) is not None:
        merged = _merged(*pair, out, dtype)
        if merged is None:
            break
        shared.replace(merged)
    return shared.terms if len(shared.terms) < len(terms) else None


class _SharedFactors:
    """Terms by their positions, and the factors that two of them share, the largest first. A merged term stands before all others."""

    def __init__(self, terms: Sequence[Term], free: frozenset[Label]) -> None:
        self._terms: dict[int, Term] = {}
        self._free = free
        self._places: dict[Value, list[tuple[int, int]]] = {}
        """The terms with a factor, and its positions in them."""
        self._queue: list[tuple[int, int, int, int, int]] = []
        """The negative size of a factor, two terms, and the positions of the factor in them."""
        self._pair = (0, 0)
        for n, t in enumerate(terms):
            self._add(n, t)

    @property
    def terms(self) -> list[Term]:
        return [t for _, t in sorted(self._terms.items())]

    def largest(self) -> tuple[Term, Term, int, int] | None:
        """Return two terms and the positions of the largest factor that they share; None if there is none."""
        while self._queue:
            _, i, j, a, b = heapq.heappop(self._queue)
            if i in self._terms and j in self._terms:
                self._pair = i, j
                return self._terms[i], self._terms[j], a, b
        return None

    def replace(self, merged: Term) -> None:
        """Put a term in the place of the two that `largest` returned last."""
        first = min(self._terms) - 1
        for n in self._pair:
            del self._terms[n]
        self._add(first, merged)

    def _add(self, n: int, t: Term) -> None:
        self._terms[n] = t
        if t.deltas or t.brackets:
            return
        for a, f in enumerate(t.factors):
            for m, b in self._places.get(f[0], ()) if f[1] else ():
                if m in self._terms:
                    self._propose(*((m, n, b, a) if m < n else (n, m, a, b)))
        for a, f in enumerate(t.factors):
            self._places.setdefault(f[0], []).append((n, a))

    def _propose(self, i: int, j: int, a: int, b: int) -> None:
        s, t = self._terms[i].factors, self._terms[j].factors
        if len(s) + len(t) > 2 and _renaming(s[a], t[b], self._free) is not None:
            heapq.heappush(self._queue, (-s[a][0].size, i, j, a, b))


def _renaming(f: Factor, g: Factor, free: frozenset[Label]) -> dict[Label, Affine] | None:
    """Return the bound labels of g as those of f, if the two are equal then."""
    renaming: dict[Label, Affine] = {}
    for p, q in zip(f[1], g[1], strict=True):
        x, y = p.only_label, q.only_label
        if x is None or y is None or x in free or y in free:
            if p != q or any(label not in free for label in p.labels):
                return None
        elif renaming.setdefault(y, p) != p:
            return None
    return renaming if len(set(renaming.values())) == len(renaming) else None


def _merged(s: Term, t: Term, a: int, b: int, out: Sequence[Label], dtype: Any) -> Term | None:
    """Return f (s' + t') for two terms f s' and f t': the sum is a value of its own."""
    free = frozenset(out)
    f, g = s.factors[a], t.factors[b]
    renaming = _renaming(f, g, free)
    assert renaming is not None
    outer = free | {label for i in f[1] for label in i.reached}
    left = replace(s, factors=s.factors[:a] + s.factors[a + 1 :], bound=s.bound - outer)
    right = replace(t, factors=t.factors[:b] + t.factors[b + 1 :]).substitute(renaming)
    right = replace(right, bound=t.bound - renaming.keys() - outer)
    labels = [x for x in dict.fromkeys(x for v in (left, right) for _, at in v.factors for i in at for x in i.reached) if x in outer]
    inner = combine([left, right], labels, dtype)
    if inner.op == INPUT:
        return None
    at = tuple(map(Affine.label, labels))
    return Term(Fraction(1), (f, (inner, at)), bound=frozenset((*outer, *labels)) - free)
