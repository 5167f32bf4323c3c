"""Dimensions that a reshape splits or joins."""

from __future__ import annotations

from collections.abc import Sequence


def groups(given: Sequence[int], wanted: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of dimensions on both sides that hold the same elements."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(given) or j < len(wanted):
        before: list[int] = []
        after: list[int] = []
        left = right = 1
        while not (before or after) or left != right:
            if (left <= right and i < len(given)) or j == len(wanted):
                before.append(i)
                left, i = left * given[i], i + 1
            else:
                after.append(j)
                right, j = right * wanted[j], j + 1
        found.append((before, after))
    return found
