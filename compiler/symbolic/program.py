"""A symbolic program: lines `name = expression` in order, and an expression (or an array of them) for each output of a graph.

Symbols have internal names. The user's names are in `labels`, which only printers read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.symbolic.evaluate import WIDE, Evaluator
from symgrad.compiler.symbolic.notations.index_evaluate import IndexEvaluator
from symgrad.mode import local
from symgrad.ops.promotion import kind
from symgrad.typing import Array


class Line:
    """A formula, built on first access. `first` is the first line of the same form, which is printed and evaluated instead, with this
    line's names in place of its own."""

    def __init__(self, name: Any, names: tuple[Any, ...], make: Callable[[], Any], first: Line | None = None) -> None:
        self.name = name
        """The symbol that the line defines; None for an output."""
        self.names = names
        self.first = self if first is None else first
        self._make = make

    @cached_property
    def expression(self) -> Any:
        return self._make()

    @cached_property
    def symbol(self) -> Any:
        """The name without its indices."""
        return self.name.base if isinstance(self.name, sp.Indexed) else self.name

    @property
    def used(self) -> list[Any]:
        """The names that occur in the expression."""
        return [self.names[i] for i in self.first._places]

    @cached_property
    def _places(self) -> list[int]:
        whole = self.expression.ravel() if isinstance(self.expression, np.ndarray) else [self.expression]
        parts = {part for e in whole for part in sp.preorder_traversal(e)}
        return [i for i, name in enumerate(self.names) if name in parts]


@dataclass(frozen=True)
class FormulaProgram:
    """A formula: inputs as symbols, named intermediate results in order, and outputs as expressions of both."""

    graph: Graph
    notation: str
    inputs: tuple[Any, ...]
    """For each input of the graph, a Symbol, a MatrixSymbol, or an object array of Symbols."""
    lines: tuple[Line, ...]
    ends: tuple[Line, ...]
    """For each output, an expression, or in elements notation an object array of them."""
    labels: Mapping[Any, str]
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the outputs: a derivative has the dimensions of its directions first, see `symgrad.compiler.autodiff.pull.Derivative`."""
    depth: int = 0
    """Nesting depth of sums, in index notation."""
    side_conditions: int = 0
    """How many of the last outputs are side conditions: where one of them does not hold, derivatives have their value by convention."""
    unsaid: Graph | None = None
    """More such conditions, on the function's inputs, that are not printed: thresholds of kernels."""
    by_convention: Callable[[], FormulaProgram] | None = None
    """The program that computes the values by convention."""
    assumed: tuple[tuple[int | str, tuple[str, ...]], ...] = ()
    """What is assumed: inputs by position, or other values as text, each with its words."""
    differentiable: Graph | None = None
    """The graph without what follows from assumptions about matrices, which holds for values only; None if it is the same."""
    written: Graph | None = None
    """The function as it was traced, without rewriting; None if it is not known."""

    @property
    def bindings(self) -> tuple[tuple[Any, Any], ...]:
        """Names with their expressions, in order."""
        return tuple((line.name, line.expression) for line in self.lines)

    @property
    def outputs(self) -> tuple[Any, ...]:
        return tuple(line.expression for line in self.ends)

    def symbol(self, i: int) -> Any:
        """Return the symbol of input i as a whole tensor."""
        return sp.Symbol(f"x{i}") if self.notation == "elements" else self.inputs[i]

    def evaluate(self, arrays: Sequence[Array], wide: bool = False) -> list[Array]:
        """Evaluate the formula on arrays, one for each input; with `wide`, results stay in the dtype in which they were computed."""
        values: list[Array] = local.mode.run(self._evaluate, arrays, wide)
        count = len(values) - self.side_conditions
        unsaid = _values(self.unsaid, arrays) if self.unsaid is not None else []
        if self.by_convention is None or all(a.all() for a in (*values[count:], *unsaid)):
            return values
        return [*self.by_convention().evaluate(arrays, wide)[:count], *(np.ones_like(a) for a in values[count:])]

    def _evaluate(self, arrays: Sequence[Array], wide: bool) -> list[Array]:
        run = IndexEvaluator(self.depth) if self.notation == "index" else Evaluator()
        for name, array in zip(self.inputs, arrays, strict=True):
            run.give(name, array.astype(WIDE[kind(array.dtype)]) if kind(array.dtype) in WIDE else array)
        for line in self.lines:
            run.give(line.name, run.standing_in(line).value(line.first.expression))
        ends = zip(self.ends, self.shapes, self.graph.outputs, strict=True)
        types = [WIDE.get(kind(v.dtype), v.dtype) if wide else v.dtype for v in self.graph.outputs]
        return [run.standing_in(e).output(e.first.expression, shape, t) for (e, shape, _), t in zip(ends, types, strict=True)]


def _values(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs of a graph for arrays that may have wider dtypes."""
    return evaluate(graph, [np.asarray(a, x.dtype) for a, x in zip(arrays, graph.inputs, strict=True)])


@dataclass(frozen=True)
class LoweringRequest:
    """The input of a lowering: a graph whose first inputs are the function's, followed by directions; and the directions of each output."""

    graph: Graph
    directions: tuple[tuple[Value, ...], ...]
    symmetric: frozenset[int] = frozenset()
    """The outputs that are symmetric matrices."""
    symmetric_inputs: frozenset[Value] = frozenset()
    """The inputs that are assumed to be symmetric matrices."""

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs of the function."""
        return tuple(x for x in self.graph.inputs if x not in self.all_directions)

    @cached_property
    def all_directions(self) -> frozenset[Value]:
        return frozenset(d for some in self.directions for d in some)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs, with the dimensions of their directions."""
        pairs = zip(self.directions, self.graph.outputs, strict=True)
        return tuple((*(n for d in some for n in d.shape), *v.shape) for some, v in pairs)
