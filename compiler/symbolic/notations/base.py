"""The base of all notations: expressions of values, built on demand, and names for long ones.

A value is lowered if it is the first of its form (`symgrad.compiler.symbolic.alpha_equivalence`). Later values of the same form get a line
that refers to the first, and are lowered only on access, so that the work does not grow with the number of equal layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from symgrad.compiler.autodiff.pull import dependents
from symgrad.compiler.ir.graph import INPUT, OUTPUT, Value
from symgrad.compiler.symbolic import limits
from symgrad.compiler.symbolic.alpha_equivalence import Forms
from symgrad.compiler.symbolic.program import FormulaProgram, Line, LoweringRequest
from symgrad.errors import FormulaError


class Lowering:
    """The lowering of one graph to a program. A notation implements `add_input`, `lower`, `name` and `finish`."""

    notation: str

    def __init__(self, job: LoweringRequest) -> None:
        self.job, self.graph = job, job.graph
        self.known: dict[Value, Any] = _OnDemand(self.demand)
        """The expression of a value, or its name."""
        self.labels: dict[Any, str] = {}
        self.symbols: dict[Value, tuple[Any, ...]] = {}
        """The symbols of inputs, and of values that have a name."""
        self.forms = Forms()
        self.uses = job.graph.uses()
        self.limits = limits.limits(len(job.graph))
        self.ends = {v for v in job.graph.outputs if self.uses[v] == 1}
        self.unnamed = dependents(job.graph.values, tuple(job.all_directions)) if job.all_directions else set()
        """Values that depend on a direction get no name: their expressions are differentiated or matched later."""
        self.sizes: dict[int, tuple[int, int]] = {}
        """The size of the expressions of each form: symbols and parts."""
        self.lines: dict[Value, list[Line]] = {}
        self.first: dict[Any, Line] = {}

    def add_input(self, i: int, x: Value, label: str) -> Any:
        """Return the symbol of an input, and enter it in `known` and `symbols`."""
        raise NotImplementedError

    def lower(self, v: Value) -> Any:
        """Return the expression of a value, given those of its arguments."""
        raise NotImplementedError

    def name(self, v: Value, name: str) -> list[Any]:
        """Return symbols for a value, as written on the left of its lines, and enter them in `known` and `symbols`."""
        raise NotImplementedError

    def set_label(self, v: Value, label: str) -> None:
        """Enter the label of a value's symbols."""
        (symbol,) = self.symbols[v]
        self.labels[symbol] = label

    def line_expression(self, v: Value, e: Any) -> Any:
        """Return an expression as it is written in a line."""
        return e

    def shortened(self, e: Any) -> Any:
        """Return a shorter form of the expression of a derivative; the value stays as its function computes it."""
        return e

    def parts(self, whole: Any) -> list[Any]:
        """Return the expressions that have lines of their own."""
        return [whole]

    def finish(self, n: int, v: Value, directions: tuple[Value, ...]) -> Any:
        """Return the expression of output `n`, a derivative in directions."""
        raise NotImplementedError

    def kind(self, v: Value) -> Any:
        """Return what distinguishes names of the same type."""
        return ()

    def program(self, depth: Callable[[], int] = lambda: 0) -> FormulaProgram:
        names = [self.add_input(i, x, label) for i, (x, label) in enumerate(zip(self.graph.inputs, self.graph.labels, strict=True))]
        for x in self.graph.inputs:
            self.forms.alone(x) if x in self.job.all_directions else self.forms.name(x)
        for v in self.graph.values:
            self.forms.of(v)
            if v.op != INPUT and not isinstance(v.dtype, tuple):
                self.lower_or_reuse(v)
        ends = tuple(self.end(n, v, some) for n, (v, some) in enumerate(zip(self.graph.outputs, self.job.directions, strict=True)))
        lines = self.needed(ends)
        inputs = tuple(name for name, x in zip(names, self.graph.inputs, strict=True) if x not in self.job.all_directions)
        return FormulaProgram(self.graph, self.notation, inputs, lines, ends, self.labels, self.job.shapes, depth())

    def lower_or_reuse(self, v: Value) -> None:
        """Lower a value, unless one of its form is lowered already, and name it if its expression is long."""
        form, _ = self.forms.of(v)
        if form not in self.sizes:
            self.sizes[form] = self.measured(v, self.known[v])
        if self.wants(v, self.sizes[form]):
            self.bind(v)

    def measured(self, v: Value, e: Any) -> tuple[int, int]:
        if v not in self.unnamed:
            return max(
                (limits.size(part, self.limits.most, self.limits.parts) for part in self.parts(self.line_expression(v, e))), default=(0, 0)
            )
        most = limits.MAX_UNNAMED
        if any(limits.size(part, most, most)[0] > most for part in self.parts(e)):
            raise FormulaError(f"this derivative is too long for {self.notation} notation: try 'index'")
        return 0, 0

    def wants(self, v: Value, size: tuple[int, int]) -> bool:
        return v not in self.ends and self.limits.exceeded(size, self.uses[v])  # an output has a line of its own

    def bind(self, v: Value) -> None:
        """Give a value a name."""
        form, _ = self.forms.of(v)
        kind = self.kind(v)
        made, names = self.formula(v), self.names(v)
        is_first = (form, 0) not in self.first
        if is_first:
            made()
        symbols = self.name(v, f"t{len(self.lines) + 1}")
        self.forms.name(v, (v.op, kind))
        part: Callable[[int], Any] = lambda n: self.parts(made())[n]
        lines = [Line(s, names, functools.partial(part, n), self.first.get((form, n))) for n, s in enumerate(symbols)]
        self.lines[v] = lines
        if is_first:
            self.first |= {(form, n): line for n, line in enumerate(lines)}

    def end(self, n: int, v: Value, directions: tuple[Value, ...]) -> Line:
        if directions:
            found = self.shortened(self.finish(n, v, directions))
            return Line(None, self.names(v), lambda: found)
        key = (self.forms.of(v)[0], "end")
        made: Callable[[], Any] = lambda: self.line_expression(v, self.known[v])
        line = Line(None, self.names(v), (lambda: self.shortened(made())) if n else made, self.first.get(key))
        self.first.setdefault(key, line)
        return line

    def names(self, v: Value) -> tuple[Any, ...]:
        """Return the symbols in the form of a value."""
        return tuple(symbol for name in self.forms.of(v)[1] for symbol in self.symbols[name])

    def formula(self, v: Value) -> Callable[[], Any]:
        """Return a cached function that builds the expression of a value without its own name."""

        @functools.cache
        def made() -> Any:
            return self.line_expression(v, self.known[v] if v not in self.symbols else self.again(v))

        return made

    def again(self, v: Value) -> Any:
        for a in arguments_of(v):
            self.known[a]  # lowers the argument
        return self.lower(v)

    def demand(self, v: Value) -> Any:
        """Lower a value, its arguments first."""
        stack = [v]
        while stack:
            waiting = [a for a in arguments_of(stack[-1]) if a not in self.known]
            if waiting:
                stack.extend(waiting)
                continue
            top = stack.pop()
            if top not in self.known:
                self.known[top] = self.lower(top)
        return self.known[v]

    def needed(self, ends: Sequence[Line]) -> tuple[Line, ...]:
        """Return the lines that the outputs depend on, labelled in order."""
        wanted = {name for end in ends for name in end.used}
        kept: list[Line] = []
        for lines in reversed(self.lines.values()):
            some = [line for line in lines if line.symbol in wanted]
            wanted.update(name for line in some for name in line.used)
            kept += reversed(some)
        labels = self._fresh()
        for v, lines in self.lines.items():
            if any(line.symbol in wanted for line in lines):
                self.set_label(v, next(labels))
        return tuple(reversed(kept))

    def _fresh(self) -> Iterator[str]:
        taken = set(self.graph.labels)
        return (label for label in (f"t{n}" for n in count(1)) if label not in taken)


class _OnDemand(dict[Value, Any]):
    def __init__(self, make: Callable[[Value], Any]) -> None:
        self._make = make

    def __missing__(self, v: Value) -> Any:
        return self._make(v)


def arguments_of(v: Value) -> tuple[Value, ...]:
    """Return the arguments of the row application behind a value."""
    whole = v.args[0] if v.op == OUTPUT else v
    return tuple(a for a in whole.args if a is not None)
