"""Symbolic sizes: numbers, declared names, and unknowns that unification identifies."""

from __future__ import annotations


class Size:
    """The size of a dimension: a number, a declared name, or an unknown, described by where it first occurs ("rows of X")."""

    __slots__ = ("_same", "described", "value")

    def __init__(self, described: str, value: int | str | None = None) -> None:
        self.described = described
        self.value = value
        self._same: Size | None = None

    def root(self) -> Size:
        """Return the representative of all sizes that are equal to this one."""
        found = self
        while found._same is not None:
            found = found._same
        here = self
        while here._same is not None:  # the next search is short
            here._same, here = found, here._same
        return found

    def unify(self, other: Size) -> bool:
        """Make two sizes equal; False if both are known and differ. Two declared names are different sizes."""
        first, second = self.root(), other.root()
        if first is second:
            return True
        if first.value is None:
            first._same = second
            return True
        if second.value is None:
            second._same = first
            return True
        return first.value == second.value

    def __str__(self) -> str:
        found = self.root()
        return found.described if found.value is None else str(found.value)
