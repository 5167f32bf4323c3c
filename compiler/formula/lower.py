"""From a graph to a symbolic program, in a chosen notation.

    scalar     every value is a number, or an array treated element by element
    elements   small tensors spelled out, one expression for each element
    matrix     products, transposes and Hadamard products of matrices
    index      elements at (i, j, ...), sums over indices, Kronecker deltas: any graph has this one
    auto       the first that fits, of scalar, matrix, elements (if small) and index
"""

from __future__ import annotations

from symgrad.compiler.formula import elements, index, matrix, scalar
from symgrad.compiler.formula.program import Program
from symgrad.compiler.ir import Graph
from symgrad.compiler.passes.decompose import decompose
from symgrad.errors import FormulaError

_LOWERINGS = {"scalar": scalar.lower, "matrix": matrix.lower, "elements": elements.lower, "index": index.lower}
NOTATIONS = ("auto", *_LOWERINGS)


def lower(graph: Graph, notation: str = "auto") -> Program:
    """The graph as a formula in the notation asked for; `auto` takes the first that fits."""
    graph = decompose(graph)
    if notation != "auto":
        if notation not in _LOWERINGS:
            raise ValueError(f"notation must be one of {', '.join(NOTATIONS)}, got {notation!r}")
        return _LOWERINGS[notation](graph)
    if scalar.fits(graph):
        return scalar.lower(graph)
    try:
        return matrix.lower(graph)
    except FormulaError:
        return elements.lower(graph) if elements.fits(graph) else index.lower(graph)
