"""How long our formulas are beside those of the textbooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.notation.grammar import tokens
from tests.support.textbook.entry import Entry
from tests.support.textbook.measure import measure

ALLOWED = 1.1
"""A formula is textbook-equal if it has at most this many times the operators and symbols of the textbook's form."""


@dataclass(frozen=True)
class Length:
    """The lengths of one formula and of the textbook's form."""

    entry: Entry
    ours: int
    textbook: int

    @property
    def ratio(self) -> float:
        return self.ours / self.textbook

    @property
    def equal(self) -> bool:
        return self.ratio <= ALLOWED


def length(entry: Entry) -> Length:
    """Count both formulas, with the definitions of the names that they use."""
    names = tuple(entry.arrays)
    inner = {left.partition("[")[0]: (at, text) for at, (left, text) in entry.printed.bindings}
    known = (*names, *inner)
    ours = measure(entry.formula, known) + sum(measure(inner[name][1], known) for name in _used(entry.formula, inner, known))
    return Length(entry, ours, sum(measure(text.partition(" = ")[2], names) for text in entry.where) + measure(entry.textbook, names))


def _used(text: str, inner: dict[str, tuple[list[str], str]], names: tuple[str, ...]) -> list[str]:
    """Return the defined names that a formula needs, directly or by other names."""
    found: list[str] = []
    waiting = [text]
    while waiting:
        for name in names_in(waiting.pop(), names):
            if name in inner and name not in found:
                found.append(name)
                waiting.append(inner[name][1])
    return found


def names_in(text: str, names: tuple[str, ...]) -> set[str]:
    """Return the names in a formula."""
    return {token.text for token in tokens(text, names) if token.kind == "name"}


def equal(lengths: Iterable[Length]) -> int:
    """Return how many formulas are textbook-equal."""
    return sum(each.equal for each in lengths)
