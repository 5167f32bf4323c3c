"""Deltas and brackets: Σᵢ δ(i = j) f(i) -> f(j). Solves deltas for bound labels, drops brackets that always hold, collects like terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, Lookup, NotAffine
from symgrad.compiler.algebra.term import Bracket, Coefficient, Expression, Term

Box = dict[Label, tuple[int, int]]


def normal_terms(expression: Expression) -> list[Term]:
    """Return the terms with deltas eliminated and like terms collected, each with bound labels of its own."""
    return like_terms(term for t in expression.terms if (term := eliminate(t)) is not None)


def like_terms(terms: Iterable[Term]) -> list[Term]:
    """Return the terms with like terms collected, each with bound labels of its own."""
    found: dict[Any, Term] = {}
    for term in terms:
        key = like_key(term)
        known = found.get(key)
        found[key] = term if known is None else replace(known, coefficient=known.coefficient + term.coefficient)
    return [t.with_fresh_labels() for t in found.values() if t.coefficient != 0]


def eliminate(term: Term) -> Term | None:
    """Return the term without the deltas and brackets that can be solved, or None if it is zero."""
    pending, kept = list(term.deltas), list[Affine]()
    term = replace(term, deltas=())
    while pending:
        delta = pending.pop()
        low, high = delta.interval()
        if low > 0 or high < 0:
            return None
        if not delta.coefficients:
            continue
        parts = _digits(delta, term.brackets)
        if parts is not None:
            pending += parts
            continue
        solved = _solution(delta, term.bound)
        if solved is None:
            kept.append(delta)
            continue
        label, value = solved
        pending = [d.substitute({label: value}) for d in (*pending, *kept)]
        kept = []
        term = term.substitute({label: value})
        term = replace(term, bound=term.bound - {label}, brackets=(*term.brackets, (value, 0, label.size)))
    return _count(replace(term, deltas=tuple(dict.fromkeys(map(_signed, kept)))))


def _signed(delta: Affine) -> Affine:
    """Return δ(-x = 0) as δ(x = 0), so that equal deltas are equal objects."""
    return delta if delta.coefficients[0][1] > 0 else -delta


def _digits(delta: Affine, brackets: Iterable[Bracket]) -> list[Affine] | None:
    """Return N a + b = 0 with |b| < N as the two deltas a = 0 and b = 0, or None if it is not of this form."""
    radix = max(abs(k) for _, k in delta.coefficients)
    if all(abs(k) == radix for _, k in delta.coefficients):
        if radix == 1:
            return None
        if delta.constant % radix:
            return [Affine((), 1)]  # never zero
        return [Affine(tuple((x, k // radix) for x, k in delta.coefficients), delta.constant // radix)]
    rest = Affine(tuple((x, k) for x, k in delta.coefficients if k % radix))
    box = box_of(brackets)
    for constant in (delta.constant % radix, delta.constant % radix - radix):
        low, high = (rest + constant).interval(box)
        if -radix < low and high < radix:
            whole = tuple((x, k // radix) for x, k in delta.coefficients if k % radix == 0)
            return [rest + constant, Affine(whole, (delta.constant - constant) // radix)]
    return None


def _solution(delta: Affine, bound: frozenset[Label]) -> tuple[Label, Affine] | None:
    """Return a bound label and its value from the delta; preferably one for which all values are in range."""
    found = None
    for label, k in delta.coefficients:
        if label in bound and abs(k) == 1:
            value = (Affine(((label, k),)) - delta) * k
            if label in value.reached:  # inside of a lookup
                continue
            low, high = value.interval()
            if low >= 0 and high < label.size:
                return label, value
            found = found or (label, value)
    return found


def box_of(brackets: Iterable[Bracket]) -> Box:
    """Return the first and last value of each label that a bracket restricts on its own; other brackets are ignored."""
    box: Box = {}
    for e, low, high in brackets:
        if len(e.coefficients) == 1 and abs(e.coefficients[0][1]) == 1:
            ((label, k),) = e.coefficients
            first, last = box.get(label, (0, label.size - 1))
            a, b = (low - e.constant, high - 1 - e.constant) if k == 1 else (e.constant - high + 1, e.constant - low)
            box[label] = max(first, a), min(last, b)
    return box


def _count(term: Term) -> Term | None:
    """Drop brackets that always hold, and replace sums over labels that no factor has by a count; None if a bracket never holds."""
    brackets = _undecided(term.brackets)
    if brackets is None:
        return None
    used = term.used_labels
    coefficient: Coefficient = term.coefficient
    for label in term.bound - used:
        mine = [b for b in brackets if label in b[0].reached]
        coefficient *= _values_of(label, mine)
        brackets = [b for b in brackets if b not in mine]
    return replace(term, coefficient=coefficient, brackets=tuple(brackets), bound=term.bound & used)


def _undecided(brackets: Iterable[Bracket]) -> list[Bracket] | None:
    """Return the brackets that hold for some values of their labels only, each once; None if one never holds."""
    found: list[Bracket] = []
    for e, low, high in dict.fromkeys(brackets):
        least, greatest = e.interval()
        if greatest < low or least >= high:
            return None
        if least < low or greatest >= high:
            found.append((e, low, high))
    return None if any(first > last for first, last in box_of(found).values()) else found


def _values_of(label: Label, brackets: Sequence[Bracket]) -> int:
    """Return how many values of a label the brackets allow, which all mention it; raise NotAffine if they mention another."""
    if any(len(e.coefficients) > 1 or abs(e.coefficients[0][1]) > 1 for e, _, _ in brackets):
        raise NotAffine("a bracket of several labels")
    first, last = box_of(brackets).get(label, (0, label.size - 1))
    return last - first + 1


def like_key(term: Term) -> Any:
    """Return a key that terms share only if they differ in coefficient and names of bound labels alone."""
    names: dict[Label, tuple[int, int]] = {}

    def name(label: Label) -> Any:
        if isinstance(label, Lookup):
            return id(label.value), tuple(map(named, label.at)), label.size
        return names.setdefault(label, (len(names), label.size)) if label in term.bound else label

    def named(e: Affine) -> Any:
        return tuple((name(x), k) for x, k in e.coefficients), e.constant

    def pattern(at: tuple[Affine, ...]) -> Any:
        return tuple((tuple((0 if x in term.bound else x.serial + 1, k) for x, k in i.coefficients), i.constant) for i in at)

    factors = sorted(term.factors, key=lambda f: (id(f[0]), pattern(f[1])))
    parts = tuple((id(v), tuple(map(named, at))) for v, at in factors)
    return parts, tuple(map(named, term.deltas)), tuple((named(b), low, high) for b, low, high in term.brackets)
