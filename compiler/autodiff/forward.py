"""Forward mode, graph to graph: one pass computes the tangent of every value from those of its arguments.

    quotients            y' = (a' - y b') / b, which reads the result, so that nested derivatives share it
    loops, branches      carry tangents beside their values (`symgrad.compiler.loops.jvp`)
    all other rows       the transpose of the row's VJP, made once for each row and type: linear rows apply themselves, and elementwise
                         rows multiply the tangent by their derivative

A tangent is made once for each value. Values are interned, so derivatives that are nested along one direction share their intermediate
results, and a graph of order n grows as a polynomial in n; transposing the VJP of a whole graph doubled it with each order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Any

from symgrad.compiler.autodiff.pull import (
    chosen_inputs,
    differentiable_values,
    fresh,
    is_differentiable,
    nonlinear,
    nonlinear_error,
    transposed_vjp,
)
from symgrad.compiler.ir.builder import with_args, xp
from symgrad.compiler.ir.control_flow import TRANSFORMS, is_control
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, input_value, outputs_of
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import inline, labels, subgraph
from symgrad.compiler.rewrite.drop_hooks import drop_hooks
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta

Tangent = Value | None
"""The tangent of a value; None is zero."""
Dual = tuple[Value, Tangent]
"""A value with its tangent."""


def jvp(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs and a tangent for each of `wrt`, whose outputs are the tangents of the outputs. Tensor hooks do
    not apply."""
    pushed = value_and_jvp(graph, wrt)
    return Graph(pushed.inputs, pushed.outputs[len(graph.outputs) :], pushed.labels)


def value_and_jvp(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return the graph of `jvp` with the values of the outputs before their tangents; a loop runs once for both."""
    graph = drop_hooks(graph)
    if (value := nonlinear(graph)) is not None:
        raise nonlinear_error(value)
    chosen = chosen_inputs(graph, wrt)
    names = (*graph.labels, *(fresh(f"d{graph.labels[v.attrs['index']]}", graph.labels) for v in chosen))
    tangents = [input_value(len(graph.inputs) + i, v.shape, v.dtype) for i, v in enumerate(chosen)]
    env: dict[Value, Any] = {x: (x, t) for x, t in zip(chosen, tangents, strict=True)}
    duals = interpret(graph.outputs, env, partial(_push_one, differentiable_values(graph)), leaf=lambda v: (v, None), order=graph.values)
    outputs = [*(v for v, _ in duals), *(or_zero(t, v) for v, t in duals)]
    return Graph((*graph.inputs, *tangents), outputs, names)


def _push_one(asked: Set[Value], v: Value, args: tuple[Dual | None, ...]) -> Any:
    """Return an application with its tangent, if that is asked for; a list of such pairs for several outputs."""
    pairs = enumerate(zip(v.args, args, strict=True)) if v in asked else ()
    moving = {a: dual[1] for i, (a, dual) in pairs if dual is not None and _moves(v, i, dual)}
    primals = tuple([None if dual is None else dual[0] for dual in args])
    if is_control(v) and moving:
        series = [[moving.get(a)] if is_differentiable(v, i) else [None] for i, a in enumerate(v.args)]
        values, found = TRANSFORMS["jets"](v, primals, series, 1)
        return list(zip(values, [c for (c,) in found], strict=True))
    known = with_args(v, primals)
    several = isinstance(v.dtype, tuple)
    if not moving:
        return [(y, None) for y in known] if several else (known, None)
    at = dict(zip(v.args, primals, strict=True))
    found = forward_derivative(v, moving, at.__getitem__)
    return list(zip(known, found, strict=True)) if several else (known, found[0])


def _moves(v: Value, i: int, dual: Dual) -> bool:
    return dual[1] is not None and is_differentiable(v, i)


def or_zero(t: Tangent, like: Value) -> Value:
    """Return a tangent, or zeros of the type of `like`."""
    return filled(xp, 0, Meta(like.shape, like.dtype)) if t is None else t


# the rule of one application


def forward_derivative(v: Value, tangents: Mapping[Value, Any], at: Callable[[Value], Any] = lambda a: a) -> list[Any]:
    """Return the tangents of the outputs of one application, given those of some of its arguments; None where an output has none. The
    arguments themselves are taken to be `at(argument)`."""
    outputs = list(v.dtype) if isinstance(v.dtype, tuple) else [v.dtype]
    if not tangents:
        return [None] * len(outputs)
    slots = list(dict.fromkeys(a for a in v.args if a is not None and a.op != LITERAL))
    wrt = tuple(i for i, a in enumerate(slots) if a in tangents)
    (same,) = subgraph(slots, (v,), labels(0, 0, len(slots))).outputs
    found = inline(_rule(same, len(slots), wrt), [*map(at, slots), *(tangents[slots[i]] for i in wrt)])
    return [t if kind(dtype) in "fc" else None for dtype, t in zip(outputs, found, strict=True)]


@lru_cache(maxsize=4096)
def _rule(v: Value, slots: int, wrt: tuple[int, ...]) -> Graph:
    """Return the JVP of one application to inputs, as a graph of the inputs and the tangents of `wrt`."""
    known = {a.attrs["index"]: a for a in v.args if a is not None and a.op == INPUT}
    inputs = [known[i] for i in range(slots)]
    outputs = outputs_of(v) if isinstance(v.dtype, tuple) else [v]
    shorter = QUOTIENTS.get(v.op)
    if shorter is None:
        return transposed_vjp(Graph(inputs, outputs), wrt)
    tangents = [input_value(slots + i, known[p].shape, known[p].dtype) for i, p in enumerate(wrt)]
    moving = {known[p]: t for p, t in zip(wrt, tangents, strict=True)}
    return Graph((*inputs, *tangents), [expanded(shorter(v, moving), v)])


def expanded(t: Value, y: Value) -> Value:
    """Return a tangent in the type of its value: a product with a number may have broadcast less than the value does."""
    return xp.expand(xp.cast(t, dtype=y.dtype), shape=y.shape)


def _quotient(v: Value, moving: Mapping[Value, Value]) -> Value:
    """Return (a' - y b') / b for y = a / b."""
    a, b = v.args if v.op == "div" else v.args[::-1]
    if b not in moving:
        return xp.div(moving[a], b)
    known = xp.mul(v, moving[b])
    return xp.div(moving[a] - known if a in moving else -known, b)


QUOTIENTS: dict[str, Callable[[Value, Mapping[Value, Value]], Value]] = dict.fromkeys(("div", "rdiv"), _quotient)
"""Rows with a shorter tangent than the transpose of their VJP, by name."""
