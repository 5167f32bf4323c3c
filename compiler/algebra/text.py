"""Linear values as short text for reports: `(A B) x`, `sum(A * b)`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from symgrad.compiler.ir.graph import INPUT, LITERAL, Value

_LONGEST = 60
_TIGHT = {"matmul": 3, "mul": 2, "div": 2, "add": 1, "sub": 1, "neg": 1}
_SILENT = frozenset(("assume", "expand", "reshape", "clone", "cast"))
"""Rows that say nothing about the order of operations."""


def expression_text(v: Value, leaves: Container[Value], names: Mapping[Value, str]) -> str:
    """Return a value as text in terms of its leaves, abridged if it is long."""
    text = _Texts(leaves, names).of(v, 0)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


class _Texts:
    def __init__(self, leaves: Container[Value], names: Mapping[Value, str]) -> None:
        self.leaves, self.names = leaves, dict(names)
        self.unnamed = 0

    def of(self, v: Value, outer: int) -> str:
        """Return the text of a value, in parentheses if `outer` binds more tightly."""
        if v.op == LITERAL:
            return f"{v.value:g}" if isinstance(v.value, float) else str(v.value)
        if v.op != "assume" and (v in self.names or v in self.leaves or v.op == INPUT):
            return self._name(v)
        if v.op in _SILENT:
            return self.of(v.args[0], outer)
        if v.op in ("transpose", "permute", "t"):
            return f"{self.of(v.args[0], 4)}'"
        inner = _TIGHT.get(v.op, 0)
        text = self._application(v, inner)
        return f"({text})" if outer > inner > 0 else text

    def _application(self, v: Value, level: int) -> str:
        if v.op == "matmul":  # always with parentheses: the report is about the order
            left, right = (self.of(a, level + 1) for a in v.args)
            return f"{left}' {right}" if v.args[0].ndim == 1 else f"{left} {right}"
        if v.op in _INFIX:
            left, right = v.args
            after = level + 1 if v.op in ("sub", "div") else level
            return f"{self.of(left, level)}{_INFIX[v.op]}{self.of(right, after)}"
        if v.op == "neg":
            return f"-{self.of(v.args[0], 2)}"
        return f"{v.op}({', '.join(self.of(a, 0) for a in v.args if a is not None)})"

    def _name(self, v: Any) -> str:
        if v not in self.names:
            self.unnamed += 1
            self.names[v] = f"v{self.unnamed}"
        return self.names[v]


_INFIX = {"mul": " * ", "div": " / ", "add": " + ", "sub": " - "}
