"""steps(style="forward"): the rules in the order in which a person applies them, each line substituted back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.pull import Derivative
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.symbolic.boundary import Boundary
from symgrad.compiler.symbolic.label_text import clean, latex_label
from symgrad.compiler.symbolic.notations import scalar
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.program import LoweringRequest
from symgrad.compiler.symbolic.teaching.differentials import Differentials, reading
from symgrad.compiler.symbolic.teaching.limits import MAX_VALUES, NoRule, TooLong
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
        graph = derivation.graph
        if any(x.dtype.kind == "c" for x in (graph.outputs[0], *graph.inputs)):
            raise NoRule("complex functions")
        if len(graph.values) > MAX_VALUES:
            raise TooLong
        made = self.scalar_section if derivation.program.notation == "scalar" else self.differential_section
        self.sections = tuple(made(n, d) for n, d in enumerate(derivation._derivatives))

    def scalar_section(self, n: int, derivative: Derivative) -> Section:
        """Return the steps of a derivative by the rules for functions of one variable."""
        d, names = self.derivation, self.derivation._names[n]
        value, public = as_written(d)
        symbols = dict(zip(public, d.program.inputs, strict=True))
        before = (value if len(names) == 1 else d.sympy(*names[:-1], real=True)).xreplace(symbols)
        wanted = d.sympy(*names, real=True).xreplace(symbols)
        x = d.program.inputs[derivative.wrt[-1]]
        printed = None if d.program.lines else (self.printed[n][0][1], self.printed[n][1][1])
        lesson = Lesson(before, x, wanted, printed, d.program.labels, self.sign)
        self.lessons.append(lesson)
        title, title_latex = head(d.name, names[:-1], self.sign) if len(names) > 1 else self.head_of_value()
        steps = lesson.steps(*head(d.name, names, self.sign), self.explain)
        return Section(f"{title} = {lesson.text.doprint(before)}", tuple(steps), f"{title_latex} &= {lesson.math.doprint(before)}")

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
        lower = head(d.name, names[:-1], "∂") if len(names) > 1 else (d.name, latex_label(d.name))
        left = lower if len(names) == 1 else (f"({lower[0]})", rf"\left({lower[1]}\right)")
        steps = lesson.steps(left, self.explain)
        if steps and result.size == 1 and not derivative.directions and len(wrt.shape) <= 2:
            steps += lesson.collected(graph.outputs[1 + n], steps[-1].text)
        last = self.result_line(n, reading(result, wrt, left[0], names[-1]))
        title, title_latex = lower if len(names) > 1 else self.head_of_value()
        text, latex = lesson.shown(result)
        return Section(f"{title} = {text}", (*steps, last), f"{title_latex} &= {latex}")

    def result_line(self, n: int, rule: str) -> Step:
        """Return the derivative as the derivation prints it."""
        (head, text), (head_latex, latex) = self.printed[n]
        where = "" if not self.derivation.program.lines else self.names_of_parts()
        return Step(head, text, latex, rule, where, name_latex=head_latex)

    def names_of_parts(self) -> str:
        """Return the names that the printed result gives to its parts."""
        program = self.derivation.program
        show = TextPrinter(program.labels, self.derivation.name)
        return "; ".join(f"{show.doprint(line.name)} = {show.line(line)}" for line in program.lines)

    @cached_property
    def printed(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """The derivatives as the derivation prints them: left and right sides as text, and as LaTeX."""
        d = self.derivation
        text, latex = TextPrinter(d.program.labels, d.name), FormulaLatexPrinter(d.program.labels, d.name)
        return list(zip(d.derivative_texts(text), d.derivative_latex(latex), strict=True))

    def head_of_value(self) -> tuple[str, str]:
        """Return `f(x, y)` as text and as LaTeX."""
        d = self.derivation
        labels = d._source.labels[: d._source.arguments]
        latex = rf"{latex_label(d.name)}\left({', '.join(map(latex_label, labels))}\right)"
        return f"{clean(d.name)}({', '.join(map(clean, labels))})", latex

    def replay(self, *args: Any, **kwargs: Any) -> list[list[Any]]:
        """Return the value of every line of every section at arguments, without the printed result. Derivatives that a line leaves open
        are computed numerically; differentials are those for a change of 1 in every element of the variable."""
        arrays = [np.asarray(a, np.float64) for a in self.derivation._source.arrays(args, kwargs)]
        return [_replayed(lesson, self.derivation.program.inputs, arrays) for lesson in self.lessons]


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


def _replayed(lesson: Lesson | Differentials, symbols: Sequence[Any], arrays: list[Any]) -> list[Any]:
    if isinstance(lesson, Lesson):
        points = np.broadcast(*arrays) if len(arrays) > 1 else [(x,) for x in arrays[0].ravel()]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        each = [dict(zip(symbols, map(float, point), strict=True)) for point in points]
        return [np.reshape([value_at(e, point) for point in each], shape) for e in lesson.expressions]
    values = [*arrays[: len(lesson.graph.inputs)], *(_change(lesson, v, arrays) for v in lesson.pending)]
    typed = [np.asarray(a, x.dtype) for a, x in zip(values, lesson.inputs, strict=True)]
    return [evaluate(Graph(lesson.inputs, [line], lesson.labels), typed)[0] for line in lesson.lines]


def _change(lesson: Differentials, v: Value, arrays: list[Any]) -> Any:
    """Return how a value changes for a change of 1 in every element of the variable."""
    graph = Graph(lesson.graph.inputs, [v], lesson.graph.labels)
    given = [np.asarray(a, x.dtype) for a, x in zip(arrays, graph.inputs, strict=False)]
    return evaluate(jvp(graph, (lesson.wrt.attrs["index"],)), [*given, np.ones(lesson.wrt.shape, lesson.wrt.dtype)])[0]
