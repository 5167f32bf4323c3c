"""The structure of Jacobians and Hessians: terms of `bilinear.py` as parts of a structured matrix, with the arrays that they need.

Terms with the same places are added, and common parts taken out of the sum; what links rows and columns through a small summed index
stays a product of low rank. `symgrad.structured.part` says what a part is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, Lookup, NotAffine
from symgrad.compiler.algebra.bilinear import MatrixTerm
from symgrad.compiler.algebra.combine import combine
from symgrad.compiler.algebra.eliminate import like_key
from symgrad.compiler.algebra.emit import arrange, compute_dtype, contract_operands
from symgrad.compiler.algebra.gather import operand_of
from symgrad.compiler.algebra.mirror import connected, labels_of, with_one_side
from symgrad.compiler.algebra.places import MOST_TERMS, flat_place, fused, in_ranges, place_key
from symgrad.compiler.algebra.term import Coefficient, Factor, Term
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value
from symgrad.structured import part as numeric

_SAVED = 2
"""A product is kept as factors if they have at least this many times fewer numbers than the product."""


@dataclass(frozen=True, eq=False)
class Group:
    """Factors that are multiplied and summed to one array: a sum of such products. `labels` are those of the array."""

    labels: frozenset[Label]
    terms: tuple[Term, ...]
    key: Any


@dataclass(frozen=True, eq=False)
class Piece:
    """One term with flat places: a product of groups."""

    row: Affine
    column: Affine
    order: tuple[Label, ...]
    """The labels of the places."""
    groups: tuple[Group, ...]
    cut: frozenset[Label] = frozenset()
    """Summed labels that link groups: a product of low rank."""
    text: str = ""
    coefficient: Coefficient = Fraction(1)

    @property
    def stored(self) -> int:
        return sum(_size(g.labels) for g in self.groups)


@dataclass
class Structure:
    """Parts whose arrays are numbers of values."""

    parts: list[numeric.Part] = field(default_factory=list)
    arrays: list[Value] = field(default_factory=list)

    def number(self, v: Value) -> int:
        for n, known in enumerate(self.arrays):
            if known is v:
                return n
        self.arrays.append(v)
        return len(self.arrays) - 1


def structure_of(
    terms: Iterable[MatrixTerm], rows: Sequence[int], columns: Sequence[int], dtype: Any, names: Sequence[str] = ()
) -> Structure:
    """Return the parts of the matrix with these terms, whose rows and columns have the shapes of tensors; raise NotAffine if some term has
    no such form. `names` are those of the inputs, for texts."""
    found = Structure()
    for piece in pieces_of(terms, rows, columns, names):
        found.parts.append(_part(piece, found, dtype))
    return found


def pieces_of(terms: Iterable[MatrixTerm], rows: Sequence[int], columns: Sequence[int], names: Sequence[str] = ()) -> list[Piece]:
    """Return the terms with flat places, those with equal places added."""
    by_place: dict[Any, list[Piece]] = {}
    first: dict[Any, tuple[Label, ...]] = {}
    for t in (plain for given in terms for plain in in_ranges(fused(given))):
        row, column, term = flat_place(t.rows, rows), flat_place(t.columns, columns), t.product
        order, key = place_key(row, column)
        if key in first:
            renamed = {a: Affine.label(b) for a, b in zip(order, first[key], strict=True)}
            row, column, term, order = row.substitute(renamed), column.substitute(renamed), term.substitute(renamed), first[key]
        first.setdefault(key, order)
        by_place.setdefault(key, []).append(_piece(term, row, column, order, names))
    return [piece for pieces in by_place.values() for piece in _added(pieces)]


# --- groups of factors


def _piece(t: Term, row: Affine, column: Affine, order: tuple[Label, ...], names: Sequence[str]) -> Piece:
    free = frozenset(order)
    rows, columns = frozenset(row.reached), frozenset(column.reached)
    cut, text = _cut(t.factors, free, rows - columns, columns - rows, names)
    t = with_one_side(t, free, rows - columns, columns - rows)
    return Piece(row, column, order, _groups(t, free | cut, cut), cut, text, t.coefficient)


def _groups(t: Term, kept: frozenset[Label], cut: frozenset[Label]) -> tuple[Group, ...]:
    """Return the groups of factors that share summed labels; labels in `kept` are not summed."""
    plain = replace(t, coefficient=Fraction(1))
    found = [_group(plain, fs, kept) for fs in connected(t.factors, kept)]
    numbers = [f for g in found if not g.labels for f in g.terms[0].factors]
    return tuple(_nested([*(g for g in found if g.labels), *([_group(plain, numbers, kept)] if numbers else [])], cut))


def _group(t: Term, factors: Sequence[Factor], kept: frozenset[Label]) -> Group:
    labels = labels_of(factors)
    term = replace(t, factors=tuple(factors), bound=labels - kept)
    return Group(labels & kept, (term,), like_key(term))


def _size(labels: Iterable[Label]) -> int:
    return prod(label.size for label in labels)


def _nested(groups: list[Group], cut: frozenset[Label]) -> list[Group]:
    """Multiply groups into others that have all their labels: the product has no more numbers."""
    result = list(groups)
    for g in sorted(groups, key=lambda g: len(g.labels)):
        if (g.labels and g.labels <= cut) or not any(h is g for h in result):
            continue
        hosts = [h for h in result if h is not g and g.labels <= h.labels]
        if not hosts:
            continue
        host = min(hosts, key=lambda h: _size(h.labels))
        (s,), (t,) = g.terms, host.terms
        term = replace(t, factors=t.factors + s.factors, bound=t.bound | s.bound)
        result = [h for h in result if h is not g and h is not host]
        result.append(Group(host.labels, (term,), like_key(term)))
    return result


def _cut(
    factors: Sequence[Factor], free: frozenset[Label], rows: frozenset[Label], columns: frozenset[Label], names: Sequence[str]
) -> tuple[frozenset[Label], str]:
    """Return the summed labels that are kept, so that rows and columns are linked by a product of low rank, and the product as text."""
    mixed = [fs for fs in connected(factors, free) if labels_of(fs) & rows and labels_of(fs) & columns]
    if len(mixed) != 1:
        return frozenset(), ""
    (linking,) = mixed
    summed = sorted(labels_of(linking) - free, key=lambda label: (label.size, label.serial))
    for count in (1, 2):
        for chosen in combinations(summed, count):
            cut = frozenset(chosen)
            parts = connected(linking, free | cut)
            if any(labels_of(fs) & rows and labels_of(fs) & columns for fs in parts):
                continue
            text = _text(parts, rows, columns, cut, names)
            sides = [_size(labels_of(linking) & side) for side in (rows, columns)]
            return (cut if _SAVED * _size(cut) <= min(sides) else frozenset()), text
    return frozenset(), ""


def _text(
    parts: Sequence[Sequence[Factor]], rows: frozenset[Label], columns: frozenset[Label], cut: frozenset[Label], names: Sequence[str]
) -> str:
    """Return X' diag(s) X for a product of two factors and a vector between them, or an empty text."""
    sides = [[fs for fs in parts if labels_of(fs) & side] for side in (rows, columns)]
    middle = [fs for fs in parts if not labels_of(fs) & (rows | columns)]
    if any(len(side) != 1 or len(side[0]) != 1 for side in sides) or len(cut) != 1:
        return ""
    ((left, at),), ((right, places),) = sides[0][0], sides[1][0]
    if left.ndim != 2 or right.ndim != 2 or any(i.only_label is None for i in (*at, *places)):
        return ""
    (k,) = cut
    texts = [_matrix_name(left, names) + ("'" if at[0].only_label is k else "")]
    if any(fs for fs in middle):
        texts.append("diag(s)")
    texts.append(_matrix_name(right, names) + ("'" if places[1].only_label is k else ""))
    return " ".join(texts)


def _matrix_name(v: Value, names: Sequence[str]) -> str:
    return names[v.attrs["index"]] if v.op == INPUT and v.attrs["index"] < len(names) else "A"


# --- sums of pieces with equal places


def _added(pieces: list[Piece]) -> list[Piece]:
    """Return pieces with equal places, added where that takes fewer numbers."""
    pieces = _common_factors(pieces)
    if len(pieces) == 1:
        return pieces
    full = _size(pieces[0].order)
    if _SAVED * sum(p.stored for p in pieces) <= full and not any(_is_full(p) for p in pieces):
        return pieces
    terms = tuple(t for p in pieces for t in _products(p.groups, frozenset(p.order), p.coefficient))
    labels = frozenset(pieces[0].order)
    return [replace(pieces[0], groups=(Group(labels, terms, object()),), cut=frozenset(), text="", coefficient=Fraction(1))]


def _is_full(p: Piece) -> bool:
    return any(g.labels >= frozenset(p.order) for g in p.groups)


def _products(groups: Sequence[Group], placed: frozenset[Label], scale: Coefficient) -> list[Term]:
    """Return a product of groups as a sum of terms."""
    if prod(len(g.terms) for g in groups) > MOST_TERMS:
        raise NotAffine("too many terms")
    found = []
    for terms in product(*(g.terms for g in groups)):
        factors = tuple(f for t in terms for f in t.factors)
        coefficient = prod((t.coefficient for t in terms), start=scale)
        found.append(Term(coefficient, factors, bound=labels_of(factors) - placed))
    return found


def _common_factors(pieces: list[Piece]) -> list[Piece]:
    """Add pieces that differ in one group: A ⊗ B + A ⊗ C -> A ⊗ (B + C)."""
    done = False
    while not done:
        done = True
        for p, q in combinations(pieces, 2):
            added = _with_common_factors(p, q)
            if added is not None:
                pieces = [added, *(x for x in pieces if x is not p and x is not q)]
                done = False
                break
    return pieces


def _with_common_factors(p: Piece, q: Piece) -> Piece | None:
    """Return the sum of two pieces as a product of their common groups and one array for all others, or None if that takes more
    numbers."""
    if p.cut or q.cut:
        return _with_equal_sides(p, q)
    if any(len({g.labels for g in x.groups}) < len(x.groups) for x in (p, q)):  # a key may occur twice
        return None
    known = {(g.labels, g.key) for g in p.groups} & {(g.labels, g.key) for g in q.groups}
    common = [g for g in p.groups if (g.labels, g.key) in known]
    rests = [[g for g in x.groups if (g.labels, g.key) not in known] for x in (p, q)]
    if not rests[0] and not rests[1]:
        return replace(p, coefficient=p.coefficient + q.coefficient)
    added = _joined_rests(p, q, rests)
    return None if added is None else replace(p, groups=(*common, added), text="", coefficient=Fraction(1))


def _joined_rests(p: Piece, q: Piece, rests: Sequence[Sequence[Group]]) -> Group | None:
    """Return the sum of the groups that two pieces do not share as one group, or None if that takes more numbers."""
    labels = [frozenset(label for g in rest for label in g.labels) for rest in rests]
    if labels[0] != labels[1] or _size(labels[0]) > sum(_size(g.labels) for rest in rests for g in rest):
        return None
    terms = tuple(t for x, rest in zip((p, q), rests, strict=True) for t in _products(rest, frozenset(x.order), x.coefficient))
    key = tuple(sorted(hash((x.coefficient, *(g.key for g in rest))) for x, rest in zip((p, q), rests, strict=True)))
    return Group(labels[0], terms, key)


def _with_equal_sides(p: Piece, q: Piece) -> Piece | None:
    """Return U diag(s) V' + U diag(t) V' as U diag(s + t) V', or None if the sides differ."""
    if len(p.cut) != 1 or len(q.cut) != 1:
        return None
    ((k,), (other,)) = p.cut, q.cut
    if k.size != other.size:
        return None
    renamed = [_renamed(g, {other: Affine.label(k)}) for g in q.groups]
    sides = [{(g.labels, g.key) for g in groups if not g.labels <= p.cut} for groups in (p.groups, renamed)]
    if sides[0] != sides[1]:
        return None
    terms: list[Term] = []
    for groups, x in ((p.groups, p), (renamed, q)):
        terms += _products([g for g in groups if g.labels <= p.cut], p.cut, x.coefficient)
    middle = Group(p.cut, tuple(terms), tuple(hash((t.coefficient, like_key(t))) for t in terms))
    return replace(p, groups=(*(g for g in p.groups if not g.labels <= p.cut), middle), coefficient=Fraction(1))


def _renamed(g: Group, given: dict[Label, Affine]) -> Group:
    terms = tuple(t.substitute(given) for t in g.terms)
    labels = frozenset(label for x in g.labels for label in (given[x].labels if x in given else (x,)))
    return Group(labels, terms, like_key(terms[0]) if len(terms) == 1 else g.key)


# --- arrays


def _part(p: Piece, found: Structure, dtype: Any) -> numeric.Part:
    labels = list(dict.fromkeys((*p.order, *sorted(p.cut, key=lambda x: x.serial))))
    numbers = {label: n for n, label in enumerate(labels)}
    lookups: list[numeric.Lookup] = []
    row, column = (_place(i, numbers, found, lookups) for i in (p.row, p.column))
    factors = []
    for g in p.groups:
        value, known = array_of(g, labels, dtype)
        factors.append(numeric.Factor(found.number(value), tuple(numbers[x] for x in known)))
    rank = tuple(numbers[x] for x in labels if x in p.cut)
    sizes = tuple(x.size for x in labels)
    return numeric.Part(sizes, row, column, tuple(factors), tuple(lookups), real(p.coefficient), p.text, rank)


def real(coefficient: Coefficient) -> float:
    """Return the coefficient of a real derivative as a float."""
    if isinstance(coefficient, complex):
        raise NotAffine("a complex coefficient")
    return float(coefficient)


def array_of(g: Group, order: Sequence[Label], dtype: Any) -> tuple[Value, list[Label]]:
    """Return the array of a group, with labels in this order."""
    labels = [x for x in order if x in g.labels]
    if len(g.terms) > 1:
        terms = [_plain(t) for t in g.terms]
        return xp.cast(combine(terms, labels, compute_dtype(dtype)), dtype=dtype), labels
    (t,) = g.terms
    x = contract_operands([operand_of(f) for f in t.factors], t.coefficient, g.labels, labels, compute_dtype(dtype))
    known = [label for label in labels if label in x.labels]
    return xp.cast(arrange(x, known), dtype=dtype), known


def _plain(t: Term) -> Term:
    """Return a term whose factors have plain labels."""
    operands = [operand_of(f) for f in t.factors]
    return replace(t, factors=tuple((x.value, tuple(map(Affine.label, x.labels))) for x in operands))


def _place(place: Affine, numbers: dict[Label, int], found: Structure, lookups: list[numeric.Lookup]) -> numeric.Place:
    steps, indices = [], []
    for label, k in place.coefficients:
        if not isinstance(label, Lookup):
            steps.append((numbers[label], k))
            continue
        x = operand_of((label.value, label.at))
        entry = numeric.Lookup(found.number(x.value), tuple(numbers[i] for i in x.labels), label.size)
        if entry not in lookups:
            lookups.append(entry)
        indices.append((lookups.index(entry), k))
    return numeric.Place(place.constant, tuple(steps), tuple(indices))
