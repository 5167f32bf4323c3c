"""Forward steps of scalar functions: one line for every rule, until the printed derivative stands there.

A line is the derivative with operators d/dx[...] on the parts that are not differentiated yet. What a person does in the head (powers,
functions of x itself, sums of these) is done in all of them at once; any other rule is applied to one of them, whose parts get the names u
and v.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.label_text import clean, latex_label
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter, TextPrinter
from symgrad.compiler.symbolic.teaching.limits import MAX_CHARACTERS, MAX_STEPS, NoRule, TooLong
from symgrad.compiler.symbolic.teaching.reasons import reason_of
from symgrad.compiler.symbolic.teaching.rules import Application, Calculus, name_of_simplification, pending
from symgrad.compiler.symbolic.teaching.step import Step

_LETTERS = (("u", "v"), ("p", "q"), ("r", "s"), ("g", "h"))


class StepText(TextPrinter):
    """Text with operators: `d/dx[sin(x)]`, ∂/∂x if there are several inputs."""

    sign = "d"

    def _print_Derivative(self, e: Any) -> str:
        return f"{self.sign}/{self.sign}{self._print(e.variables[0])}[{self._print(e.expr)}]"


class StepLatex(FormulaLatexPrinter):
    sign = "d"

    def _print_Derivative(self, e: Any) -> str:
        sign = {"d": "d", "∂": r"\partial"}[self.sign]
        return rf"\frac{{{sign}}}{{{sign} {self._print(e.variables[0])}}}\left[{self._print(e.expr)}\right]"


class Lesson:
    """The lines of one derivative: in x, of `start`, up to `result`, which is printed as `printed` (text and LaTeX)."""

    def __init__(self, start: Any, x: Any, result: Any, printed: tuple[str, str] | None, labels: Mapping[Any, str], sign: str) -> None:
        self.x, self.result, self.printed = x, result, printed
        self.text, self.math = StepText(labels), StepLatex(labels)
        self.text.sign = self.math.sign = sign
        taken = set(labels.values())
        pair = next((p for p in _LETTERS if taken.isdisjoint(p)), ("u′", "v′"))
        self.letters = tuple(sp.Symbol(name, real=True) for name in pair)
        at_kink = next((h.args[1] for h in result.atoms(sp.Heaviside)), sp.Integer(0))
        self.calculus = Calculus(x, (self.letters[0], self.letters[1]), self.text.doprint, at_kink)
        self.expressions: list[Any] = []
        """What each line says, with unevaluated derivatives."""
        self.start = start

    def steps(self, name: str, name_latex: str, explain: bool) -> list[Step]:
        """Return the lines. Raise TooLong or NoRule where there are none."""
        current = pending(self.start, self.x)
        found: list[Step] = []
        while current.has(sp.Derivative):
            applied = self.next(current)
            found.append(self.step(applied, "" if found else name, "" if found else name_latex, explain))
            current = applied.result
            if len(found) > MAX_STEPS or len(found[-1].text) > MAX_CHARACTERS:
                raise TooLong
        return self.finished(found, current, name, name_latex)

    def finished(self, found: list[Step], current: Any, name: str, name_latex: str) -> list[Step]:
        """Return the lines with the printed result at the end."""
        text, latex = self.printed or (self.text.doprint(self.result), self.math.doprint(self.result))
        if found and found[-1].text == text:
            return found
        first = not found
        rule = "the derivative of a constant is 0" if first and current == 0 else name_of_simplification(current, self.result)
        if first and current == 1:
            rule = "the derivative of a variable in itself is 1"
        self.expressions.append(self.result)
        return [*found, Step(name if first else "", text, latex, rule, name_latex=name_latex if first else "")]

    def next(self, current: Any) -> Application:
        """Return the line that follows."""
        todo = sorted(current.atoms(sp.Derivative), key=sp.default_sort_key)
        direct = {d: found for d in todo if (found := self.calculus.direct(d.expr)) is not None}
        if direct:
            rules = dict.fromkeys(rule for found in direct.values() for rule in found.rules)
            functions = tuple(name for found in direct.values() for name in found.functions)
            result = current.xreplace({d: found.result for d, found in direct.items()})
            return Application(result, tuple(rules) or (f"linear in {self.text.doprint(self.x)}",), (), functions)
        for d in todo[:1]:
            applied = self.calculus.applied(d.expr)
            if applied is not None:
                return Application(current.xreplace({d: applied.result}), applied.rules, applied.parts, applied.functions)
            raise NoRule(d.expr.func.__name__)
        raise NoRule("derivative")

    def step(self, applied: Application, name: str, name_latex: str, explain: bool) -> Step:
        where, where_latex = self.named(applied, self.text.doprint), self.named(applied, self.math.doprint)
        reasons = dict.fromkeys(reason for f in applied.functions if (reason := reason_of(f))) if explain else {}
        self.expressions.append(applied.result)
        text, latex = self.text.doprint(applied.result), self.math.doprint(applied.result)
        return Step(name, text, latex, "; ".join(applied.rules), where, "; ".join(reasons), name_latex, where_latex)

    def named(self, applied: Application, show: Callable[[Any], str]) -> str:
        """Return `u = x**2, v = sin(x)` in the form that `show` prints."""
        return ", ".join(f"{letter.name} = {show(part)}" for letter, part in zip(self.letters, applied.parts, strict=False))


def head(function: str, names: tuple[str, ...], sign: str) -> tuple[str, str]:
    """Return the left side of a derivative, as text and as LaTeX: ∂²f/∂x∂y."""
    order, names = len(names), tuple(map(clean, names))
    power = "" if order == 1 else str(order).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    mark = {"d": "d ", "∂": r"\partial "}[sign]
    above = mark.rstrip()
    raised = "" if order == 1 else f"^{{{order}}}"
    same = len(set(names)) == 1
    below = f"{mark}{latex_label(names[0])}{raised}" if same else " ".join(f"{mark}{latex_label(name)}" for name in names)
    text = f"{sign}{power}{function}/{f'{sign}{names[0]}{power}' if same else ''.join(f'{sign}{name}' for name in names)}"
    return text, rf"\frac{{{above}{raised} {latex_label(function)}}}{{{below}}}"


def value_at(e: Any, point: Mapping[Any, Any]) -> float:
    """Return the value of a line at a point; derivatives that it leaves open are taken numerically."""
    known: dict[Any, Any] = {}
    for d in e.atoms(sp.Derivative):
        (x,) = d.variables
        others = {name: value for name, value in point.items() if name != x}
        known[d] = sp.Derivative(d.expr.subs(others), x, evaluate=False).doit_numerically(point[x])
    return float(sp.N(e.xreplace(known).subs(point)))
