"""Laplacians, graph to graph:  Σ_d ∂²y/∂x_d²,  with the sum taken at every value and not at the end.

Second derivatives enter a sum of them linearly, so their sum is propagated in place of one for each direction:

    along each direction d     y_d  = J u_d                              all directions at once, batched
    summed over all            Δy   = J Δu + Σ_d u_dᵀ H u_d              the quadratic part is zero for linear rows

A network of n-dimensional layers costs n + 2 forward passes that way, in place of about 3n for nested forward derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.autodiff.forward import forward_derivative
from symgrad.compiler.autodiff.jacobian import require_real, units
from symgrad.compiler.autodiff.jets import Jet, decomposed, taylor
from symgrad.compiler.autodiff.pull import is_differentiable
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, input_value, outputs_of
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import inline, labels, subgraph
from symgrad.ops.spec import Meta

Pair = tuple[Any, Any]
"""The first derivatives of a value along every direction, and the sum of the second ones."""
_FIXED: Pair = (None, None)
"""The pair of a value that does not depend on the input."""


def laplacian(graph: Graph, wrt: int) -> Graph:
    """Return a graph with the same inputs, whose outputs are the Laplacians of the outputs in the input at position `wrt`. Tensor hooks do
    not apply."""
    x = graph.inputs[wrt]
    require_real("a Laplacian", (*graph.outputs, x))
    graph = decomposed(graph)
    found = _summed_at_the_end(graph, wrt) if any(map(is_control, graph.values)) else _Propagation(graph, x).outputs
    return Graph(graph.inputs, [_or_zeros(s, y) for s, y in zip(found, graph.outputs, strict=True)], graph.labels)


def _or_zeros(found: Value | None, like: Value) -> Value:
    return filled(xp, 0, Meta(like.shape, like.dtype)) if found is None else xp.expand(xp.cast(found, dtype=like.dtype), shape=like.shape)


def _summed_at_the_end(graph: Graph, wrt: int) -> list[Value]:
    """Return the sums of second derivatives along each direction: for graphs with loops and branches."""
    series = taylor(graph, (wrt,), 2)
    second = batched(series.outputs[2::3], {series.inputs[-1]: units(graph.inputs[wrt])}, graph.inputs[wrt].size)
    return [xp.sum(v, axis=(0,), keepdims=False) * 2 for v in second]


class _Propagation:
    """For each value the first derivatives along every direction, stacked, and the sum of the second ones; None is zero."""

    def __init__(self, graph: Graph, x: Value) -> None:
        self.count, self._free = x.size, len(graph.inputs)
        pairs = interpret(graph.outputs, {x: (units(x), None)}, self._visit, leaf=lambda v: _FIXED, order=graph.values)
        self.outputs = [second for _, second in pairs]

    def _visit(self, v: Value, args: tuple[Pair | None, ...]) -> Any:
        """Return the pair of an application from those of its arguments; a list of pairs for several outputs."""
        given = zip(v.args, args, strict=True)
        moving = {a: pair for i, (a, pair) in enumerate(given) if pair is not None and pair[0] is not None and is_differentiable(v, i)}
        outputs = outputs_of(v) if isinstance(v.dtype, tuple) else (v,)
        pairs = self._pairs(v, outputs, moving) if moving else [_FIXED for _ in outputs]
        return pairs if isinstance(v.dtype, tuple) else pairs[0]

    def _pairs(self, v: Value, outputs: Sequence[Value], moving: dict[Value, Pair]) -> list[Pair]:
        directions = {a: input_value(self._free + i, a.shape, a.dtype) for i, a in enumerate(moving)}
        along = forward_derivative(v, directions)
        summed = forward_derivative(v, {a: second for a, (_, second) in moving.items() if second is not None})
        curved = _curvature(v, outputs, directions)
        stacks = {d: moving[a][0] for a, d in directions.items()}
        return [self._pair(*parts, stacks) for parts in zip(along, summed, curved, strict=True)]

    def _pair(self, first: Any, linear: Any, quadratic: Any, stacks: dict[Value, Any]) -> Pair:
        if first is not None:
            (first,) = batched([first], stacks, self.count)
        if quadratic is not None:
            (every,) = batched([quadratic], stacks, self.count)
            total = xp.sum(every, axis=(0,), keepdims=False) * 2
            linear = total if linear is None else linear + total
        return first, linear


def _curvature(v: Value, outputs: Sequence[Value], directions: Mapping[Value, Value]) -> list[Any]:
    """Return the second Taylor coefficients of the outputs of one application along `directions` of its arguments. Inputs stand for the
    arguments meanwhile: what is built of an argument may bypass it, such as x * expand(x) in place of expand(x) * expand(x)."""
    slots = list(dict.fromkeys(a for a in v.args if a is not None and a.op != LITERAL))
    alone = subgraph(slots, outputs, labels(0, 0, len(slots)))
    moved = {x: input_value(len(slots) + i, x.shape, x.dtype) for i, x in enumerate(alone.inputs) if slots[i] in directions}
    jet = Jet({x: (d, None) for x, d in moved.items()}, 2, count(2 * len(slots)))
    second = [c for _, c in jet.series(alone.outputs)]
    every = Graph((*alone.inputs, *moved.values()), [c for c in second if c is not None])
    found = iter(inline(every, [*slots, *(directions[a] for a in slots if a in directions)]))
    return [None if c is None else next(found) for c in second]
