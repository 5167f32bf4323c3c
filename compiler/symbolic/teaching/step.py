"""A step, and a sequence of steps that prints itself as text, LaTeX and HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from symgrad.compiler.symbolic.label_text import BAR, clean, latex_label, latex_text

_WIDEST = 64
"""Rules stand in a column behind the formulas, unless a formula is longer than this."""


@dataclass(frozen=True)
class Step:
    """A name, its formula as text and as LaTeX, and the rules behind it."""

    name: str
    """The left side; empty if the line goes on with that of the line before."""
    text: str
    latex: str
    rule: str
    where: str = ""
    """The names that the rule gives to parts of the line before: `u = x**2, v = sin(x)`."""
    reason: str = ""
    """A short proof of the rule, if it is not elementary and reasons were asked for."""
    name_latex: str = ""
    where_latex: str = ""

    @property
    def left(self) -> str:
        """The left side in LaTeX."""
        return self.name_latex or (latex_label(self.name) if self.name else "")

    @property
    def remark(self) -> str:
        """The rule with the names of its parts."""
        return f"{self.rule}, with {self.where}" if self.where else self.rule


@dataclass(frozen=True)
class Section:
    """Steps under one title."""

    title: str
    steps: tuple[Step, ...]
    title_latex: str = ""
    """A formula with an `&` before its sign; empty if the title is no formula."""


class StepSequence(Sequence[Step]):
    """Steps in sections. `note` says why they are not in the style that was asked for."""

    note = ""
    sections: tuple[Section, ...] = ()

    def __len__(self) -> int:
        return sum(len(section.steps) for section in self.sections)

    def __getitem__(self, index: Any) -> Any:
        return [step for section in self.sections for step in section.steps][index]

    def __str__(self) -> str:
        lines = [(_line(step), step) for step in self]
        width = min(max((_width(left) for left, _ in lines), default=0), _WIDEST)
        text, title = [self.note] if self.note else [], ""
        for section in self.sections:
            text += [section.title] if section.title != title else []
            title = section.title
            for step in section.steps:
                left = _line(step)
                text.append(f"{left}{' ' * max(0, width - _width(left))}   {step.remark}".rstrip())
                text += [f"      because {step.reason}"] if step.reason else []
        return "\n".join(text)

    __repr__ = __str__

    def latex(self) -> str:
        """Return the steps as an `aligned` block, one line each, under the formulas that they begin with."""
        lines, title = [], ""
        for section in self.sections:
            lines += [section.title_latex] if section.title_latex != title else []
            title = section.title_latex
            lines += [rf"{s.left} &= {s.latex} && {_remark_in_latex(s)}" for s in section.steps]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def _repr_html_(self) -> str:
        """Return HTML in which every section, and every reason, can be folded."""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f'<div class="symgrad-steps">{note}{"".join(map(_section, self.sections))}</div>'


def _line(step: Step) -> str:
    return f"  {clean(step.name)} = {step.text}".replace("   = ", "    = ")


def _remark_in_latex(step: Step) -> str:
    """Return the rule with the names of its parts and its reason, in signs that LaTeX has: u² for u**2."""
    rule = f"{step.rule}, with " if step.where_latex else step.remark
    text = latex_text(_SIGN.sub(lambda found: _SIGNS[found[0]], rule)) + step.where_latex
    return text + (latex_text(f", because {step.reason}") if step.reason else "")


_SIGNS = {"**2": "²", "**3": "³", "**": "^", "*": "·"}
_SIGN = re.compile(r"\*\*[23](?![0-9])|\*\*|\*")


def _section(section: Section) -> str:
    rows = "".join(map(_row, section.steps))
    title = f"${section.title_latex.replace('&', '')}$" if section.title_latex else section.title
    return f"<details open><summary>{escape(title)}</summary><table>{rows}</table></details>"


def _row(step: Step) -> str:
    formula = rf"$\displaystyle {step.left} = {step.latex}$"
    reason = f"<details><summary>why</summary>{escape(step.reason)}</details>" if step.reason else ""
    left = 'style="text-align: left"'
    remark = f"{step.rule}, with ${step.where_latex}$" if step.where_latex else step.remark
    return f"<tr><td {left}>{escape(formula)}</td><td {left}>{escape(remark)}{reason}</td></tr>"


def _width(text: str) -> int:
    """Return the width of a text on a terminal: a combining bar has none."""
    return len(text) - text.count(BAR)
