"""Full Jacobians and Hessians from their terms, where that is cheaper than unit vectors: parts are computed, then placed among zeros.

    ∂²f/∂U∂U  ->  δ(i = k) Σ ...     one small array, placed on a diagonal, in place of one product for each unit vector
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, Lookup, NotAffine
from symgrad.compiler.algebra.bilinear import MatrixTerm, hessian_terms, jacobian_terms
from symgrad.compiler.algebra.cost import flops_of, total_flops
from symgrad.compiler.algebra.emit import Operand, arrange, compute_dtype, contract_operands
from symgrad.compiler.algebra.structure import Piece, array_of, pieces_of
from symgrad.compiler.autodiff import jacobian as by_unit_vectors
from symgrad.compiler.autodiff.pull import chosen_inputs
from symgrad.compiler.autodiff.symmetry import is_symmetric
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Graph, Value, toposort
from symgrad.errors import GraphError
from symgrad.ops.spec import Meta

_MOST_PIECES = 24
"""Matrices of more pieces are computed with unit vectors."""


def jacobian(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return the graph of `autodiff.jacobian.jacobian`, or a cheaper one."""
    written = by_unit_vectors.jacobian(graph, wrt)
    chosen = chosen_inputs(graph, wrt)
    return _cheaper(written, graph, lambda: [_jacobian(graph, y, x) for y in graph.outputs for x in chosen])


def hessian(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return the graph of `autodiff.jacobian.hessian`, or a cheaper one."""
    written = by_unit_vectors.hessian(graph, wrt)
    if any(y.size != 1 for y in graph.outputs):
        return written
    chosen = chosen_inputs(graph, wrt)
    return _cheaper(written, graph, lambda: [block for y in graph.outputs for block in _hessian(graph, y, chosen)])


def _cheaper(written: Graph, graph: Graph, planned: Callable[[], list[Value]]) -> Graph:
    """Return the graph as written, or one with the planned outputs if that takes fewer operations."""
    if not all(v.size for v in written.outputs) or all(v.size == 1 for v in written.outputs):
        return written
    try:
        outputs = planned()
    except (NotAffine, RecursionError, GraphError):  # of a loop without reverse mode, say
        return written
    if flops_of(toposort(outputs)) >= total_flops(written):
        return written
    return Graph(graph.inputs, outputs, graph.labels)


def _jacobian(graph: Graph, y: Value, x: Value) -> Value:
    return matrix_of(jacobian_terms(graph, y, x), y.shape, x.shape, y.dtype)


def _hessian(graph: Graph, y: Value, chosen: Sequence[Value]) -> list[Value]:
    found: dict[tuple[int, int], Value] = {}
    symmetric = is_symmetric(y)
    for i, a in enumerate(chosen):
        for j, b in enumerate(chosen):
            if symmetric and j < i:
                axes = (*range(b.ndim, b.ndim + a.ndim), *range(b.ndim))
                found[i, j] = xp.permute(found[j, i], axes=axes) if axes else found[j, i]
            else:
                found[i, j] = matrix_of(hessian_terms(graph, y, a, b), a.shape, b.shape, b.dtype)
    return [xp.reshape(v, shape=(*y.shape, *v.shape)) for v in found.values()]


def matrix_of(terms: Sequence[MatrixTerm], rows: Sequence[int], columns: Sequence[int], dtype: Any) -> Value:
    """Return the sum of the terms as a value of shape (*rows, *columns); raise NotAffine if rows cannot express a place."""
    shape = (*rows, *columns)
    pieces = pieces_of(terms, rows, columns)
    if len(pieces) > _MOST_PIECES:
        raise NotAffine("too many pieces")
    if not pieces:
        return filled(xp, 0, Meta(shape, dtype))
    size = prod(rows), prod(columns)
    placed = [xp.reshape(_placed(p, size, compute_dtype(dtype)), shape=shape) for p in sorted(pieces, key=lambda p: len(p.order))]
    total = placed[0]
    for v in placed[1:]:
        total = xp.add(total, v)
    return xp.cast(total, dtype=dtype)


def _placed(p: Piece, size: tuple[int, int], dtype: Any) -> Value:
    """Return a piece as a matrix with as many elements as `size` says, in some shape."""
    rows, columns = (_digits(place, n) for place, n in zip((p.row, p.column), size, strict=True))
    labels = (*p.order, *sorted(p.cut, key=lambda x: x.serial))
    operands = [Operand(*_named(array_of(g, labels, dtype))) for g in p.groups]
    if rows is None or columns is None:
        return _in_part(p, operands, size, dtype)
    if rows == columns:
        diagonal = xp.reshape(_product(p, operands, rows, dtype), shape=(size[0],))
        return xp.diag_embed(diagonal, shape=size, offset=0, axis1=0, axis2=1)
    return _embedded(p, operands, rows, columns, dtype)


def _embedded(p: Piece, operands: Sequence[Operand], rows: Sequence[Label], columns: Sequence[Label], dtype: Any) -> Value:
    """Return a piece whose rows and columns share some labels: its product, with a diagonal embedded for each of these."""
    linked = [x for x in rows if x in columns]
    order = [*(x for x in rows if x not in linked), *(x for x in columns if x not in linked), *linked]
    value = _product(p, operands, order, dtype)
    done = order[: len(order) - len(linked)]
    for n, x in enumerate(linked):
        known = set(linked[: n + 1])
        mine = [r for r in rows if r not in linked or r in known], [c for c in columns if c not in linked or c in known]
        axes = mine[0].index(x), len(mine[0]) + mine[1].index(x)
        rest = [label for d, label in enumerate((*mine[0], *mine[1])) if d not in axes]
        later = linked[n + 1 :]
        value = _moved(value, [*done, *linked[n:]], [*later, *rest, x])
        done = [*mine[0], *mine[1]]
        shape = tuple(label.size for label in (*later, *done))
        value = xp.diag_embed(value, shape=shape, offset=0, axis1=len(later) + axes[0], axis2=len(later) + axes[1])
        value = _moved_back(value, len(later))
    return value


def _named(found: tuple[Value, list[Label]]) -> tuple[Value, tuple[Label, ...]]:
    return found[0], tuple(found[1])


def _product(p: Piece, operands: Sequence[Operand], order: Sequence[Label], dtype: Any) -> Value:
    """Return the product of the operands of a piece over all labels of `order`."""
    found = contract_operands(operands, p.coefficient, frozenset(order), order, dtype)
    return xp.expand(arrange(found, order), shape=tuple(x.size for x in order))


def _moved(value: Value, labels: Sequence[Label], wanted: Sequence[Label]) -> Value:
    """Return the value with its dimensions in another order; a label that occurs twice keeps the order of its dimensions."""
    free = list(range(len(labels)))
    axes = []
    for x in wanted:
        d = next(d for d in free if labels[d] is x)
        free.remove(d)
        axes.append(d)
    return value if axes == list(range(len(axes))) else xp.permute(value, axes=tuple(axes))


def _moved_back(value: Value, count: int) -> Value:
    """Return the value with its first dimensions last."""
    return xp.permute(value, axes=(*range(count, value.ndim), *range(count))) if count else value


def _digits(place: Affine, size: int) -> list[Label] | None:
    """Return the labels of a place, from the one with the largest step, if they name each number below `size` once."""
    if place.constant or any(isinstance(x, Lookup) for x in place.labels):
        return None
    reach = 1
    labels: list[Label] = []
    for x, step in sorted(place.coefficients, key=lambda part: part[1]):
        if step != reach:
            return None
        reach *= x.size
        labels.insert(0, x)
    return labels if reach == size else None


def _in_part(p: Piece, operands: Sequence[Operand], size: tuple[int, int], dtype: Any) -> Value:
    """Return a piece that fills a part of a diagonal, or a rectangle, of the matrix."""
    places = p.row, p.column
    if any(len(i.coefficients) > 1 or any(isinstance(x, Lookup) for x in i.labels) for i in places):
        raise NotAffine("places that are no slices")
    labels = [i.labels[0] if i.coefficients else None for i in places]
    if labels[0] is None or labels[0] is not labels[1]:
        index = tuple(_slice(i) for i in places)
        value = _product(p, operands, [x for x in labels if x is not None], dtype)
        return xp.embed(value, shape=size, index=index)
    if any(i.coefficients[0][1] != 1 for i in places):
        raise NotAffine("a diagonal with steps")
    offset = p.column.constant - p.row.constant
    start = p.row.constant - max(0, -offset)
    length = min(size[0] + min(offset, 0), size[1] - max(offset, 0))
    value = _product(p, operands, [p.row.labels[0]], dtype)
    if value.size != length:
        value = xp.embed(value, shape=(length,), index=((start, start + value.size, 1),))
    return xp.diag_embed(value, shape=size, offset=offset, axis1=0, axis2=1)


def _slice(i: Affine) -> Any:
    if not i.coefficients:
        return i.constant
    ((x, step),) = i.coefficients
    if step < 0:
        raise NotAffine("a slice with a negative step")
    return i.constant, i.constant + step * (x.size - 1) + 1, step
