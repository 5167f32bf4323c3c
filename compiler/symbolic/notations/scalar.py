"""Scalar notation: a symbol is a scalar, or one element of an array that is treated element by element."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, row_of, type_text
from symgrad.compiler.symbolic import to_sympy
from symgrad.compiler.symbolic.notations.base import Lowering
from symgrad.compiler.symbolic.program import FormulaProgram, LoweringRequest
from symgrad.compiler.symbolic.shorter import shorter
from symgrad.errors import FormulaError

_FREE = ("expand", "reshape")


def fits(job: LoweringRequest) -> bool:
    """True if all values are elementwise, and have one shape apart from scalars."""
    return not job.all_directions and _misfit(job.graph) is None


def _misfit(graph: Graph) -> Value | None:
    shapes = {v.shape for v in (*graph.inputs, *graph.outputs)} - {()}
    for v in graph.values:
        if v.op in (INPUT, LITERAL) or (v.op in _FREE and _is_filled(v)):
            continue
        if v.row is None or not v.row.elementwise or len(shapes | {v.shape} - {()}) > 1:
            return v
    return graph.outputs[0] if len(shapes) > 1 else None


def _is_filled(v: Value) -> bool:
    while v.op in _FREE:
        v = v.args[0]
    return not v.shape


def lower(job: LoweringRequest) -> FormulaProgram:
    """Return an elementwise function as an expression of one element."""
    graph = job.graph
    misfit = next(iter(job.all_directions), _misfit(graph))
    if misfit is not None:
        given = f"{misfit.op} gives {type_text(misfit)}"
        raise FormulaError(f"scalar notation is for elementwise functions: {given}; try 'elements' or 'index'")
    return _Scalar(job).program()


class _Scalar(Lowering):
    notation = "scalar"

    def add_input(self, i: int, x: Value, label: str) -> Any:
        (symbol,) = self.name(x, f"x{i}")
        self.labels[symbol] = label
        return symbol

    def name(self, v: Value, name: str) -> list[Any]:
        symbol = to_sympy.symbol(name, v.dtype)
        self.known[v], self.symbols[v] = to_sympy.truth(symbol, v.dtype), (symbol,)
        return [symbol]

    def shortened(self, e: Any) -> Any:
        return shorter(e)

    def lower(self, v: Value) -> Any:
        if v.op == LITERAL:
            return to_sympy.literal(v)
        args = [None if a is None else self.known[a] for a in v.args]
        return to_sympy.elementwise(v, args) if row_of(v).elementwise else args[0]
