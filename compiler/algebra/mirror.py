"""Products that are the same from both ends: J' diag(s) J, where J is itself a product, which is computed once.

    J' diag(s) J = Σ W₂ᵢₐ W₁ₖᵢ sₖ W₁ₖⱼ W₂ⱼᵦ   ->   Jₖₐ sₖ Jₖᵦ,   Jₖₐ = Σ W₁ₖᵢ W₂ᵢₐ
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from symgrad.compiler.algebra.affine import Affine, Label
from symgrad.compiler.algebra.emit import compute_dtype, contract_operands
from symgrad.compiler.algebra.gather import operand_of
from symgrad.compiler.algebra.term import Factor, Term


def labels_of(factors: Iterable[Factor]) -> frozenset[Label]:
    return frozenset(label for _, at in factors for i in at for label in i.reached)


def connected(factors: Iterable[Factor], kept: frozenset[Label]) -> list[list[Factor]]:
    """Return the factors in groups that share summed labels."""
    found: list[tuple[frozenset[Label], list[Factor]]] = []
    for f in factors:
        labels, members = labels_of([f]) - kept, [f]
        for other in [g for g in found if g[0] & labels]:
            found.remove(other)
            labels, members = labels | other[0], other[1] + members
        found.append((labels, members))
    return [members for _, members in found]


def with_one_side(t: Term, free: frozenset[Label], rows: frozenset[Label], columns: frozenset[Label]) -> Term:
    """Return the term with the factors on both sides of a summed label replaced by one value, if those sides mirror each other."""
    groups = connected(t.factors, free)
    mixed = [fs for fs in groups if labels_of(fs) & rows and labels_of(fs) & columns]
    if not mixed:
        return _with_equal_vectors(t, groups, free, rows, columns)
    if len(mixed) != 1 or len(mixed[0]) < 4:
        return t
    (linking,) = mixed
    for k in sorted(labels_of(linking) - free, key=lambda label: label.serial):
        left, right = _sides(connected(linking, free | {k}), rows, columns)
        if len(left) < 2 or len(left) != len(right):
            continue
        names = _mirrored(left, right, {k: k} | {label: label for label in free - rows - columns})
        if names is not None:
            middle = [f for f in t.factors if not any(f is g for g in (*left, *right))]
            return _replaced(t, left, middle, names, (free & labels_of(left)) | {k})
    return t


def _sides(
    groups: Sequence[Sequence[Factor]], rows: frozenset[Label], columns: frozenset[Label]
) -> tuple[list[Factor], list[Factor]]:
    """Return the factors with labels of rows and those with labels of columns; none if a group has both."""
    labels = [labels_of(fs) for fs in groups]
    if any(x & rows and x & columns for x in labels):
        return [], []
    left, right = ([f for fs, x in zip(groups, labels, strict=True) if x & side for f in fs] for side in (rows, columns))
    return left, right


def _with_equal_vectors(
    t: Term, groups: Sequence[Sequence[Factor]], free: frozenset[Label], rows: frozenset[Label], columns: frozenset[Label]
) -> Term:
    """Return the term of a product g g' with one value for both vectors, if each is a product itself."""
    for left in groups:
        for right in groups:
            if len(left) < 2 or len(left) != len(right) or not labels_of(left) & rows or not labels_of(right) & columns:
                continue
            for a, c in product(labels_of(left) & rows, labels_of(right) & columns):
                names = _mirrored(left, right, {a: c} | {label: label for label in free - rows - columns})
                if names is not None:
                    middle = [f for f in t.factors if not any(f is g for g in (*left, *right))]
                    return _replaced(t, left, middle, names, free & labels_of(left))
    return t


def _mirrored(left: Sequence[Factor], right: Sequence[Factor], names: dict[Label, Label]) -> dict[Label, Label] | None:
    """Return the labels of the left factors as those of the right ones, so that the factors are equal; None if they are not."""
    rest, found = list(right), dict(names)
    pending = list(left)
    while pending:
        pair = next(((f, g) for f in pending for g in rest if _match(f, g, found) is not None), None)
        if pair is None:
            return None
        found.update(_match(*pair, found) or {})
        pending = [f for f in pending if f is not pair[0]]
        rest = [g for g in rest if g is not pair[1]]
    return found if len(set(found.values())) == len(found) else None


def _match(f: Factor, g: Factor, names: dict[Label, Label]) -> dict[Label, Label] | None:
    """Return the labels of f as those of g if both are the same value at plain labels, of which at least one is known already."""
    if f[0] is not g[0] or not any(x in names for i in f[1] for x in i.labels):
        return None
    more: dict[Label, Label] = {}
    for p, q in zip(f[1], g[1], strict=True):
        x, y = p.only_label, q.only_label
        if x is None or y is None:
            if p != q or p.coefficients:
                return None
        elif names.get(x, more.setdefault(x, y)) is not y:
            return None
    return more


def _replaced(t: Term, left: Sequence[Factor], middle: Sequence[Factor], names: dict[Label, Label], kept: frozenset[Label]) -> Term:
    """Return the term with one value for the left factors, and the same for the right ones with their names."""
    wanted = sorted(kept, key=lambda label: label.serial)
    side = contract_operands([operand_of(f) for f in left], 1, kept, wanted, compute_dtype(left[0][0].dtype))
    both = [(side.value, tuple(Affine.label(each(x)) for x in side.labels)) for each in (lambda x: x, lambda x: names[x])]
    factors = (both[0], *middle, both[1])
    return replace(t, factors=factors, bound=t.bound & (labels_of(factors) | kept))
