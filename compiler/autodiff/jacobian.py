"""Jacobians, Hessians and Hessian-vector products, graph to graph.

    jacobian   the VJP or the JVP of every unit vector, whichever needs fewer, batched (`symgrad.compiler.autodiff.batch`);
               always the VJP if gradients pass through hooks or a nonlinear Function
    hvp        the derivative of the gradient along a direction: forward over reverse
    hessian    the Hessian-vector product of every unit vector, reverse over reverse

A scalar input or output needs no unit vectors; values that do not depend on the direction are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.pull import chosen_inputs, fresh, grad, nonlinear, pull
from symgrad.compiler.autodiff.symmetry import is_symmetric
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Graph, Value, input_value, toposort, type_text
from symgrad.compiler.rewrite.drop_hooks import drop_hooks, has_hooks
from symgrad.errors import GraphError
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta


def jacobian(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs and, for each output and each of the inputs `wrt`, their Jacobian of shape (*output, *input)."""
    chosen = chosen_inputs(graph, wrt)
    require_real("a Jacobian", (*graph.outputs, *chosen))
    found = [block for y in graph.outputs for block in _jacobian(graph, y, chosen)]
    return Graph(graph.inputs, found, graph.labels)


def _jacobian(graph: Graph, y: Value, chosen: Sequence[Value]) -> list[Value]:
    if not y.size or not all(x.size for x in chosen):
        return [_empty_or(graph, y, x) for x in chosen]
    few = y.size <= sum(x.size for x in chosen) and not any(map(_forward_only, toposort((y,))))
    if few or _backward_only(Graph(graph.inputs, (y,))):
        return [xp.reshape(g, shape=(*y.shape, *x.shape)) for g, x in zip(_rows(graph, y, chosen), chosen, strict=True)]
    return [_column(graph, y, x) for x in chosen]


def _forward_only(v: Value) -> bool:
    """True for a loop without a bound on its steps, since reverse mode does not know how many steps to store."""
    return is_control(v) and v.attrs.get("max_steps", 0) is None


def _backward_only(graph: Graph) -> bool:
    """True if gradients are not the transpose of the tangents: tensor hooks and Functions may change them arbitrarily."""
    return has_hooks(graph) or nonlinear(graph) is not None


def _empty_or(graph: Graph, y: Value, x: Value) -> Value:
    return _jacobian(graph, y, (x,))[0] if y.size and x.size else filled(xp, 0, Meta((*y.shape, *x.shape), y.dtype))


def _rows(graph: Graph, y: Value, chosen: Sequence[Value]) -> list[Value]:
    """Return the cotangents of the inputs for every unit cotangent of y, stacked."""
    if y.size == 1:
        return pull({y: filled(xp, 1, Meta(y.shape, y.dtype))}, chosen)
    g = input_value(len(graph.inputs), y.shape, y.dtype)
    return batched(pull({y: g}, chosen), {g: units(y)}, y.size)


def _column(graph: Graph, y: Value, x: Value) -> Value:
    """Return the tangents of y for every unit tangent of x, as the last dimensions."""
    pushed = jvp(Graph(graph.inputs, (y,), graph.labels), (x.attrs["index"],))
    tangent = pushed.inputs[-1]
    if x.size == 1:
        (column,) = batched(pushed.outputs, {tangent: filled(xp, 1, Meta((1, *x.shape), x.dtype))}, 1)
    else:
        (column,) = batched(pushed.outputs, {tangent: units(x)}, x.size)
    flat = xp.reshape(column, shape=(x.size, y.size))
    return xp.reshape(xp.transpose(flat, dim0=0, dim1=1), shape=(*y.shape, *x.shape))


def columns(graph: Graph, wrt: Sequence[int]) -> Graph:
    """Return a graph with the same inputs and, for each output and each of the inputs `wrt`, their Jacobian, by forward derivatives."""
    graph = drop_hooks(graph)
    pairs = [(y, x) for y in graph.outputs for x in chosen_inputs(graph, wrt)]
    found = [_column(graph, y, x) if y.size and x.size else _empty_or(graph, y, x) for y, x in pairs]
    return Graph(graph.inputs, found, graph.labels)


def units(v: Value) -> Value:
    """Return all unit vectors of a value's shape, in order, stacked."""
    return xp.reshape(xp.eye(rows=v.size, columns=v.size, dtype=v.dtype), shape=(v.size, *v.shape))


def hvp(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs and a direction for each of `wrt`, whose outputs are the derivatives of the gradient along it."""
    chosen = [x.attrs["index"] for x in chosen_inputs(graph, wrt)]
    pushed = jvp(grad(graph, chosen), chosen)
    labels = (*graph.labels, *(fresh("v" if len(chosen) == 1 else f"v_{graph.labels[i]}", graph.labels) for i in chosen))
    return Graph(pushed.inputs, pushed.outputs, labels)


def hessian(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs and, for each output, the Hessians (*output, *first, *second) of every pair of inputs `wrt`."""
    chosen = chosen_inputs(graph, wrt)
    require_real("a Hessian", (*graph.outputs, *chosen))
    found = [block for y in graph.outputs for block in _hessian(graph, y, chosen)]
    return Graph(graph.inputs, found, graph.labels)


def _hessian(graph: Graph, y: Value, chosen: Sequence[Value]) -> list[Value]:
    """Return the blocks of every pair of inputs; a block of an input without elements is empty."""
    computed = [i for i, x in enumerate(chosen) if x.size and y.size]
    blocks = _blocks(graph, y, [chosen[i] for i in computed]) if computed else {}
    places = {i: k for k, i in enumerate(computed)}
    found = []
    for i, first in enumerate(chosen):
        for j, second in enumerate(chosen):
            shape = *y.shape, *first.shape, *second.shape
            known = i in places and j in places
            found.append(xp.reshape(blocks[places[i], places[j]], shape=shape) if known else filled(xp, 0, Meta(shape, y.dtype)))
    return found


def _blocks(graph: Graph, y: Value, chosen: Sequence[Value]) -> dict[tuple[int, int], Value]:
    """Return the Hessians (y, first, second) of flattened inputs; if y is symmetric, blocks below the diagonal are transposes of those
    above."""
    symmetric = is_symmetric(y)
    seed = filled(xp, 1, Meta(y.shape, y.dtype)) if y.size == 1 else input_value(len(graph.inputs), y.shape, y.dtype)
    inputs = graph.inputs if y.size == 1 else (*graph.inputs, seed)
    slopes = drop_hooks(Graph(inputs, pull({y: seed}, chosen))).outputs
    blocks: dict[tuple[int, int], Value] = {}
    for i, (x, slope) in enumerate(zip(chosen, slopes, strict=True)):
        start = i if symmetric else 0
        direction = input_value(len(graph.inputs) + 1, x.shape, x.dtype)
        if x.size == 1:
            along = pull({slope: filled(xp, 1, Meta(x.shape, x.dtype))}, chosen[start:])
            along = [xp.reshape(v, shape=(1, *v.shape)) for v in along]
        else:
            along = batched(pull({slope: direction}, chosen[start:]), {direction: units(x)}, x.size)
        if y.size != 1:
            along = batched(along, {seed: units(y)}, y.size)
        for j, block in enumerate(along, start=start):
            blocks[i, j] = xp.reshape(block, shape=(y.size, x.size, chosen[j].size))
    return blocks | {(j, i): xp.transpose(block, dim0=1, dim1=2) for (i, j), block in blocks.items() if (j, i) not in blocks}


def require_real(what: str, values: Sequence[Value]) -> None:
    """Raise GraphError unless all values are real floats: integers have no derivatives, and those of complex values do not fit into one
    array."""
    for v in values:
        if kind(v.dtype) == "c":
            raise GraphError(
                f"{what} of complex numbers is no array of derivatives, got {type_text(v)}: differentiate in the real and imaginary parts"
                " (view_as_real), or use vjp and jvp"
            )
        if kind(v.dtype) != "f":
            raise GraphError(f"only floating-point outputs have {what}, got {type_text(v)}")
