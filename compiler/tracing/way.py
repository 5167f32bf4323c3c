"""The way that Python took through a function: what it asked for, and the answers that it went on with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from symgrad.compiler.graph.builder import xp
from symgrad.compiler.graph.ir import INPUT, Value, toposort
from symgrad.ops.promotion import BOOL, INT64, kind
from symgrad.ops.weak import Condition


@dataclass
class Way:
    """What Python asked for on its way through a function, and the answers that it went on with."""

    values: list[Value] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    """What was asked, and where: `bool(tensor) at model.py:12`."""
    conditions: list[Condition] = field(default_factory=list)
    """What Python asked of numbers among the arguments."""

    constants: set[Value] = field(default_factory=set)
    """Inputs of which the function made the numbers: there is nothing to ask about them."""

    def answered(self, value: Value, answer: Any, question: str) -> None:
        """Python asks for a value, and goes on with the answer; it is the same at every run if constants alone tell it."""
        if not self.known(value):
            self.values.append(value)
            self.answers.append(answer)
            self.questions.append(question)

    def counted(self, value: Value, steps: Any, question: str) -> None:
        """How often a loop went round that draws random numbers: see `symgrad.compiler.control.counted`."""
        self.values.append(value)
        self.answers.append(steps)
        self.questions.append(question)

    def known(self, value: Value) -> bool:
        """Whether constants alone tell it."""
        return all(v.op != INPUT or v in self.constants for v in toposort((value,)))

    def ask(self, condition: Condition) -> None:
        """Python looks at a number among the arguments."""
        self.conditions.append(condition)

    @property
    def outcomes(self) -> tuple[Any, ...]:
        return tuple(self.answers)


def as_asked(value: Value, asked: Any) -> Value:
    """What a kernel has to compute for an answer of Python's: bool(2) is True, int(2.5) is 2."""
    if asked is bool:
        return value if value.dtype == BOOL else xp.ne(value, 0)
    return xp.cast(value, dtype=INT64) if kind(value.dtype) == "f" else value
