"""Path conditions: the values that Python branched on in a traced function, with the outcomes that select its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value, toposort
from symgrad.ops.promotion import BOOL, INT64, kind
from symgrad.ops.symbolic_scalar import ScalarCondition


@dataclass
class PathConditions:
    """The values that Python read on its path through a function, and the outcomes with which that path was taken."""

    values: list[Value] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """A description of each condition: `bool(tensor) at model.py:12`."""
    scalar_conditions: list[ScalarCondition] = field(default_factory=list)
    """Conditions on symbolic Python scalars among the arguments; these are checked on the host."""

    constants: set[Value] = field(default_factory=set)
    """Inputs whose values the function created from constants: they need no condition."""

    def add(self, value: Value, expected: Any, text: str) -> None:
        """Add the condition that `value` is `expected`, unless it is computed from constants alone: then it is the same at every run."""
        if not self.is_constant(value):
            self.values.append(value)
            self.expected.append(expected)
            self.texts.append(text)

    def add_loop_count(self, value: Value, steps: Any, text: str) -> None:
        """Add the number of steps of a loop that draws random numbers: see `symgrad.compiler.loops.while_rng`."""
        self.values.append(value)
        self.expected.append(steps)
        self.texts.append(text)

    def is_constant(self, value: Value) -> bool:
        """True if `value` is computed from constants alone."""
        return all(v.op != INPUT or v in self.constants for v in toposort((value,)))

    def add_scalar_condition(self, condition: ScalarCondition) -> None:
        """Add a condition on symbolic Python scalars."""
        self.scalar_conditions.append(condition)

    @property
    def expected_outcomes(self) -> tuple[Any, ...]:
        return tuple(self.expected)


def as_python_value(value: Value, python_type: Any) -> Value:
    """The graph value that a kernel computes for Python's conversion of `value`: bool(2) is True, int(2.5) is 2."""
    if python_type is bool:
        return value if value.dtype == BOOL else xp.ne(value, 0)
    return xp.cast(value, dtype=INT64) if kind(value.dtype) == "f" else value
