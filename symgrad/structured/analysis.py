"""The kind of structure that the parts of a matrix have together, and what solving with it costs: found from sizes and places alone.

    diagonal   every part has equal places                   N
    banded     column - row stays within a band              N · width²
    blocks     all parts agree in some digits of row and column number: one block for each value of these digits
    Kronecker  one part, or two, whose factors divide the digits among them
    sparse     few elements                                  a sparse LU
    dense      everything else

Parts of low rank come on top of each of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from symgrad.structured.part import Factor, Labels, Part, Place

_MOST_SPARSE = 0.25
"""Largest share of elements of a matrix that counts as sparse."""


@dataclass(frozen=True, eq=False)
class Digits:
    """Square parts whose row and column numbers have the same digits: one label of each part for each digit of both."""

    sizes: tuple[int, ...]
    """The sizes of the digits, from the most significant one."""
    parts: tuple[Part, ...]
    rows: tuple[Labels, ...]
    columns: tuple[Labels, ...]

    @property
    def linked(self) -> tuple[int, ...]:
        """The digits in which rows and columns agree, in all parts."""
        return tuple(d for d in range(len(self.sizes)) if all(r[d] == c[d] for r, c in zip(self.rows, self.columns, strict=True)))

    @property
    def varying(self) -> tuple[int, ...]:
        """The linked digits that some factor depends on."""
        return tuple(
            d for d in self.linked if any(r[d] in f.labels for p, r in zip(self.parts, self.rows, strict=True) for f in p.factors)
        )

    @property
    def block(self) -> int:
        return prod(n for d, n in enumerate(self.sizes) if d not in self.linked)


@dataclass(frozen=True, eq=False)
class Structure:
    """The kind of a matrix."""

    kind: str
    text: str
    cost: float
    """Operations for one solve, roughly."""
    base: tuple[Part, ...] = ()
    low_rank: tuple[Part, ...] = ()
    digits: Digits | None = None
    band: tuple[int, int] = (0, 0)
    """How many diagonals are below and above the main one."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Digits by the factor of a Kronecker product that they belong to."""


def structure_of(parts: Sequence[Part], rows: int, columns: int) -> Structure:
    """Return the structure of a matrix that is cheapest to solve with."""
    parts = [p for p in parts if not p.is_zero]
    if not parts:
        return Structure("zero", "zero", 0)
    low = tuple(p for p in parts if is_low_rank(p, rows, columns))
    base = tuple(p for p in parts if p not in low)
    whole = base_structure(tuple(parts), rows, columns)
    if not low:
        return _described(whole, rows, columns)
    rank = sum(map(rank_of, low))
    if not base:
        return replace(whole, text=f"rank {rank}", low_rank=low) if whole.kind == "dense" else whole
    inner = base_structure(base, rows, columns)
    cost = inner.cost * (1 + rank) + rank**3 + 4.0 * rows * rank
    if inner.kind == "dense" or cost >= whole.cost:
        return _described(whole, rows, columns)
    return Structure("low rank", f"{inner.text} + rank {rank}", cost, base, low)


def _described(whole: Structure, rows: int, columns: int) -> Structure:
    """Return a matrix that is solved as a full one with the text of its parts, if these take much less memory."""
    if whole.text != "dense" or 2 * sum(p.stored for p in whole.base) > rows * columns:
        return whole
    texts = [f"rank {p.rank}" if is_low_rank(p, rows, columns) else base_structure((p,), rows, columns).text for p in whole.base]
    return whole if "dense" in texts else replace(whole, text=" + ".join(dict.fromkeys(texts)))


def base_structure(parts: tuple[Part, ...], rows: int, columns: int) -> Structure:
    """Return the cheapest structure that holds all parts."""
    found = [_dense(parts, rows, columns), *_sparse(parts, rows, columns), *_banded(parts, rows, columns)]
    if rows == columns:
        digits = digits_of(_joined_diagonals(parts, rows), rows)
        if digits is not None:
            found += [*_blocks(digits, parts, rows), *_kronecker(digits, parts, rows)]
    return min(found, key=lambda s: s.cost)


def is_low_rank(p: Part, rows: int, columns: int) -> bool:
    """True for a part whose row side and column side are linked by few sums, or none."""
    if set(p.rows) & set(p.columns) or p.lookups:
        return False
    sides = set(p.rows), set(p.columns)
    if any(set(f.labels) & sides[0] and set(f.labels) & sides[1] for f in p.factors):
        return False
    return 2 * p.rank <= min(rows, columns)


def rank_of(p: Part) -> int:
    return p.rank


def rank_bound(parts: Sequence[Part], size: int) -> int:
    """Return a rank that the sum of the parts cannot exceed, whatever their numbers are."""
    linked = [p for p in parts if not p.is_zero]
    return min(size, sum(map(rank_of, linked))) if all(is_low_rank(p, size, size) for p in linked) else size


def _dense(parts: tuple[Part, ...], rows: int, columns: int) -> Structure:
    text = " + ".join(dict.fromkeys("diagonal" if p.row == p.column else p.text or "dense" for p in parts))
    text = "dense" if "dense" in text else text
    return Structure("dense", text, 0.67 * rows * columns * min(rows, columns) + 2.0 * rows * columns, parts)


def _sparse(parts: tuple[Part, ...], rows: int, columns: int) -> list[Structure]:
    count = sum(p.count for p in parts)
    if count > _MOST_SPARSE * rows * columns:
        return []
    share = 100 * count / (rows * columns)
    return [Structure("sparse", f"sparse {share:.2g}%", 60.0 * count + 10 * rows, parts)]


def _banded(parts: tuple[Part, ...], rows: int, columns: int) -> list[Structure]:
    bands = [p.bandwidth() for p in parts]
    if any(band is None for band in bands):
        return []
    below = max(0, *(-band[0] for band in bands if band is not None))
    above = max(0, *(band[1] for band in bands if band is not None))
    if below == above == 0:
        return [Structure("diagonal", "diagonal", rows, parts)]
    if below + above + 1 > 0.5 * min(rows, columns) and min(rows, columns) > 3:
        return []
    text = f"banded({below})" if below == above else f"banded({below}, {above})"
    return [Structure("banded", text, rows * (2.0 * below * (below + above + 1) + 2 * (2 * below + above) + 1), parts, band=(below, above))]


# --- digits


def _joined_diagonals(parts: tuple[Part, ...], rows: int) -> tuple[Part, ...]:
    """Return the parts with those that write to the diagonal replaced by one that fills it. Its factor is made by the solver."""
    diagonal = [p for p in parts if p.row == p.column]
    if all(radix(p, p.row, rows) is not None for p in diagonal):
        return parts
    place = Place(0, ((0, 1),))
    filled = Part((rows,), place, place, (Factor(DIAGONAL, (0,)),))
    return (filled, *(p for p in parts if p.row != p.column))


DIAGONAL = "diagonal"
"""Stands for the sum of all parts on the diagonal."""


def radix(p: Part, place: Place, size: int) -> Labels | None:
    """Return the labels of a place as digits from the most significant one, if they name each number below `size` once."""
    if place.lookups or place.constant:
        return None
    steps = sorted(((step, label) for label, step in place.steps if p.sizes[label] > 1), reverse=True)
    reach = 1
    for step, label in reversed(steps):
        if step != reach:
            return None
        reach *= p.sizes[label]
    return tuple(label for _, label in steps) if reach == size else None


def digits_of(parts: Sequence[Part], size: int) -> Digits | None:
    """Return the parts with labels divided into digits that all of them share, or None if they share none."""
    if any(radix(p, place, size) is None for p in parts for place in (p.row, p.column)):
        return None
    chain = _bounds(parts, size)
    if any(b % a for a, b in pairwise(chain)):
        return None
    divided = [_divided(p, chain) for p in parts]
    whole = tuple(p for p in divided if p is not None)
    if len(whole) < len(parts):
        return None
    rows, columns = (tuple(radix(p, getattr(p, name), size) or () for p in whole) for name in ("row", "column"))
    return Digits(tuple(b // a for a, b in pairwise(chain))[::-1], whole, rows, columns)


def _bounds(parts: Sequence[Part], size: int) -> list[int]:
    """Return the steps of all labels, from 1 to `size`."""
    steps = {step for p in parts for place in (p.row, p.column) for label, step in place.steps if p.sizes[label] > 1}
    return sorted(steps | {1, size})


def _divided(p: Part, chain: Sequence[int]) -> Part | None:
    """Return the part with each label divided at the bounds, or None if its row and column steps do not divide alike."""
    rows, columns = dict(p.row.steps), dict(p.column.steps)
    for label, size in enumerate(p.sizes):
        cuts = [{b // step for b in chain if step < b < step * size} for step in (rows.get(label), columns.get(label)) if step]
        if not cuts or not any(cuts):
            continue
        if len(cuts) == 2 and cuts[0] != cuts[1]:
            return None
        return _divided(split(p, label, min(cuts[0] or cuts[1])), chain)
    return p


def split(p: Part, label: int, inner: int) -> Part:
    """Return the part with a label i replaced by inner · j + i, where j is a new label."""
    outer, new = p.sizes[label] // inner, len(p.sizes)
    sizes = (*(inner if n == label else size for n, size in enumerate(p.sizes)), outer)

    def place(old: Place) -> Place:
        steps = tuple(pair for i, step in old.steps for pair in (((new, step * inner), (i, step)) if i == label else ((i, step),)))
        return replace(old, steps=steps)

    def factor(f: Factor) -> Factor:
        if label not in f.labels:
            return f
        at = f.labels.index(label)
        array = f.array
        if not isinstance(array, (str, int)):
            array = array.reshape(*array.shape[:at], outer, inner, *array.shape[at + 1 :])
        return Factor(array, (*f.labels[:at], new, *f.labels[at:]))

    return replace(p, sizes=sizes, row=place(p.row), column=place(p.column), factors=tuple(map(factor, p.factors)))


def _blocks(digits: Digits, parts: tuple[Part, ...], rows: int) -> list[Structure]:
    linked, block = digits.linked, digits.block
    if not linked or block == 1:
        return []
    count, varying = rows // block, prod(digits.sizes[d] for d in digits.varying)
    if varying > 1:
        text = f"blocks({count}, {block}x{block})"
    else:
        last = len(digits.sizes) - 1 not in linked
        text = f"Kronecker(I_{count}, {block}x{block})" if last else f"Kronecker({block}x{block}, I_{count})"
    return [Structure("blocks", text, 0.67 * varying * block**3 + 2.0 * rows * block, parts, digits=digits)]


def _kronecker(digits: Digits, parts: tuple[Part, ...], rows: int) -> list[Structure]:
    groups = groups_of(digits)
    if len(groups) < 2:
        return []
    sizes = [prod(digits.sizes[d] for d in g) for g in groups]
    text = " + ".join(_kronecker_text(digits, n, groups) for n in range(len(digits.parts)))
    if len(parts) == 1:
        return [Structure("Kronecker", text, sum(0.67 * n**3 + 2.0 * rows * n for n in sizes), parts, digits=digits, groups=groups)]
    if len(parts) > 2:  # stored and multiplied as such, but solved as a full matrix
        return [replace(_dense(parts, rows, rows), text=text, cost=0.66 * rows**3)]
    first = prod(sizes[: len(sizes) // 2])
    merged = tuple(d for g in groups[: len(groups) // 2] for d in g), tuple(d for g in groups[len(groups) // 2 :] for d in g)
    sizes = [first, rows // first]
    return [Structure("Kronecker sum", text, sum(30.0 * n**3 + 4.0 * rows * n for n in sizes), parts, digits=digits, groups=merged)]


def _kronecker_text(digits: Digits, n: int, groups: Sequence[Sequence[int]]) -> str:
    """Return `Kronecker(20x20, rank 1)`: the identity, a matrix, or a product of two vectors for each group of digits."""
    p, rows, columns = digits.parts[n], digits.rows[n], digits.columns[n]
    if rows == columns:
        return "diagonal"
    texts = []
    for group in groups:
        size = prod(digits.sizes[d] for d in group)
        mine = {rows[d] for d in group}, {columns[d] for d in group}
        linked = any(set(labels) & mine[0] and set(labels) & mine[1] for labels in _linked_labels(p))
        if mine[0] == mine[1]:
            texts.append(f"I_{size}" if not any(set(f.labels) & mine[0] for f in p.factors) else f"diagonal {size}x{size}")
        else:
            texts.append(f"{size}x{size}" if linked or mine[0] & mine[1] else "rank 1")
    return f"Kronecker({', '.join(texts)})"


def groups_of(digits: Digits) -> tuple[tuple[int, ...], ...]:
    """Return the finest division of the digits such that each part is a product of one factor for each group."""
    groups = [{d} for d in range(len(digits.sizes))]
    for p, rows, columns in zip(digits.parts, digits.rows, digits.columns, strict=True):
        for labels in (*_linked_labels(p), *((label,) for label in range(len(p.sizes)))):
            touched = {d for d in range(len(digits.sizes)) if {rows[d], columns[d]} & set(labels)}
            joined = set().union(touched, *(g for g in groups if g & touched))
            groups = [g for g in groups if not g & touched] + ([joined] if touched else [])
    return tuple(tuple(sorted(g)) for g in sorted(groups, key=min))


def _linked_labels(p: Part) -> list[Labels]:
    """Return the labels of factors, those that share summed labels together."""
    placed = set(p.placed)
    found: list[set[int]] = []
    for f in p.factors:
        labels = set(f.labels)
        for other in [g for g in found if (g & labels) - placed]:
            found.remove(other)
            labels |= other
        found.append(labels)
    return [tuple(g) for g in found]
