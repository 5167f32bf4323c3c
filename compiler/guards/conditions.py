"""Path conditions: the values that Python branched on in a traced function, with the outcomes that select its path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.compiler.guards.compare import is_unchanged
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value, toposort
from symgrad.escapes import Metadata
from symgrad.ops.promotion import BOOL, INT64, kind
from symgrad.ops.symbolic_scalar import ScalarCondition
from symgrad.tensor import Tensor, added_attributes, is_leaf_tensor, offset_of, strides_of


class ArgumentValues:
    """The arguments of a call as conditions read them: numbers by their graph values, and the leaves themselves."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self.leaves = leaves
        self.known: dict[int, Any] = {}
        """The results for forms of symbolic scalars: conditions share parts."""

    def __call__(self, value: Value) -> Any:
        """Return the number that a call passes for an input."""
        leaf = self.leaves[value.attrs["index"]]
        return (leaf._array if isinstance(leaf, Tensor) else leaf).item()


class MetadataCondition:
    """Metadata of an argument that Python read while the function was traced, and what it was. It has the methods of a ScalarCondition."""

    def __init__(self, value: Value, metadata: Metadata, t: Any) -> None:
        self.value, self.metadata, self.expected = value, metadata, _read(metadata, t)

    def holds(self, arguments: ArgumentValues) -> bool:
        """True if the metadata of the argument is the same."""
        now = self.evaluate(arguments)
        if self.metadata is not Metadata.ATTRIBUTES:
            return bool(now == self.expected)
        return now.keys() == self.expected.keys() and all(is_unchanged(now[name], x) for name, x in self.expected.items())

    def evaluate(self, arguments: ArgumentValues) -> Any:
        """Return the metadata of the argument in another call."""
        return _read(self.metadata, arguments.leaves[self.value.attrs["index"]])

    def text(self, name: Callable[[Value], str]) -> str:
        """Format the condition, with names for inputs: `x, the layout in memory`."""
        return f"{name(self.value)}, {self.metadata.value}"


def _read(metadata: Metadata, leaf: Any) -> Any:
    """Return metadata of an argument: a tensor or an array."""
    tensor = isinstance(leaf, Tensor)
    match metadata:
        case Metadata.LAYOUT:
            return (strides_of(leaf._array), offset_of(leaf)) if tensor else (strides_of(leaf), 0)
        case Metadata.HISTORY:
            return not tensor or is_leaf_tensor(leaf)
        case Metadata.ATTRIBUTES:
            return added_attributes(leaf) if tensor else {}


@dataclass
class PathConditions:
    """The values that Python read on its path through a function, and the outcomes with which that path was taken."""

    values: list[Value] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """A description of each condition: `bool(tensor) at model.py:12`."""
    scalar_conditions: list[ScalarCondition | MetadataCondition] = field(default_factory=list)
    """Conditions on symbolic Python scalars and on metadata of the arguments; these are checked on the host."""

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

    def add_scalar_condition(self, condition: ScalarCondition | MetadataCondition) -> None:
        """Add a condition on symbolic Python scalars, or on metadata of an argument."""
        self.scalar_conditions.append(condition)

    @property
    def expected_outcomes(self) -> tuple[Any, ...]:
        return tuple(self.expected)


def as_python_value(value: Value, python_type: Any) -> Value:
    """The graph value that a kernel computes for Python's conversion of `value`: bool(2) is True, int(2.5) is 2."""
    if python_type is bool:
        return value if value.dtype == BOOL else xp.ne(value, 0)
    return xp.cast(value, dtype=INT64) if kind(value.dtype) == "f" else value
