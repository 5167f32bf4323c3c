"""Writes the tables of docs/ops.md while the documentation is built: each row of the op table with its formula and its derivatives.

An elementwise row is shown for one element. Any other is shown in index notation, for a small sample of its arguments; what has no
closed form is a function under its own name. A derivative is that of the row's rule: the cotangent of an argument, given that of the
result, `g`; for one element `g` is 1. Formulas are LaTeX between dollars, which mathml.py shows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import symgrad  # noqa: F401  (enters the rows)
from symgrad.compiler.autodiff.pull import pull
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.symbolic import lower
from symgrad.compiler.symbolic.printing import FormulaLatexPrinter
from symgrad.errors import FormulaError
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE
from symgrad.testing.samples import samples

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
MARK = "<!-- the op table -->"
UNSHAPED = {"bincount", "nonzero", "unique", "unique_consecutive"}
"""The shape of what these give depends on values: they have a name, and no derivative."""


@dataclass(frozen=True)
class Entry:
    """A row, the attributes of its sample, its formulas (one for each output), and a derivative for each argument that has one."""

    row: Row
    attrs: dict[str, Any]
    formulas: list[str]
    slopes: dict[str, str]


def fill(app: Any, docname: str, source: list[str]) -> None:
    """What Sphinx calls for each page that it reads."""
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, markdown())


def markdown() -> str:
    entries = [entry(row) for _, row in sorted(TABLE.items())]
    own = [e for e in entries if e.row.elementwise]
    others = [e for e in entries if not e.row.elementwise]
    head = ["row", "formula and derivatives"]
    return (
        f"## Elementwise: {len(own)} rows\n\n" + _table(head, map(_line, own))
        + f"\n## All others: {len(others)} rows\n\n" + _table(head, map(_line, others))
    )  # fmt: skip


def _table(head: list[str], lines: Any) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *lines))


def _line(e: Entry) -> list[str]:
    settings = _code(", ".join(f"{k}={v!r}" for k, v in e.attrs.items()))
    saves = _code(", ".join(sorted(frozenset().union(*e.row.saves))))
    first = [_call(e.row), settings, f"saves {saves}" if saves else ""]
    slopes = [f"{_code(f'{name}:')} {formula}" for name, formula in e.slopes.items()] or ["no derivative"]
    return ["<br>".join(filter(None, first)), "<br>".join([*e.formulas, *slopes])]


def _call(row: Row) -> str:
    return _code(f"{row.name}({', '.join([*row.args, *(f'{name}=' for name in row.attrs)])})")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _math(tex: str) -> str:
    """A formula in a cell, where a bar must be escaped."""
    return "$" + tex.replace("\\|", r"\Vert ").replace("|", "\\|") + "$"


def entry(row: Row) -> Entry:
    """Formula and derivatives of a row."""
    if row.name in UNSHAPED:
        return Entry(row, {}, [_call(row)], {})
    args, attrs = _sample(row)
    names = list(row.names(len(args)))
    if len(set(names)) < len(names):
        names = [f"{name}{i}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    inputs, labels, operands = [], [], []
    for name, a in zip(names, args, strict=True):
        operands.append(a)
        if isinstance(a, np.ndarray):
            inputs.append(input_value(len(inputs), () if row.elementwise else a.shape, a.dtype))
            labels.append(name)
            operands[-1] = inputs[-1]
    results = apply(row, tuple(operands), dict(attrs))
    results = results if isinstance(results, tuple) else (results,)
    notation = "scalar" if row.elementwise else "index"
    formulas = [_formula(inputs, labels, v, notation) for v in results]
    return Entry(row, attrs, formulas, _slopes(row, inputs, labels, operands, results, notation))


def _slopes(row: Row, inputs: list[Value], labels: list[str], operands: list[Any], results: Any, notation: str) -> dict[str, str]:
    places = {x: i for i, x in enumerate(operands) if isinstance(x, Value)}
    label = dict(zip(inputs, labels, strict=True))
    wrt = [x for x in inputs if kind(x.dtype) in "fc" and row.differentiable and row.rule(places[x]) is not None]
    cotangents, more, names = {}, [], []
    for i, v in enumerate(results):
        if kind(v.dtype) not in "fc" or v in cotangents:
            continue
        if row.elementwise:
            cotangents[v] = filled(xp, 1, Meta(v.shape, v.dtype))
        else:
            cotangents[v] = input_value(len(inputs) + len(more), v.shape, v.dtype)
            more.append(cotangents[v])
            names.append("g" if len(results) == 1 else f"g{i}")
    try:
        found = pull(cotangents, wrt) if wrt and cotangents else []
    except RuntimeError as error:  # the rule refuses
        return dict.fromkeys((label[x] for x in wrt), _code(f"refused: {error}"))
    return {label[x]: _formula([*inputs, *more], [*labels, *names], g, notation) for x, g in zip(wrt, found, strict=True)}


def _formula(inputs: list[Value], labels: list[str], v: Value, notation: str) -> str:
    graph = Graph(inputs, [v], labels)
    try:
        program = lower(graph, notation)
    except FormulaError:
        program = lower(graph, "index")
    show = FormulaLatexPrinter(program.labels)
    lines = [show.doprint(program.outputs[0]), *(f"{show.doprint(line.name)} = {show.line(line)}" for line in program.lines)]
    return "<br>where ".join([_math(lines[0]), "<br>".join(map(_math, lines[1:]))][: len(lines)])


def _sample(row: Row) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The smallest sample that is known of a row's arguments."""
    known = samples(row) or _caught().get(row.name, [])
    args, attrs = min(known, key=lambda sample: sum(np.size(a) for a in sample[0] if a is not None))
    dtype = np.complex128 if row.name == "imag" else None if "f" in row.kinds else np.int64
    return tuple(a if dtype is None or a.dtype.kind != "f" else a.astype(dtype) for a in args), attrs


def _caught() -> Any:
    from row_samples import caught

    return caught()
