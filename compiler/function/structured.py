"""Structured Jacobians and Hessians of compiled functions: the arrays of their parts from a kernel, in the layouts of the algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from symgrad.compiler.algebra.structured import StructuredDerivative, structured_hessian, structured_jacobian
from symgrad.compiler.function.points import DerivativePoint, in_structure
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.runtime.executables import Unflatten
from symgrad.pytree import LEAF
from symgrad.structured import Layout, Side, StructuredMatrix
from symgrad.structured.part import Factor, Part, Place

DERIVATIVES: dict[str, Callable[[Graph, tuple[int, ...]], StructuredDerivative]] = {
    "jacobian": structured_jacobian, "hessian": structured_hessian,
}  # fmt: skip


def structured_form(what: str, point: DerivativePoint) -> Unflatten:
    """Return a function that makes structured matrices of what the kernel `structured_{what}` computes: Jacobians in the structure of the
    results, or the Hessian. It outlives the point, and does not keep its inputs alive."""
    found = DERIVATIVES[what](point.program.graph, point.chosen).layouts
    layouts = [_in_structure(layout, what, point.choice.structure) for layout in found]
    results = point.program.structure if what == "jacobian" else LEAF

    def form(arrays: list[Any]) -> Any:
        as_arrays = isinstance(arrays[0], np.ndarray)
        return in_structure(results, [StructuredMatrix(layout, arrays, as_arrays) for layout in layouts])

    return form


def eager_derivative(what: str, point: DerivativePoint) -> Any:
    """Return full matrices with the interface of structured ones, for a function that is not traced."""
    layouts, arrays = _dense(what, point)
    as_arrays = bool(arrays) and isinstance(arrays[0], np.ndarray)
    matrices = [StructuredMatrix(_in_structure(layout, what, point.choice.structure), arrays, as_arrays) for layout in layouts]
    return in_structure(point.program.structure, matrices) if what == "jacobian" else matrices[0]


def _in_structure(layout: Layout, what: str, structure: Any) -> Layout:
    """Return the layout with vectors in the structure of the selected inputs."""
    columns = replace(layout.columns, structure=structure)
    return replace(layout, columns=columns, rows=columns if what == "hessian" else layout.rows)


def _dense(what: str, point: DerivativePoint) -> tuple[list[Layout], list[Any]]:
    """Return full matrices, for a function that is not traced."""
    found = point.compute(what)
    graph, chosen = point.program.graph, point.values
    columns = Side(tuple(x.shape for x in chosen), labels=tuple(point.labels))
    each = [columns] if what == "hessian" else [Side((y.shape,)) for y in graph.outputs]
    layouts, number = [], 0
    for rows in each:
        parts = []
        for r, a in zip(rows.starts, rows.shapes, strict=True):
            for c, b in zip(columns.starts, columns.shapes, strict=True):
                places = Place(r, tuple(_steps(a, 0))), Place(c, tuple(_steps(b, len(a))))
                first = len(graph.outputs[0].shape) if what == "hessian" else 0
                labels = tuple(range(len(a) + len(b)))
                sizes = (*a, *b, *(1,) * first)
                lead = tuple(range(len(labels), len(sizes)))
                parts.append(Part(sizes, *places, (Factor(number, (*lead, *labels)),)))
                number += 1
        layouts.append(Layout(rows, columns, tuple(parts), chosen[0].dtype, "computed eagerly"))
    return layouts, found


def _steps(shape: tuple[int, ...], first: int) -> list[tuple[int, int]]:
    return [(first + d, prod(shape[d + 1 :])) for d in range(len(shape))]
