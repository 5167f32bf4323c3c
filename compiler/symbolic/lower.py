"""Lower a graph to a symbolic program in a chosen notation.

    scalar     every value is a scalar, or an array treated element by element
    elements   small tensors spelled out, one expression per element
    matrix     products, transposes and Hadamard products of matrices
    index      elements at (i, j, ...), sums over indices, Kronecker deltas: works for any graph
    auto       the first that fits of scalar, matrix, elements (if small) and index
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy import PolynomialError

from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.rewrite.assumptions import symmetric_inputs
from symgrad.compiler.rewrite.pipeline import FORMULA, Off
from symgrad.compiler.symbolic.notations import elements, index, matrix, scalar
from symgrad.compiler.symbolic.program import FormulaProgram, LoweringRequest
from symgrad.errors import FormulaError

_LOWERINGS = {"scalar": scalar.lower, "matrix": matrix.lower, "elements": elements.lower, "index": index.lower}
_OF_SYMPY = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, NotImplementedError, PolynomialError)
"""Exceptions that SymPy and NumPy raise while they build an expression that they do not support."""
NOTATIONS = ("auto", *_LOWERINGS)


def lower(
    graph: Graph, notation: str = "auto", directions: Sequence[tuple[Value, ...]] = (), symmetric: frozenset[int] = frozenset(),
    off: Off = (),
) -> FormulaProgram:
    """Return the graph as a formula in the requested notation; `auto` takes the first that fits.

    `directions` holds a tuple of inputs for each output: such an output is a derivative, and gets the dimensions of its directions.
    """
    known = symmetric_inputs(graph) if "assume" in graph.ops and "assumed_values" not in off else ()
    job = LoweringRequest(FORMULA.run(graph, off), tuple(directions) or ((),) * len(graph.outputs), symmetric, frozenset(known))
    if notation != "auto":
        if notation not in _LOWERINGS:
            raise ValueError(f"notation must be one of {', '.join(NOTATIONS)}, got {notation!r}")
        return _written(notation, job)
    if scalar.fits(job):
        return _written("scalar", job)
    for candidate in ("matrix", *(["elements"] if elements.fits(job) else [])):
        try:
            return _written(candidate, job)
        except FormulaError:
            continue
    return _written("index", job)


def _written(notation: str, job: LoweringRequest) -> FormulaProgram:
    try:
        return _LOWERINGS[notation](job)
    except RecursionError:  # SymPy walks expressions recursively
        raise FormulaError(f"{notation} notation: an expression is nested too deeply for SymPy; {_advice(notation)}") from None
    except _OF_SYMPY as error:
        raise FormulaError(f"{notation} notation: SymPy cannot write this function ({error}); {_advice(notation)}") from error


def _advice(notation: str) -> str:
    return "try 'index'" if notation != "index" else "try 'elements'"
