"""The way that Python took through a function: what it asked for, and the answers that it went on with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value, toposort
from symgrad.ops.promotion import BOOL, INT64, kind
from symgrad.ops.symbolic_scalar import ScalarCondition


@dataclass
class PathConditions:
    """What Python asked for on its way through a function, and the answers that it went on with."""

    values: list[Value] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """What was asked, and where: `bool(tensor) at model.py:12`."""
    scalar_conditions: list[ScalarCondition] = field(default_factory=list)
    """What Python asked of numbers among the arguments."""

    constants: set[Value] = field(default_factory=set)
    """Inputs of which the function made the numbers: there is nothing to ask about them."""

    def add(self, value: Value, expected: Any, text: str) -> None:
        """Python asks for a value, and goes on with the answer; it is the same at every run if constants alone tell it."""
        if not self.is_constant(value):
            self.values.append(value)
            self.expected.append(expected)
            self.texts.append(text)

    def add_loop_count(self, value: Value, steps: Any, text: str) -> None:
        """How often a loop went round that draws random numbers: see `symgrad.compiler.loops.while_rng`."""
        self.values.append(value)
        self.expected.append(steps)
        self.texts.append(text)

    def is_constant(self, value: Value) -> bool:
        """Whether constants alone tell it."""
        return all(v.op != INPUT or v in self.constants for v in toposort((value,)))

    def add_scalar_condition(self, condition: ScalarCondition) -> None:
        """Python looks at a number among the arguments."""
        self.scalar_conditions.append(condition)

    @property
    def expected_outcomes(self) -> tuple[Any, ...]:
        return tuple(self.expected)


def as_python_value(value: Value, python_type: Any) -> Value:
    """What a kernel has to compute for an answer of Python's: bool(2) is True, int(2.5) is 2."""
    if python_type is bool:
        return value if value.dtype == BOOL else xp.ne(value, 0)
    return xp.cast(value, dtype=INT64) if kind(value.dtype) == "f" else value
