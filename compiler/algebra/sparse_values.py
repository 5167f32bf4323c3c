"""Sparse Jacobians and Hessians: positions as arrays, values as one vector that a graph computes.

    closed form   one vector for each band, joined; numbers stay outside of the graph, in a template
    coloured      tangents along sums of unit vectors whose columns do not meet, if a part of the program is opaque
    dense         the dense derivative, read at the positions, if there are too many nonzeros for either
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.compiler.algebra.band import Band, Constants, distinct, reshaped
from symgrad.compiler.algebra.coloring import column_coloring, recovered, star_coloring
from symgrad.compiler.algebra.listed_rows import PlaceReader
from symgrad.compiler.algebra.propagate_sparsity import NoBands, propagate
from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.jacobian import hessian, jacobian
from symgrad.compiler.autodiff.pull import nonlinear, pull
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.rewrite.drop_hooks import drop_hooks, has_hooks
from symgrad.errors import GraphError
from symgrad.ops.spec import Meta
from symgrad.ops.variants import is_half
from symgrad.typing import Array

DENSE = 0.4
"""The share of nonzeros from which on a derivative with an opaque part is computed as a dense array."""
MAX_DENSE = 1 << 28
"""The largest number of elements of a dense array that is made because a derivative is not sparse."""


@dataclass(frozen=True)
class SparseBlock:
    """A sparse matrix: `value` has its first nonzeros, and `template` the numbers of all, 0 where `value` alone has them."""

    shape: tuple[int, int]
    rows: Array
    cols: Array
    """The positions, each once."""
    value: Value | None
    template: Array
    method: str
    """How the values are computed: "closed form", "coloring" with the number of colors, or "dense"."""

    dtype: Any

    @property
    def nnz(self) -> int:
        return len(self.rows)

    @property
    def computed(self) -> int:
        """The number of nonzeros that depend on inputs."""
        return 0 if self.value is None else self.value.size


@dataclass(frozen=True)
class Differentiated:
    """What to differentiate once more: a value of a graph in one of its inputs; for a Hessian, the gradient of `scalar`."""

    graph: Graph
    y: Value
    x: Value
    scalar: Value | None = None
    second: int = -1
    """The input in which the gradient was taken, by position."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.size, self.x.size

    @property
    def dtype(self) -> Any:
        """The dtype of the matrix: that of y, but no sparse matrix has half precision."""
        return np.dtype(np.float32) if is_half(self.y.dtype) else self.y.dtype


def first_derivative(graph: Graph, y: Value, x: Value) -> Differentiated:
    return Differentiated(graph, y, x)


def second_derivatives(graph: Graph, y: Value, chosen: Sequence[Value]) -> list[Differentiated]:
    """Return what the Hessian blocks of a scalar are derivatives of, row by row; raise GraphError if y is no scalar."""
    if y.size != 1:
        raise GraphError(f"a sparse Hessian is that of one number, got a result of shape {list(y.shape)}: sum it, or ask for its Jacobian")
    slopes = drop_hooks(Graph(graph.inputs, pull({y: filled(xp, 1, Meta(y.shape, y.dtype))}, chosen))).outputs
    pairs = zip(chosen, slopes, strict=True)
    return [Differentiated(graph, slope, x, y, first.attrs["index"]) for first, slope in pairs for x in chosen]


def sparse_block(what: Differentiated, constants: Constants, places: PlaceReader) -> SparseBlock:
    """Return the positions and values of one derivative."""
    if not what.y.size or not what.x.size:
        return _closed(what, [], constants)
    if _only_backward(what):
        return _dense(what, constants, None)
    try:
        (bands,) = propagate([what.y], what.x, constants, places)
        if sum(b.count for b in bands) > MAX_DENSE // 4:
            raise NoBands
    except NoBands:
        return _dense(what, constants, None)
    if all(b.value is not None for b in bands):
        return _closed(what, bands, constants)
    return _colored(what, bands, constants)


def _only_backward(what: Differentiated) -> bool:
    """True if gradients are not the transpose of the tangents, which hooks and Functions may change arbitrarily."""
    return (what.scalar is None and has_hooks(what.graph)) or nonlinear(Graph(what.graph.inputs, (what.y,))) is not None


# --- closed form


def _closed(what: Differentiated, bands: Sequence[Band], constants: Constants) -> SparseBlock:
    computed = [b for b in bands if isinstance(b.value, Value)]
    numbers = [b for b in bands if not isinstance(b.value, Value)]
    keys, value = _keys(computed, what.shape[1]), _joined(computed, what.dtype)
    order, firsts = _runs(keys)
    if not firsts.all():  # several bands have a nonzero there
        places = np.empty(len(keys), np.int64)
        places[order] = np.cumsum(firsts) - 1
        keys = keys[order][firsts]
        zeros = filled(xp, 0, Meta((len(keys),), what.dtype))
        value = xp.index_add(zeros, value, constants.value(places), axis=0)
        order = np.arange(len(keys))
    fixed, template = _template(numbers, what.shape[1])
    beside, added = np.ones(len(fixed), bool), np.zeros(len(keys))
    if len(fixed) and len(keys):
        nearest = order[np.minimum(np.searchsorted(keys, fixed, sorter=order), len(keys) - 1)]
        beside = keys[nearest] != fixed
        added[nearest[~beside]] = template[~beside]
    every = np.concatenate([keys, fixed[beside]])
    return _block(what, every, value, np.concatenate([added, template[beside]]), "closed form")


def _block(what: Differentiated, keys: Array, value: Value | None, template: Array, method: str) -> SparseBlock:
    return SparseBlock(what.shape, keys // what.shape[1], keys % what.shape[1], value, template, method, what.dtype)


def _keys(bands: Sequence[Band], width: int) -> Array:
    """Return the positions of all nonzeros as numbers, row by row."""
    parts = [np.broadcast_to(b.row_numbers() * width + b.cols, b.sizes).reshape(-1) for b in bands]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _joined(bands: Sequence[Band], dtype: Any) -> Value | None:
    """Return the values of all nonzeros as one vector."""
    parts = [reshaped(xp.cast(xp.expand(b.value, shape=b.sizes), dtype=dtype), (b.count,)) for b in bands]
    return None if not parts else parts[0] if len(parts) == 1 else xp.cat(*parts, axis=0)


def _template(bands: Sequence[Band], width: int) -> tuple[Array, Array]:
    """Return the positions of nonzeros that are numbers, each once, and these numbers."""
    keys = _keys(bands, width)
    numbers = np.concatenate([np.full(b.count, b.value) for b in bands]) if bands else np.zeros(0)
    order, firsts = _runs(keys)
    found = keys[order][firsts]
    return found, np.bincount(np.cumsum(firsts) - 1, numbers[order], len(found))


def _runs(keys: Array) -> tuple[Array, Array]:
    """Return the order of numbers, and which of the ordered ones differ from the one before. The numbers of a band are in order, which a
    stable sort is quick to find out."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order, np.append(True, ordered[1:] != ordered[:-1])[: len(keys)]


# --- compressed, and dense


def _colored(what: Differentiated, bands: Sequence[Band], constants: Constants) -> SparseBlock:
    m, n = what.shape
    keys = distinct(_keys(bands, n))
    if len(keys) >= DENSE * m * n:
        return _dense(what, constants, keys)
    rows, cols = keys // n, keys % n
    symmetric = what.second == what.x.attrs["index"]
    colors = star_coloring(rows, cols, n) if symmetric else column_coloring(rows, cols, m, n)
    count = int(colors.max(initial=-1)) + 1
    if count >= min(m, n) and count > 1 and not symmetric:
        return _dense(what, constants, keys)
    places = recovered(rows, cols, colors, n) if symmetric else colors[cols] * m + rows
    seeds = np.zeros((count, n), what.x.dtype)
    seeds[colors, np.arange(n)] = 1
    pushed = jvp(Graph(what.graph.inputs, (what.y,), what.graph.labels), (what.x.attrs["index"],))
    directions = reshaped(constants.value(seeds), (count, *what.x.shape))
    (tangents,) = batched(pushed.outputs, {pushed.inputs[-1]: directions}, count)
    value = constants.taken(reshaped(tangents, (tangents.size,)), places)
    return _block(what, keys, xp.cast(value, dtype=what.dtype), np.zeros(len(keys)), f"coloring, {count} colors")


def _dense(what: Differentiated, constants: Constants, keys: Array | None) -> SparseBlock:
    m, n = what.shape
    if m * n > MAX_DENSE:
        raise GraphError(
            f"this derivative, of shape {[m, n]}, is not sparse, and a dense array of it would have more than {MAX_DENSE:,} numbers:"
            " use hvp, vjp or jvp, which do not form it"
        )
    if what.scalar is None:
        (found,) = jacobian(Graph(what.graph.inputs, (what.y,), what.graph.labels), (what.x.attrs["index"],)).outputs
    else:
        chosen = sorted({what.second, what.x.attrs["index"]})
        blocks = hessian(Graph(what.graph.inputs, (what.scalar,), what.graph.labels), chosen).outputs
        found = blocks[chosen.index(what.second) * len(chosen) + chosen.index(what.x.attrs["index"])]
    flat = xp.cast(reshaped(found, (m * n,)), dtype=what.dtype)
    if keys is None:
        keys = np.arange(m * n, dtype=np.int64)
    return _block(what, keys, constants.taken(flat, keys), np.zeros(len(keys)), "dense")
