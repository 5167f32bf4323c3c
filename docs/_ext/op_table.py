"""Writes the tables of docs/ops.md while the documentation is built: one line for each row of the op table."""

from __future__ import annotations

from typing import Any

import sympy as sp

import symgrad  # noqa: F401  (enters the rows)
from symgrad.compiler.formula.printing import TextPrinter
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE

MARK = "<!-- the op table -->"


def fill(app: Any, docname: str, source: list[str]) -> None:
    """What Sphinx calls for each page that it reads."""
    source[0] = source[0].replace(MARK, markdown())


def markdown() -> str:
    rows = sorted(TABLE.values(), key=lambda row: row.name)
    elementwise = [row for row in rows if row.elementwise]
    others = [row for row in rows if not row.elementwise]
    return (
        f"## Elementwise: {len(elementwise)} rows\n\n"
        + _table(["row", "meaning", "derivative", "saves"], [[_call(r), _code(meaning(r)), _slopes(r), _saves(r)] for r in elementwise])
        + f"\n## All others: {len(others)} rows\n\n"
        + _table(["row", "derivative", "saves"], [[_call(r), _slopes(r), _saves(r)] for r in others])
    )


def _table(head: list[str], lines: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *lines))


def _call(row: Row) -> str:
    return _code(f"{row.name}({', '.join([*row.args, *(f'{name}=' for name in row.attrs)])})")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def meaning(row: Row) -> str:
    """As mathematics, with a symbol for each argument and setting; a meaning that asks for the value of a setting is left out."""
    if row.sympy is None:
        return ""
    names = {name: sp.Symbol(name, real=True) for name in (*row.args, *row.attrs)}
    try:
        expression = row.sympy(sp, *(names[name] for name in row.args), **{name: names[name] for name in row.attrs})
        return str(TextPrinter({}).doprint(expression))
    except (TypeError, AttributeError, NotImplementedError, ValueError):
        return ""


def _slopes(row: Row) -> str:
    """In which arguments it can be differentiated."""
    if row.pullback is not None or all(rule is not None for rule in row.vjp):
        return "yes" if row.vjp else "none"
    have = [name for name, rule in zip(row.args, row.vjp, strict=True) if rule is not None]
    return f"in {_code(', '.join(have))}" if have else "none"


def _saves(row: Row) -> str:
    """What is kept for backward if all gradients are wanted."""
    return _code(", ".join(sorted(frozenset().union(*row.saves))))
