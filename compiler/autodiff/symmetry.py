"""Symmetry of higher derivatives: ∂²f/∂y∂x is ∂²f/∂x∂y transposed, unless a backward that is no derivative comes between.

A graph without Functions, hooks and `detach()` is symmetric. Of any other graph, the derivatives in every order of differentiation are
derived, and compared at random points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.graph import Graph, Value, toposort
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.subgraph import subgraph
from symgrad.ops.promotion import kind

if TYPE_CHECKING:
    from symgrad.compiler.autodiff.pull import Derivative

_INTERVALS = ((-1.0, 1.0), (0.05, 0.95), (1.05, 2.0), (-2.0, -1.05))
"""Derivatives are compared at random points of these intervals, as far as they are finite there."""
_TOLERANCE = {2: 3e-2, 4: 1e-3}
"""By the size of a dtype, the relative difference up to which two numbers count as equal; 1e-8 for all others."""


def is_symmetric(y: Value) -> bool:
    """True if the second derivatives of y do not depend on the order of differentiation; those of a Function's backward, a hook or
    `detach()` may."""
    return not any(v.op == "detach" or (v.row is not None and v.row.pullback is not None) for v in toposort((y,)))


def distinct(graph: Graph, found: Sequence[Derivative], wrt: Sequence[int]) -> list[Derivative]:
    """The derivatives without those that are transposes of another one, in which the inputs have the order of `wrt`."""
    known = {d.wrt: d for d in found}
    ordered = {d.wrt: known[tuple(sorted(d.wrt, key=wrt.index))] for d in found}
    return [d for d in found if ordered[d.wrt] is d or not _are_equal(graph, ordered[d.wrt], d, wrt)]


def is_symmetric_matrix(graph: Graph, d: Derivative) -> bool:
    """True if a second derivative of a scalar in one input does not change with the order of its two indices."""
    if len(d.wrt) != 2 or d.wrt[0] != d.wrt[1] or len(d.directions) != 1:
        return False
    return is_symmetric(graph.outputs[0]) or _are_equal(graph, d, d, d.wrt[:1], turned=True)


def _are_equal(graph: Graph, first: Derivative, second: Derivative, wrt: Sequence[int], turned: bool = False) -> bool:
    """True if two derivatives in the same inputs are the same multilinear form, with the indices of `second` in another order."""
    order = (1, 0) if turned else tuple(sorted(range(len(second.wrt)), key=lambda place: wrt.index(second.wrt[place])))
    compared = 0
    for arrays, vectors, rng in _points(graph, second):
        lead = rng.standard_normal(graph.outputs[0].shape)
        one, other = (_contracted(graph, d, arrays, [lead, *v]) for d, v in ((first, [vectors[p] for p in order]), (second, vectors)))
        if not (np.isfinite(one) and np.isfinite(other)):
            continue
        compared += 1
        if abs(one - other) > _TOLERANCE.get(first.value.dtype.itemsize, 1e-8) * max(1.0, abs(one), abs(other)):
            return False
    return compared > 0


def _points(graph: Graph, d: Derivative) -> Iterator[tuple[list[Any], list[Any], Any]]:
    """Random arrays for the inputs of the graph, one vector for each input of the derivative, and the generator."""
    rng = np.random.default_rng(0)
    for low, high in _INTERVALS:
        arrays = [_random(rng, x, low, high) for x in graph.inputs]
        yield arrays, [rng.standard_normal(graph.inputs[i].shape) for i in d.wrt], rng


def _random(rng: Any, x: Value, low: float, high: float) -> Any:
    """An array of the type of x with random numbers; integers, which may be indices, are zeros."""
    if kind(x.dtype) not in "fc":
        return np.zeros(x.shape, x.dtype)
    return np.asarray(rng.uniform(low, high, x.shape)).astype(x.dtype)


def _contracted(graph: Graph, d: Derivative, arrays: list[Any], vectors: Sequence[Any]) -> float:
    """The number that the form gives for one vector for each index: that of the output, and those of the inputs."""
    *inner, last = vectors
    directions = [v.astype(x.dtype) for v, x in zip((v for v in inner if v.size != 1), d.directions, strict=True)]
    inputs = (*graph.inputs, *d.directions)
    form = subgraph(inputs, (d.value,), [f"x{i}" for i in range(len(inputs))])
    (value,) = evaluate(form, [*arrays, *directions])
    factor = float(np.prod([v.item() for v in inner if v.size == 1]))
    return factor * float(np.sum(np.real(value) * last.reshape(value.shape)))
