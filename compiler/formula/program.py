"""A symbolic program: bindings `name = expression` in order, and an expression (or an array of them) for each output of a graph.

Symbols have internal names. What a user calls them stands in `labels`, which only printers read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.formula.evaluate import Evaluator
from symgrad.compiler.formula.index_evaluate import IndexEvaluator
from symgrad.compiler.ir import Graph, Value
from symgrad.mode import local
from symgrad.ops.promotion import kind
from symgrad.typing import Array


@dataclass(frozen=True)
class Limits:
    """An expression that mentions more symbols than this gets a name: if it is used more than once, or in any case; so does a deep one."""

    shared: int
    most: int
    parts: int


_SHORT, _LONG = Limits(8, 48, 96), Limits(2, 12, 32)
_MANY = 150
"""A graph of so many values is read line by line."""

_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
"""A formula is mathematics: it is computed in the widest type, and rounded to the type of the result."""


@dataclass(frozen=True)
class Program:
    """A formula: inputs as symbols, named intermediate results in order, and outputs as expressions of both."""

    graph: Graph
    notation: str
    inputs: tuple[Any, ...]
    """For each input of the graph a Symbol, a MatrixSymbol, or an object array of Symbols."""
    bindings: tuple[tuple[Any, Any], ...]
    outputs: tuple[Any, ...]
    """For each output an expression, or in elements notation an object array of them."""
    labels: Mapping[Any, str]
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the outputs: a derivative has the dimensions of its directions first, see `symgrad.compiler.differentiate.Derivative`."""
    depth: int = 0
    """How deep sums are nested, in index notation."""

    def symbol(self, i: int) -> Any:
        """What an input is called as a whole."""
        return sp.Symbol(f"x{i}") if self.notation == "elements" else self.inputs[i]

    def evaluate(self, arrays: Sequence[Array], wide: bool = False) -> list[Array]:
        """Run the formula on arrays, one for each input; `wide`, results stay in the type that they were computed in."""
        values: list[Array] = local.mode.run(self._evaluate, arrays, wide)
        return values

    def _evaluate(self, arrays: Sequence[Array], wide: bool) -> list[Array]:
        run = IndexEvaluator(self.depth) if self.notation == "index" else Evaluator()
        for name, array in zip(self.inputs, arrays, strict=True):
            run.give(name, array.astype(_WIDE[kind(array.dtype)]) if kind(array.dtype) in _WIDE else array)
        for name, expression in self.bindings:
            run.give(name, run.value(expression))
        ends = zip(self.outputs, self.shapes, self.graph.outputs, strict=True)
        return [run.output(e, shape, _WIDE.get(kind(v.dtype), v.dtype) if wide else v.dtype) for e, shape, v in ends]


@dataclass(frozen=True)
class Job:
    """What is to be lowered: a graph whose first inputs are the function's, followed by directions; and the directions of each output."""

    graph: Graph
    directions: tuple[tuple[Value, ...], ...]
    symmetric: frozenset[int] = frozenset()
    """The outputs that are symmetric matrices."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Those of the function."""
        return tuple(x for x in self.graph.inputs if x not in self.all_directions)

    @property
    def all_directions(self) -> frozenset[Value]:
        return frozenset(d for some in self.directions for d in some)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the outputs, with the dimensions of their directions."""
        pairs = zip(self.directions, self.graph.outputs, strict=True)
        return tuple((*(n for d in some for n in d.shape), *v.shape) for some, v in pairs)


class Binder:
    """Gives names to expressions that are too long to stand in others."""

    def __init__(self, graph: Graph) -> None:
        self.uses = graph.uses()
        self.limits = _LONG if len(graph) > _MANY else _SHORT
        self.ends = {v for v in graph.outputs if self.uses[v] == 1}
        self.bindings: list[tuple[Any, Any]] = []
        self.labels: dict[Any, str] = {}

    def wants(self, value: Any, expressions: Sequence[Any]) -> bool:
        if value in self.ends:  # it has a line of its own
            return False
        leaves = self.limits.shared if self.uses[value] > 1 else self.limits.most
        return any(_longer(e, leaves, self.limits.parts) for e in expressions)

    def bind(self, name: Any, label: str, expression: Any) -> Any:
        self.bindings.append((name, expression))
        self.labels[name] = label
        return name

    @property
    def next_name(self) -> str:
        return f"t{len(self.bindings) + 1}"


def _longer(expression: Any, most_leaves: int, most_parts: int) -> bool:
    """Does it have more symbols or more parts than that? Counting stops there."""
    leaves = parts = 0
    stack = [expression]
    while stack:
        e = stack.pop()
        leaf = isinstance(e, (sp.Symbol, sp.MatrixSymbol))
        leaves += leaf
        parts += 1
        if leaves > most_leaves or parts > most_parts:
            return True
        if not leaf:
            stack.extend(e.args)
    return False
