"""The order of a contraction: which two operands are multiplied next, by the number of operations.

Operands are sets of labels. Up to a few operands the order is optimal (dynamic programming over subsets); above that, operands whose
labels another one has are multiplied into it first, and opt_einsum orders the rest: by dynamic programming, or greedily if many operands
share a label, since dynamic programming takes exponential time then.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

from symgrad.compiler.algebra.affine import Label

_OPTIMAL = 6
"""Largest number of operands whose order is found here; the time grows with 3 to this power."""

Path = list[tuple[int, int]]
"""Pairs of positions; the product of each pair is appended to the operands that remain."""


def order(operands: Sequence[Set[Label]], sizes: Mapping[Label, int], kept: Set[Label]) -> Path:
    """Return the pairs in the order in which they are multiplied; `kept` are the labels of the result."""
    if len(operands) <= 2:
        return [(0, 1)] if len(operands) == 2 else []
    if len(operands) <= _OPTIMAL:
        return _optimal(operands, sizes, kept)
    absorbed = _absorbed(operands)
    if absorbed is not None:
        i, j = absorbed
        rest = [x for n, x in enumerate(operands) if n not in absorbed]
        joined = (operands[i] | operands[j]) & frozenset(kept).union(*rest)  # labels that no other operand has are summed at once
        return [(i, j), *order([*rest, joined], sizes, kept)]
    return _opt_einsum(operands, sizes, kept)


def pair_flops(x: Set[Label], y: Set[Label], summed: bool, sizes: Mapping[Label, int]) -> int:
    """Return the operations of one product: a multiplication and, if labels are summed, an addition for each combination of labels."""
    count = 2 if summed else 1
    for label in x | y:
        count *= sizes[label]
    return count


def _optimal(operands: Sequence[Set[Label]], sizes: Mapping[Label, int], kept: Set[Label]) -> Path:
    everything = (1 << len(operands)) - 1
    labels = _labels_of_subsets(operands, kept)
    best: dict[int, tuple[int, int]] = {1 << i: (0, 0) for i in range(len(operands))}
    for subset in range(1, everything + 1):
        if subset not in best:
            best[subset] = min(_splits(subset, best, labels, sizes), key=lambda found: found[0])
    return _path(everything, {s: split for s, (_, split) in best.items()}, len(operands))


def _labels_of_subsets(operands: Sequence[Set[Label]], kept: Set[Label]) -> list[Set[Label]]:
    """Return the labels of the product of each subset, without those that only its own operands have."""
    count = len(operands)
    unions: list[Set[Label]] = [frozenset()]
    for subset in range(1, 1 << count):
        low = subset & -subset
        unions.append(unions[subset ^ low] | operands[low.bit_length() - 1])
    last = (1 << count) - 1
    return [union & (kept | unions[last ^ subset]) for subset, union in enumerate(unions)]


def _splits(
    subset: int, best: Mapping[int, tuple[int, int]], labels: Sequence[Set[Label]], sizes: Mapping[Label, int]
) -> Iterable[tuple[int, int]]:
    """Yield the cost of each way to make a subset from two parts, and the first part."""
    part = (subset - 1) & subset
    while part > subset ^ part:  # each way once
        other = subset ^ part
        x, y = labels[part], labels[other]
        cost = best[part][0] + best[other][0] + pair_flops(x, y, not (x | y) <= labels[subset], sizes)
        yield cost, part
        part = (part - 1) & subset


def _path(everything: int, splits: Mapping[int, int], count: int) -> Path:
    remaining = [1 << i for i in range(count)]
    path: Path = []

    def build(subset: int) -> None:
        if subset in remaining:
            return
        part, other = splits[subset], subset ^ splits[subset]
        build(part)
        build(other)
        i, j = sorted((remaining.index(part), remaining.index(other)))
        path.append((i, j))
        remaining[:] = [x for x in remaining if x not in (part, other)] + [subset]

    build(everything)
    return path


def _absorbed(operands: Sequence[Set[Label]]) -> tuple[int, int] | None:
    """Return a pair of which one has all labels of the other: path searches are slow with labels that many operands share."""
    for i, x in enumerate(operands):
        for j, y in enumerate(operands):
            if i != j and x <= y:
                return min(i, j), max(i, j)
    return None


def _opt_einsum(operands: Sequence[Set[Label]], sizes: Mapping[Label, int], kept: Set[Label]) -> Path:
    from opt_einsum.paths import DynamicProgramming, greedy

    names = {label: chr(192 + n) for n, label in enumerate(sorted({x for s in operands for x in s}, key=lambda x: x.serial))}
    inputs = [frozenset(names[x] for x in s) for s in operands]
    readers = Counter(itertools.chain.from_iterable(inputs))
    search = greedy if max(readers.values(), default=0) > _OPTIMAL else DynamicProgramming()
    found = search(inputs, frozenset(names[x] for x in kept if x in names), {names[x]: sizes[x] for x in names})
    path: Path = []
    count = len(operands)
    for step in found:
        while len(step) > 2:
            path.append((step[0], step[1]))
            count -= 1
            step = (*(i - (i > step[0]) - (i > step[1]) for i in step[2:]), count - 1)
        if len(step) == 2:
            path.append((min(step), max(step)))
            count -= 1
    return path
