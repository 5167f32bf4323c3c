"""steps(style="forward"): the rules in the order in which a person applies them, each line substituted back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.autodiff.pull import Derivative
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.symbolic.boundary import Boundary
from symgrad.compiler.symbolic.label_text import latex_label
from symgrad.compiler.symbolic.notations import scalar
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.program import FormulaProgram, Line, LoweringRequest
from symgrad.compiler.symbolic.teaching.differentials import Differentials, reading
from symgrad.compiler.symbolic.teaching.limits import NoRule
from symgrad.compiler.symbolic.teaching.scalar import Lesson, head, value_at
from symgrad.compiler.symbolic.teaching.step import Section, Step, StepSequence


class ForwardSteps(StepSequence):
    """A section for each derivative: its lines, from the function as it is written to the printed result.

    Raise NoRule, TooLong or FormulaError if there are no such steps.
    """

    def __init__(self, derivation: Any, explain: bool = False) -> None:
        self.derivation, self.explain = derivation, explain
        self.lessons: list[Lesson | Differentials] = []
        """What computes the lines, for each section."""
        self.sign = "d" if len(derivation._source.labels) == 1 else "∂"
        scalars = _scalars(derivation)
        made = self.scalar_section if scalars else self.differential_section
        if derivation.graph.outputs[0].dtype.kind == "c" or any(x.dtype.kind == "c" for x in derivation.graph.inputs):
            raise NoRule("a complex function")
        self.sections = tuple(made(n, d) for n, d in enumerate(derivation._derivatives))

    def scalar_section(self, n: int, derivative: Derivative) -> Section:
        """Return the steps of a derivative by the rules for functions of one variable."""
        d, names = self.derivation, self.derivation._names[n]
        value, public = as_written(d)
        symbols = dict(zip(public, d.program.inputs, strict=True))
        before = (value if len(names) == 1 else d.sympy(*names[:-1], real=True)).xreplace(symbols)
        wanted = d.sympy(*names, real=True).xreplace(symbols)
        x = d.program.inputs[derivative.wrt[-1]]
        lesson = Lesson(before, x, wanted, _printed(d, d._derivative_lines[n]), d.program.labels, self.sign)
        self.lessons.append(lesson)
        title = head(d.name, names[:-1], self.sign)[0] if len(names) > 1 else self.head_of_value()
        steps = lesson.steps(*head(d.name, names, self.sign), self.explain)
        return Section(f"{title} = {lesson.text.doprint(before)}", tuple(steps))

    def differential_section(self, n: int, derivative: Derivative) -> Section:
        """Return the steps of a derivative by differentials, from the value or from the derivative of the order before."""
        d, names = self.derivation, self.derivation._names[n]
        graph = d.program.differentiable or d.graph
        place = 0 if len(names) == 1 else 1 + d._names.index(names[:-1])
        if place and d._derivatives[place - 1].directions:
            raise NoRule("the Hessian of several values")
        result, wrt = graph.outputs[place], graph.inputs[derivative.wrt[-1]]
        known = Graph(graph.inputs[: len(d.program.inputs)], [result], graph.labels[: len(d.program.inputs)])
        lesson = Differentials(known, result, wrt)
        self.lessons.append(lesson)
        of_value = len(names) == 1
        name, name_latex = (d.name, latex_label(d.name)) if of_value else (f"({h[0]})" if i == 0 else rf"\left({h[1]}\right)"
                                                                            for i, h in enumerate([head(d.name, names[:-1], "∂")] * 2))  # fmt: skip
        steps = lesson.steps((name, name_latex), self.explain)
        text, latex = _printed(d, d._derivative_lines[n]) or lesson.shown(graph.outputs[1 + n])
        left, left_latex = head(d.name, names, "∂")
        last = Step(left, text, latex, reading(result, wrt, name, names[-1]), name_latex=left_latex)
        title = self.head_of_value() if of_value else head(d.name, names[:-1], "∂")[0]
        return Section(f"{title} = {lesson.shown(result)[0]}", (*steps, last))

    def head_of_value(self) -> str:
        d = self.derivation
        return f"{d.name}({', '.join(d._source.labels[: d._source.arguments])})"

    def replay(self, *args: Any, **kwargs: Any) -> list[list[Any]]:
        """Return the value of every line of every section at arguments; where a line leaves derivatives open, they are taken numerically.
        Lines of differentials have their value for a change of 1 in every element of the variable."""
        arrays = [np.asarray(a, np.float64) for a in self.derivation._source.arrays(args, kwargs)]
        return [_replayed(lesson, self.derivation.program.inputs, arrays) for lesson in self.lessons]


def _scalars(derivation: Any) -> bool:
    return derivation.program.notation == "scalar"


def as_written(derivation: Any) -> tuple[Any, list[Any]]:
    """Return the value as the function computes it, without rewriting, in public real symbols; and these symbols."""
    boundary = derivation._boundary("standard", True)
    symbols = list(boundary.symbols.values())
    graph = derivation.program.written
    if graph is not None and scalar.fits(job := LoweringRequest(graph, ((),))):
        program = scalar.lower(job)
        inputs = tuple(zip(graph.labels, graph.inputs, strict=True))
        return Boundary(program, inputs, "standard", True).result(program.ends[0], ()), symbols
    return derivation.sympy(real=True), symbols


def _printed(derivation: Any, line: Line) -> tuple[str, str] | None:
    """Return a derivative as the derivation prints it; None if it prints it with names for its parts."""
    program: FormulaProgram = derivation.program
    if program.lines:
        return None
    text, latex = TextPrinter(program.labels, derivation.name), FormulaLatexPrinter(program.labels, derivation.name)
    return text.line(line), latex.line(line)


def _replayed(lesson: Lesson | Differentials, symbols: Sequence[Any], arrays: list[Any]) -> list[Any]:
    if isinstance(lesson, Lesson):
        point = {s: float(a) for s, a in zip(symbols, arrays, strict=False)}
        return [value_at(e, point) for e in lesson.expressions]
    values = [*arrays[: len(lesson.graph.inputs)], *(_change(lesson, v, arrays) for v in lesson.pending)]
    typed = [np.asarray(a, x.dtype) for a, x in zip(values, lesson.inputs, strict=True)]
    return [evaluate(Graph(lesson.inputs, [line], lesson.labels), typed)[0] for line in lesson.lines]


def _change(lesson: Differentials, v: Value, arrays: list[Any]) -> Any:
    """Return how a value changes along a change of 1 in every element of the variable, by central differences."""
    place, step = lesson.wrt.attrs["index"], 1e-5
    graph = Graph(lesson.graph.inputs, [v], lesson.graph.labels)

    def at(shift: float) -> Any:
        moved = [a + shift if n == place else a for n, a in enumerate(arrays[: len(graph.inputs)])]
        return evaluate(graph, [np.asarray(a, x.dtype) for a, x in zip(moved, graph.inputs, strict=True)])[0]

    return (at(step) - at(-step)) / (2 * step)
