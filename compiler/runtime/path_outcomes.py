"""The outcomes of path conditions: values that Python asked for while a function was traced, and that must be the same at every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.compiler.guards.conditions import PathConditions
from symgrad.compiler.loops.while_rng import LoopDraws


class PathOutcomes:
    """The expected outcomes of a program's path conditions. If one differs, Python would take another path."""

    def __init__(self, path: PathConditions, draws: bool = False) -> None:
        self.expected, self.texts, self._draws = path.expected_outcomes, path.texts, draws
        self.failure: str | None = None
        """The condition that failed at the latest run."""

    def hold(self, found: Iterable[Any]) -> bool:
        """True if the values of the conditions, which a kernel has computed, are the expected ones."""
        if not self.expected:
            return True
        outcomes = [(a.item(), expected) for a, expected in zip(found, self.expected, strict=True)]
        for now, expected in outcomes if self._draws else ():
            if isinstance(expected, LoopDraws) and expected.covers(now):
                expected.commit(now)
        for text, (now, expected) in zip(self.texts, outcomes, strict=True):
            if isinstance(expected, LoopDraws):
                if not expected.covers(now):
                    self.failure = f"path: {text} was less than {expected.drawn_steps}"
                    return False
            elif now != expected:
                self.failure = f"path: {text} was {expected}, now {type(expected)(now)}"
                return False
        return True
