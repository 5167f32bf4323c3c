"""explain(): one page about a program, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.function.inspect.cost import cost_of
from symgrad.compiler.function.inspect.inspection import one_result
from symgrad.compiler.ir.control_flow import CALL
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, type_text, walk
from symgrad.compiler.rewrite.pipeline import DERIVED, OF_ASSUMPTIONS, TRACED, PassRun, history, switches
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.support.progress import STAGES, seconds
from symgrad.errors import SymgradError

_LARGEST_FORMULA = 80
"""Graphs with more values are shown without formulas, which would take long to compute and be too long to read."""
_LINES = 40
_MAX_SHOWN = 8
# Inline styles, because a notebook page has its own rules for everything else, and no colours, because the page may be dark.
_INSIDE = "margin: 0.2em 0 0.2em 1.1em"
_NAME = "padding: 0 1.5em 0 0; opacity: 0.65; white-space: nowrap"
_TEXT = "padding: 0; overflow-wrap: anywhere"


@dataclass(frozen=True)
class Section:
    """A heading, and rows of a table or lines of text."""

    title: str
    rows: Sequence[tuple[str, str]] = ()
    text: str = ""


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`: `print` it, or show it in a notebook. `parts` are its sections, by name."""

    title: str
    parts: dict[str, Section]

    def __getitem__(self, name: str) -> Section:
        return self.parts[name]

    def __str__(self) -> str:
        lines = [self.title]
        for part in self.parts.values():
            lines += ["", part.title]
            width = max((len(name) for name, _ in part.rows), default=0)
            lines += [f"  {name:{width}}  {text}".rstrip() for name, text in part.rows]
            lines += [f"  {line}".rstrip() for line in _shortened(part.text)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = "".join(map(_html, self.parts.values()))
        return f'<div class="symgrad-explanation"><p><b>{escape(self.title)}</b></p>{parts}</div>'


def _shortened(text: str) -> list[str]:
    lines = text.rstrip().splitlines()
    more = len(lines) - _LINES
    return lines if more <= 1 else [*lines[:_LINES], f"... {more} more lines"]


def _html(part: Section) -> str:
    rows = "".join(f"<tr>{_cell(name, _NAME)}{_cell(text, _TEXT)}</tr>" for name, text in part.rows)
    table = f'<table style="{_INSIDE}; border-collapse: collapse">{rows}</table>' if rows else ""
    lines = f'<pre style="{_INSIDE}; overflow-x: auto">{escape(part.text.rstrip())}</pre>' if part.text else ""
    open_or_not = "" if part.text.count("\n") > _LINES else " open"
    summary = f'<summary style="font-weight: 600; cursor: pointer">{escape(part.title)}</summary>'
    return f'<details{open_or_not} style="margin: 0.6em 0">{summary}{table}{lines}</details>'


def _cell(text: str, style: str) -> str:
    return f'<td style="text-align: left; vertical-align: top; {style}">{escape(text)}</td>'


def explain(compiled: Any, program: Program, kernel: Kernel, what: str, wrt: Any) -> Explanation:
    """Return the page about a kernel of a program."""
    cost = cost_of(kernel)  # compiles the kernel, so that its times are known
    parts = {
        "signature": Section("signature", _signature(program, kernel)),
        "formula": Section("formula", text=_formula(compiled, program, what, wrt)),
        "kernel": Section("kernel", _kernel(compiled, kernel)),
        "cost": Section("cost", cost.rows()),
        "passes": Section("passes", _passes(program, kernel)),
        "times": Section("times", _times(program, kernel)),
        "programs": Section("programs", _programs(compiled), _recompiles(compiled)),
        "source": Section("source", text=kernel.source()),
    }
    title = str(compiled.signature) if what == "forward" else f"{compiled.signature}, {what}"
    return Explanation(title, {name: part for name, part in parts.items() if part.rows or part.text})


def _signature(program: Program, kernel: Kernel) -> list[tuple[str, str]]:
    graph, arguments = kernel.graph, len(program.call.leaves)
    named = [f"{label}: {type_text(x)}" for label, x in zip(graph.labels, graph.inputs, strict=True)]
    known = len(program.graph.inputs)
    rows = [("arguments", _some(named[:arguments])), ("captured", _some(named[arguments:known])), ("directions", _some(named[known:]))]
    if program.effects is not None or program.checks_path:
        rows += [("results", _types(graph.outputs[: program.count])), *_effects(program)]
    else:
        rows += [("results", _types(graph.outputs))]
    return [(name, text) for name, text in rows if text]


def _types(values: Sequence[Any]) -> str:
    return _some([*map(type_text, values)])


def _some(texts: Sequence[str]) -> str:
    """Join the texts; of many, show the first few and the last."""
    if len(texts) <= _MAX_SHOWN:
        return ", ".join(texts)
    return f"{len(texts)} tensors: {', '.join(texts[: _MAX_SHOWN - 2])}, ..., {texts[-1]}"


def _effects(program: Program) -> list[tuple[str, str]]:
    labels, effects, outcomes = program.graph.labels, program.effects, program.path.expected
    conditions = ("conditions", f"{len(outcomes)} of Python's on values" if outcomes else "")
    if effects is None:
        return [conditions]
    return [
        ("written to", _some([labels[i] for i, _ in effects.writes])),
        ("gradients left", _some([labels[i] for i, v in effects.grads if v is not None])),
        ("random draws", str(len(effects.draws)) if effects.draws else ""),
        conditions,
    ]


def _formula(compiled: Any, program: Program, what: str, wrt: Any) -> str:
    if program.count != 1:
        many = f"there are {program.count} results; formula(output=0) shows one"
        return f"left out: {many if program.count else 'nothing is returned'}"
    if (values := len(one_result(program, None))) > _LARGEST_FORMULA:
        return f"left out: the graph has {values} values; formula() shows it"
    try:
        return str(compiled.formula(wrt, order=2 if what in ("hessian", "hvp") else 1))
    except SymgradError as error:
        return f"none: {error}"


def _kernel(compiled: Any, kernel: Kernel) -> list[tuple[str, str]]:
    operations = sum(v.op not in (INPUT, LITERAL, OUTPUT) and v.row is not CALL for v in walk(kernel.graph))
    rows = [
        ("back end", compiled.options.backend),
        ("chosen because", str(getattr(kernel, "choice", "") or "")),
        ("device", _device(kernel)),
        ("buffers", _buffers(kernel)),
        ("operations", f"{operations} in the graph, {len(kernel.source().splitlines())} lines of source"),
        ("graph", kernel.graph.hash[:12]),
    ]
    return [(name, text) for name, text in rows if text]


def _buffers(kernel: Kernel) -> str:
    """Return how many buffers hold packed tensors; empty if every tensor has its own."""
    packs = () if kernel.packing is None else (kernel.packing.inputs, kernel.packing.outputs)
    if all(len(group) == 1 for groups in packs for group in groups):
        return ""
    given, left = ((sum(map(len, groups)), len(groups)) for groups in packs)
    return f"{given[1]} for {given[0]} tensors that go in, {left[1]} for {left[0]} that come out"


def _device(kernel: Kernel) -> str:
    executable = getattr(getattr(kernel, "chosen", kernel), "compiled", None)
    devices = executable.runtime_executable().local_devices() if executable is not None else ()
    return ", ".join(f"{d.platform}:{d.id}" + (f" ({d.device_kind})" if d.device_kind != d.platform else "") for d in devices)


def _passes(program: Program, kernel: Kernel) -> list[tuple[str, str]]:
    """Return the passes that the graph of a kernel went through, in order, with what their rules replaced. Passes for assumptions are left
    out where they found none."""
    runs = history(kernel.graph)
    if not any(run.stage == TRACED.name for run in runs):  # a derivative, whose graph is new
        runs = (*history(program.graph), *runs)
    shown = [run for run in runs if run.name not in OF_ASSUMPTIONS or run.hits or run.changed or run.off]
    return [(f"{run.name}, derivative" if run.stage == DERIVED.name else run.name, _pass_text(run)) for run in shown]


def _pass_text(run: PassRun) -> str:
    if run.hits:
        known = switches()
        return "; ".join(_hit_text(name, count, known.get(name)) for name, count in run.hits)
    return "switched off" if run.off else "changed the graph" if run.changed else "-"


def _times(program: Program, kernel: Kernel) -> list[tuple[str, str]]:
    own = getattr(getattr(kernel, "chosen", kernel), "times", {})
    total = {name: program.times.get(name, 0.0) + own.get(name, 0.0) for name in STAGES if name in program.times or name in own}
    return [(name, seconds(t)) for name, t in total.items() if t >= 0.0005]


def _hit_text(name: str, count: int, rule: str | None) -> str:
    """Return a rule with the number of its applications, or a change that a pass made."""
    if rule is None:
        return name if count == 1 else f"{name} ({count}x)"
    return f"{rule} ({count}x, rule {name!r})"


def _programs(compiled: Any) -> list[tuple[str, str]]:
    kinds, paths = compiled._program_cache.counts()
    rows = [("for types of arguments", str(kinds))]
    return rows + ([("paths through them", str(paths))] if paths > kinds else [])


def _recompiles(compiled: Any) -> str:
    """Return the log of traces; empty if there is none."""
    recompiles = getattr(compiled, "recompiles", None)
    return str(recompiles()) if recompiles is not None else ""
