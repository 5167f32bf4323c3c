"""Deltas among the labels of a result: a term is contracted over the labels that are free, then placed into zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, NotAffine
from symgrad.compiler.algebra.emit import Operand, arrange, contract_operands, operand, ranges_of
from symgrad.compiler.algebra.term import Term
from symgrad.compiler.ir.builder import xp

Range = tuple[int, int]


def contract_term(term: Term, out: Sequence[Label], dtype: Any) -> Operand | None:
    """Return one term with labels of the result, in their full sizes, or None if it is zero."""
    solved = _solve(term.deltas, out)
    remaining = None if solved is None else _substituted(term, solved)
    ranges = None if remaining is None else _restricted(remaining)
    if solved is None or remaining is None or ranges is None:
        return None
    term = remaining
    free = [label for label in out if label not in solved]
    found = contract_operands([operand(f, ranges) for f in term.factors], term.coefficient, frozenset(free), free, dtype)
    restricted = [label for label in free if label in ranges]
    return _place(found, solved, {label: ranges[label] for label in restricted}, out) if solved or restricted else found


def _restricted(term: Term) -> dict[Label, Range] | None:
    """Return the ranges of labels that brackets restrict; None if one is empty."""
    ranges = {label: r for label, r in ranges_of(term).items() if r != (0, label.size)}
    return None if any(start >= stop for start, stop in ranges.values()) else ranges


def _substituted(term: Term, solved: Mapping[Label, Affine]) -> Term | None:
    """Return the term with labels replaced by their solutions, which brackets keep in range; None if a bracket never holds."""
    term = replace(term.substitute(solved), deltas=())
    brackets = [*term.brackets, *((e, 0, label.size) for label, e in solved.items())]
    if any(not low <= e.constant < high for e, low, high in brackets if not e.coefficients):
        return None
    return replace(term, brackets=tuple(bracket for bracket in brackets if bracket[0].coefficients))


def _solve(deltas: Sequence[Affine], out: Sequence[Label]) -> dict[Label, Affine] | None:
    """Return labels of the result as functions of the others: constants, or another label plus a constant. None if there is no solution."""
    solved: dict[Label, Affine] = {}
    for delta in deltas:
        delta = delta.substitute(solved)
        if not delta.coefficients:
            if delta.constant:
                return None
            continue
        label, k = max(delta.coefficients, key=lambda part: out.index(part[0]) if part[0] in out and abs(part[1]) == 1 else -1)
        if abs(k) != 1 or label not in out:
            raise NotAffine("a delta that is no diagonal")
        value = (Affine(((label, k),)) - delta) * k
        solved = {x: e.substitute({label: value}) for x, e in solved.items()} | {label: value}
    if not all(map(_is_diagonal, solved.values())):
        raise NotAffine("a delta that is no diagonal")
    return solved


def _is_diagonal(e: Affine) -> bool:
    """True for a constant, and for a label plus a constant."""
    return not e.coefficients or (len(e.coefficients) == 1 and e.coefficients[0][1] == 1)


def _place(found: Operand, solved: Mapping[Label, Affine], ranges: Mapping[Label, Range], out: Sequence[Label]) -> Operand:
    """Return the operand with zeros wherever a delta or a bracket does not hold."""
    sources = {e.labels[0] for e in solved.values() if e.coefficients}
    labels = [label for label in out if label in found.labels or label in ranges or label in sources]
    extents = {label: ranges.get(label, (0, label.size)) for label in labels}
    shape = tuple(stop - start for start, stop in extents.values())
    value = xp.expand(arrange(found, labels), shape=shape)
    for label, e in solved.items():
        if e.coefficients:
            value, labels = _diagonal(value, labels, extents, label, e)
    return _embedded(value, labels, extents, {label: e.constant for label, e in solved.items() if not e.coefficients})


def _embedded(value: Any, labels: list[Label], extents: Mapping[Label, Range], fixed: Mapping[Label, int]) -> Operand:
    """Return the operand with zeros outside of the extents, and at all but one place along fixed labels."""
    if not fixed and all(extents[label] == (0, label.size) for label in labels):
        return Operand(value, tuple(labels))
    index = tuple(((*extents[label], 1)) for label in labels)
    result = [*fixed, *labels]
    placed = xp.embed(value, shape=tuple(label.size for label in result), index=(*fixed.values(), *index))
    return Operand(placed, tuple(result))


def _diagonal(value: Any, labels: list[Label], extents: dict[Label, Range], label: Label, e: Affine) -> tuple[Any, list[Label]]:
    """Return the value with one more label, nonzero where `label` = another one + constant; changes `extents`."""
    (source,), offset = e.labels, e.constant
    diagonal = max(0, -offset), min(source.size, label.size - offset)
    start, stop = extents[source]
    if start < diagonal[0] or stop > diagonal[1]:
        raise NotAffine("several diagonals that do not meet")
    rest = [x for x in labels if x is not source]
    value = arrange(Operand(value, tuple(labels)), [*rest, source])
    lead = tuple(extents[x][1] - extents[x][0] for x in rest)
    if (start, stop) != diagonal:
        length = diagonal[1] - diagonal[0]
        value = xp.embed(value, shape=(*lead, length), index=(*((0, n, 1) for n in lead), (start - diagonal[0], stop - diagonal[0], 1)))
    shape = (*lead, source.size, label.size)
    value = xp.diag_embed(value, shape=shape, offset=offset, axis1=len(lead), axis2=len(lead) + 1)
    extents[source], extents[label] = (0, source.size), (0, label.size)
    return value, [*rest, source, label]
