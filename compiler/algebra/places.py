"""Places of terms in a matrix: over full ranges of labels, without brackets, as numbers of rows and columns of the flattened matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, Lookup, NotAffine
from symgrad.compiler.algebra.bilinear import MatrixTerm

_UNROLLED = 8
"""Largest size of a label that is replaced by its values, where a bracket depends on several labels."""
MOST_TERMS = 400


def fused(t: MatrixTerm) -> MatrixTerm:
    """Return the term with labels that occur as N i + j only, where j has the size N, replaced by one label."""
    indices = [*t.rows, *t.columns, *(i for _, at in t.product.factors for i in at), *(e for e, _, _ in t.product.brackets)]
    if any(isinstance(x, Lookup) for i in indices for x in i.labels):
        return t
    for i in indices:
        for a, m in i.coefficients:
            for b, n in i.coefficients:
                if a is not b and m == n * b.size and all(_together(e, a, b) for e in indices):
                    return fused(_with_one_label(t, a, b))
    return t


def _together(e: Affine, a: Label, b: Label) -> bool:
    """True if an index depends on b.size * a + b alone, or on neither."""
    steps = dict(e.coefficients)
    return steps.get(a, 0) == steps.get(b, 0) * b.size


def _with_one_label(t: MatrixTerm, a: Label, b: Label) -> MatrixTerm:
    new = Label(a.size * b.size)
    found = _with(t, {a: Affine(), b: Affine.label(new)})
    return replace(found, product=replace(found.product, bound=(found.product.bound - {a}) | {new}))


def in_ranges(t: MatrixTerm) -> list[MatrixTerm]:
    """Return the term without brackets: labels run over the ranges that the brackets leave, or take one value each."""
    several = next((e for e, _, _ in t.product.brackets if len(e.coefficients) > 1), None)
    if several is not None:
        labels = [label for label in several.reached if label.size <= _UNROLLED]
        if not labels or any(isinstance(label, Lookup) for label in several.labels):
            raise NotAffine("a bracket of several labels")
        least = min(labels, key=lambda label: label.size)
        found = [plain for n in range(least.size) for plain in in_ranges(_with(t, {least: Affine((), n)}))]
        if len(found) > MOST_TERMS:
            raise NotAffine("too many terms")
        return found
    ranges: dict[Label, tuple[int, int]] = {}
    for e, low, high in t.product.brackets:
        if not e.coefficients:
            if not low <= e.constant < high:
                return []
            continue
        ((label, k),) = e.coefficients
        if isinstance(label, Lookup):
            raise NotAffine("a bracket of a lookup")
        ends = sorted(((low - e.constant) / k, (high - 1 - e.constant) / k))  # small integers: exact
        start, stop = ceil(ends[0]), floor(ends[1]) + 1
        a, b = ranges.get(label, (0, label.size))
        ranges[label] = max(a, start), min(b, stop)
    if any(start >= stop for start, stop in ranges.values()):
        return []
    given = {label: _index(start, stop) for label, (start, stop) in ranges.items() if (start, stop) != (0, label.size)}
    t = replace(t, product=replace(t.product, brackets=()))
    return [_with(t, given)]


def _index(start: int, stop: int) -> Affine:
    return Affine((), start) if stop - start == 1 else Affine.label(Label(stop - start)) + start


def _with(t: MatrixTerm, given: dict[Label, Affine]) -> MatrixTerm:
    """Return the term with labels replaced."""
    bound = (t.product.bound - given.keys()) | {label for i in given.values() for label in i.labels}
    rows, columns = (tuple(i.substitute(given) for i in place) for place in (t.rows, t.columns))
    return MatrixTerm(rows, columns, replace(t.product.substitute(given), bound=bound))


def flat_place(place: Sequence[Affine], shape: Sequence[int]) -> Affine:
    total = Affine()
    for i, n in zip(place, shape, strict=True):
        total = total * n + i
    return total


def place_key(row: Affine, column: Affine) -> tuple[tuple[Label, ...], Any]:
    """Return the labels of two places in an order, and a key that places share which differ in the names of labels alone."""
    steps: dict[Label, tuple[int, int]] = {}
    for n, place in enumerate((row, column)):
        for label, k in place.coefficients:
            old = steps.get(label, (0, 0))
            steps[label] = (k, old[1]) if n == 0 else (old[0], k)
    direct = sorted((x for x in steps if not isinstance(x, Lookup)), key=lambda x: (*steps[x], x.size, -x.serial), reverse=True)
    order = dict.fromkeys(direct)
    looked_up = sorted((x for x in steps if isinstance(x, Lookup)), key=lambda x: (*steps[x], x.serial), reverse=True)
    for x in looked_up:
        order.update(dict.fromkeys(label for i in x.at for label in i.reached))
    numbers = {label: n for n, label in enumerate(order)}
    named = lambda i: (tuple(sorted((_name(x, numbers), k) for x, k in i.coefficients)), i.constant)
    known = tuple((id(x.value), x.size, tuple(map(named, x.at)), steps[x]) for x in looked_up)
    return tuple(order), (row.constant, column.constant, tuple((*steps[x], x.size) for x in direct), tuple(x.size for x in order), known)


def _name(label: Label, numbers: dict[Label, int]) -> int:
    if label not in numbers:
        raise NotAffine("a lookup inside of a lookup")
    return numbers[label]
