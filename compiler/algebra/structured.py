"""Graphs of structured Jacobians and Hessians: the arrays of their parts, and layouts that say how the matrices are made of these."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from symgrad.compiler.algebra.affine import NotAffine
from symgrad.compiler.algebra.bilinear import MatrixTerm, hessian_terms, jacobian_terms
from symgrad.compiler.algebra.emit import compute_dtype
from symgrad.compiler.algebra.structure import Structure, structure_of
from symgrad.compiler.autodiff import jacobian as by_unit_vectors
from symgrad.compiler.autodiff.pull import chosen_inputs, require_one_number
from symgrad.compiler.autodiff.symmetry import is_symmetric
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, Value, literal
from symgrad.ops.promotion import promote_types
from symgrad.structured.layout import Layout, Side
from symgrad.structured.part import Factor, Part, Place


@dataclass(frozen=True, eq=False)
class StructuredDerivative:
    """The layouts of the matrices, one for each output, and the graph that computes their arrays, all in a row."""

    graph: Graph
    layouts: tuple[Layout, ...]


@lru_cache(maxsize=64)
def structured_jacobian(graph: Graph, wrt: tuple[int, ...]) -> StructuredDerivative:
    """Return the Jacobians of all outputs, whose columns are those of the inputs `wrt` side by side."""
    chosen = chosen_inputs(graph, wrt)
    by_unit_vectors.require_real("a Jacobian", (*graph.outputs, *chosen))
    columns = _side(graph, chosen)
    found, layouts = Structure(), []
    for y in graph.outputs:
        matrix = _Matrix(graph, Side((y.shape,)), columns, _dtype([y, *chosen]), found)
        for j, x in enumerate(chosen):
            matrix.add(0, j, lambda y=y, x=x: jacobian_terms(graph, y, x), lambda y=y, x=x: _dense_jacobian(graph, y, x))
        layouts.append(matrix.layout())
    return _derivative(graph, found, layouts)


@lru_cache(maxsize=64)
def structured_hessian(graph: Graph, wrt: tuple[int, ...]) -> StructuredDerivative:
    """Return the Hessian of the only output, a number, in the inputs `wrt` together."""
    y = require_one_number(graph)
    chosen = chosen_inputs(graph, wrt)
    by_unit_vectors.require_real("a Hessian", (y, *chosen))
    side, found = _side(graph, chosen), Structure()
    matrix = _Matrix(graph, side, side, _dtype(chosen), found)
    symmetric = is_symmetric(y)
    for i, a in enumerate(chosen):
        for j, b in enumerate(chosen):
            if symmetric and j < i:
                continue
            start = len(matrix.parts)
            matrix.add(i, j, lambda a=a, b=b: hessian_terms(graph, y, a, b), lambda a=a, b=b: _dense_hessian(graph, y, a, b))
            if symmetric and j > i:
                matrix.parts += [p.transposed() for p in matrix.parts[start:]]
    return _derivative(graph, found, [matrix.layout()])


def _derivative(graph: Graph, found: Structure, layouts: Sequence[Layout]) -> StructuredDerivative:
    outputs = found.arrays or [literal(0, layouts[0].dtype)]  # a kernel has at least one output
    return StructuredDerivative(Graph(graph.inputs, outputs, graph.labels), tuple(layouts))


def _side(graph: Graph, chosen: Sequence[Value]) -> Side:
    return Side(tuple(x.shape for x in chosen), labels=tuple(graph.labels[x.attrs["index"]] for x in chosen))


def _dtype(values: Sequence[Value]) -> Any:
    """Return the dtype of the matrix: not a half precision, in which no solver works."""
    return compute_dtype(functools.reduce(promote_types, (v.dtype for v in values)))


class _Matrix:
    """Collects the parts of one matrix, block by block."""

    def __init__(self, graph: Graph, rows: Side, columns: Side, dtype: Any, found: Structure) -> None:
        self.graph, self.rows, self.columns, self.dtype, self.found = graph, rows, columns, dtype, found
        self.parts: list[Part] = []
        self.reasons: list[str] = []

    def add(self, i: int, j: int, terms: Any, dense: Any) -> None:
        """Add a block: by its terms, or if it has no normal form as a dense array."""
        rows, columns = self.rows.shapes[i], self.columns.shapes[j]
        if not prod(rows) or not prod(columns):
            return
        count = len(self.found.arrays)
        try:
            parts = _parts(terms(), rows, columns, self.dtype, self.graph.labels, self.found)
        except (NotAffine, RecursionError) as error:
            del self.found.arrays[count:]
            self.reasons.append(f"computed with unit vectors: {error}" if isinstance(error, NotAffine) else "computed with unit vectors")
            parts = [_whole(self.found.number(xp.cast(dense(), dtype=self.dtype)), prod(rows), prod(columns))]
        start = self.rows.starts[i], self.columns.starts[j]
        self.parts += [replace(p, row=p.row.shifted(start[0]), column=p.column.shifted(start[1])) for p in parts]

    def layout(self) -> Layout:
        return Layout(self.rows, self.columns, tuple(self.parts), self.dtype, self.reasons[0] if self.reasons else "")


def _parts(
    terms: Sequence[MatrixTerm], rows: Sequence[int], columns: Sequence[int], dtype: Any, labels: Sequence[str], found: Structure
) -> list[Part]:
    block = structure_of(terms, rows, columns, dtype, labels)
    numbers = [found.number(v) for v in block.arrays]
    renamed = []
    for p in block.parts:
        factors = tuple(replace(f, array=numbers[f.array]) for f in p.factors)
        renamed.append(replace(p, factors=factors, lookups=tuple(replace(f, array=numbers[f.array]) for f in p.lookups)))
    return renamed


def _whole(number: int, rows: int, columns: int) -> Part:
    """Return a full matrix as one part; the only row and column of a single number have no label, so that they are equal."""
    row, column = (Place(), Place()) if rows == columns == 1 else (Place(0, ((0, 1),)), Place(0, ((1, 1),)))
    return Part((rows, columns), row, column, (Factor(number, (0, 1)),))


def _dense_jacobian(graph: Graph, y: Value, x: Value) -> Value:
    (found,) = by_unit_vectors.jacobian(Graph(graph.inputs, (y,), graph.labels), (x.attrs["index"],)).outputs
    return xp.reshape(found, shape=(y.size, x.size))


def _dense_hessian(graph: Graph, y: Value, a: Value, b: Value) -> Value:
    wrt = (a.attrs["index"],) if a is b else (a.attrs["index"], b.attrs["index"])
    found = by_unit_vectors.hessian(graph, wrt).outputs
    return xp.reshape(found[0 if a is b else 1], shape=(a.size, b.size))
