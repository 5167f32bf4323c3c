"""Derivatives in reverse mode, graph to graph: the chain rule on shared values, with the rules of the op table.

    vjp    outputs and their cotangents  ->  the cotangents of inputs
    grad   the cotangents for a cotangent of one

`forward.py` has the other direction, tangents of inputs to tangents of outputs.

A derivative is an ordinary graph, so higher orders repeat the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

from symgrad.compiler.autodiff.symmetry import distinct, is_symmetric
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import CUSTOM
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, input_value, output, row_of, toposort, type_text
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import rebuild
from symgrad.compiler.rewrite.drop_hooks import drop_hooks
from symgrad.errors import GraphError
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import unbroadcast
from symgrad.ops.spec import Meta, Row
from symgrad.ops.variants import variant


def pull(cotangents: Mapping[Value, Value], wrt: Sequence[Value]) -> list[Value]:
    """Return the cotangents of `wrt`, given those of some values that depend on them."""
    pending: dict[Value, Value] = {}
    order = toposort(cotangents)
    on_the_way = dependents(order, wrt, is_differentiable)
    for value, g in cotangents.items():
        _receive(pending, value, g)
    wanted: dict[Value, Value | None] = dict.fromkeys(wrt)
    for value in reversed(order):
        if value in wanted:
            wanted[value] = pending.get(value)
        if value in on_the_way and value.op not in (INPUT, OUTPUT):
            try:
                _pull_one(value, pending, on_the_way)
            except GraphError as error:
                error.value = value if error.value is None else error.value  # lets the caller name the user's line
                raise
    zeros = {v: filled(xp, 0, Meta(v.shape, v.dtype)) for v, g in wanted.items() if g is None}
    return [zeros[v] if v in zeros else wanted[v] for v in wrt]  # type: ignore[misc]


def dependents(order: Iterable[Value], wrt: Sequence[Value], by: Callable[[Value, int], bool] = lambda value, i: True) -> set[Value]:
    """Return the values that depend on `wrt` through arguments that satisfy `by(value, position)`."""
    found = set(wrt)
    for value in order:
        if any([a in found and by(value, i) for i, a in enumerate(value.args)]):
            found.add(value)
    return found


def differentiable_values(graph: Graph) -> set[Value]:
    """Return the values in which some output has a derivative."""
    reached = {v for v in graph.outputs if isinstance(v.dtype, tuple) or kind(v.dtype) in "fc"}
    for value in reversed(graph.values):
        if value in reached:
            reached.update(a for i, a in enumerate(value.args) if a is not None and is_differentiable(value, i))
    return reached


def differentiable_inputs(graph: Graph) -> set[int]:
    """Return the positions of the inputs in which some output has a derivative."""
    reached = differentiable_values(graph)
    return {i for i, x in enumerate(graph.inputs) if x in reached}


def is_differentiable(value: Value, i: int) -> bool:
    """True if a value has a derivative in argument i; no cotangent is sent to an argument without one."""
    return value.row is None or value.row.pullback is not None or value.row.rule(i) is not None


def _receive(pending: dict[Value, Value], value: Value, g: Value) -> None:
    pending[value] = pending[value] + g if value in pending else g


def _pull_one(value: Value, pending: dict[Value, Value], on_the_way: set[Value]) -> None:
    """Pass the cotangent of an application to its arguments."""
    row = variant(row_of(value), (a for a in value.args if a is not None))
    g, out = _cotangent_and_result(value, pending)
    if g is None:
        return
    if row.pullback is not None:
        return _pull_jointly(value, row.pullback, (g, out), pending, on_the_way)
    weak = row.elementwise and row.policy not in ("each", "same")  # numbers stay weak, as in eager rules of such rows
    args = tuple([a.value if weak and a is not None and a.op == LITERAL else a for a in value.args])
    for arg, result in contributions(value, row, args, g, out, on_the_way):
        _receive(pending, arg, xp.cast(result, dtype=arg.dtype))


def contributions(value: Value, row: Row, args: Sequence[Any], g: Any, out: Any, on_the_way: set[Value]) -> Iterator[tuple[Value, Value]]:
    """Iterate over pairs (argument, cotangent) that the rules of an application, called with `args`, return for the arguments in
    `on_the_way`."""
    if row.prepare is not None:
        g = row.prepare(xp, g, out, *args, **value.attrs)
    for i, arg in enumerate(value.args):
        rule = row.rule(i) if arg in on_the_way else None
        if rule is None or kind(arg.dtype) not in "fc":
            continue
        attrs = {"index": i, **value.attrs} if row.variadic else value.attrs
        result = rule(xp, g, out, *args, **attrs)
        if result is not None:
            yield arg, result if result.shape == arg.shape else unbroadcast(xp, result, arg.shape)


class _GraphBackend:
    """The interface that a pullback expects of the backward pass, on graph values."""

    raw = False
    xp = xp

    def __init__(self, out: Any) -> None:
        self.out = out

    def arguments(self, value: Value) -> tuple[Any, Any]:
        return value.args, self.out


def _pull_jointly(value: Value, pullback: Callable[..., Any], end: Any, pending: dict[Value, Value], on_the_way: set[Value]) -> None:
    """Pass the cotangents of an application to its arguments by the row's joint pullback: a loop, a branch or a Function."""
    if "line" in value.attrs:
        raise GraphError(
            f"{value.op} is a Function of the user's, and no graph can follow its backward: {value.attrs['line']}. Or give it a static"
            " method symbolic(*args): its meaning as an expression of SymPy's, for symbols in place of tensors"
        )
    g, out = end
    needs = [a in on_the_way and kind(a.dtype) in "fc" for a in value.args]
    for arg, result in zip(value.args, pullback(_GraphBackend(out), value, g, needs), strict=True):
        if result is not None:
            _receive(pending, arg, result)


def _cotangent_and_result(value: Value, pending: dict[Value, Value]) -> tuple[Any, Any]:
    """Return the cotangent and the result of an application in the form that its rules expect; tuples for several outputs."""
    if not isinstance(value.dtype, tuple):
        return pending.pop(value, None), value
    outs = tuple(output(value, i) for i in range(len(value.dtype)))
    gs = tuple(pending.pop(o, None) for o in outs)
    return (gs if any(g is not None for g in gs) else None), outs


def vjp(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs and a cotangent for each output, whose outputs are the cotangents of the inputs `wrt`
    (positions)."""
    start = len(graph.inputs)
    cotangents = [input_value(start + i, v.shape, v.dtype) for i, v in enumerate(graph.outputs)]
    names = ["g"] if len(cotangents) == 1 else [f"g{i}" for i in range(len(cotangents))]
    labels = (*graph.labels, *(fresh(name, graph.labels) for name in names))
    return Graph((*graph.inputs, *cotangents), pull(_sum_by_output(graph, cotangents), chosen_inputs(graph, wrt)), labels)


def _sum_by_output(graph: Graph, cotangents: Sequence[Value]) -> dict[Value, Value]:
    total: dict[Value, Value] = {}
    for v, g in zip(graph.outputs, cotangents, strict=True):
        if kind(v.dtype) in "fc":
            _receive(total, v, g)
    return total


def grad(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """Return a graph with the same inputs, whose outputs are the gradients of the single scalar output in the inputs `wrt`."""
    y = require_one_number(graph)
    seed = filled(xp, 1, Meta(y.shape, y.dtype))
    return Graph(graph.inputs, pull({y: seed}, chosen_inputs(graph, wrt)), graph.labels)


def require_one_number(graph: Graph) -> Value:
    """Return the single real scalar output of a graph, or raise GraphError: nothing else has a gradient."""
    if len(graph.outputs) != 1 or graph.outputs[0].size != 1:
        given = ", ".join(type_text(v) for v in graph.outputs)
        raise GraphError(f"grad can be implicitly created only for scalar outputs, got {given}: return one number, such as a sum")
    (y,) = graph.outputs
    if kind(y.dtype) == "c":
        raise GraphError(f"grad can be implicitly created only for real scalar outputs, got {type_text(y)}: return a real one, or use vjp")
    if kind(y.dtype) not in "fc":
        raise GraphError(f"only floating-point outputs have a gradient, got {type_text(y)}")
    return y


def transposed_vjp(graph: Graph, wrt: Sequence[int]) -> Graph:
    """Return a graph with the same inputs and a tangent for each of `wrt`, whose outputs are the tangents of the outputs. It is the VJP,
    differentiated in its cotangents: the rule of forward mode for one row."""
    if (value := nonlinear(graph)) is not None:
        raise nonlinear_error(value)
    chosen, start = chosen_inputs(graph, wrt), len(graph.inputs)
    tangents = [input_value(start + i, v.shape, v.dtype) for i, v in enumerate(chosen)]
    seeds = [input_value(start + len(chosen) + i, v.shape, v.dtype) for i, v in enumerate(graph.outputs)]
    pulled = pull(_sum_by_output(graph, seeds), chosen)  # linear in the seeds, so its transpose does not depend on them
    total: dict[Value, Value] = {}
    for v, t in zip(pulled, tangents, strict=True):
        _receive(total, v, t)
    return Graph((*graph.inputs, *tangents), _at_ones(pull(total, seeds), seeds))


def nonlinear_error(value: Value) -> GraphError:
    """Return the error for a Function value that has no forward derivative."""
    error = GraphError("the backward of a Function is not linear in the gradient, so that no forward derivative follows from it")
    error.value = value
    return error


def nonlinear(graph: Graph) -> Value | None:
    """Return a Function value whose backward is not linear in the cotangents, or None: a JVP is the transpose of a linear VJP."""
    functions = (v for v in graph.values if v.row is CUSTOM)
    return next((v for v in functions if not _is_linear(v.attrs["backward"], v.attrs["results"])), None)


@lru_cache(maxsize=1024)
def _is_linear(backward: Graph, results: int) -> bool:
    """True if the derivative of a backward in its first `results` inputs, the cotangents, does not depend on them."""
    cotangents = backward.inputs[:results]
    start = len(backward.inputs)
    seeds = {v: input_value(start + i, v.shape, v.dtype) for i, v in enumerate(backward.outputs)}
    return not set(cotangents) & set(toposort(pull(seeds, cotangents)))


def _at_ones(values: list[Value], seeds: Sequence[Value]) -> list[Value]:
    """Return the values, which do not depend on the seeds, with 1 in place of each seed that rules read anyway (for its shape, or to treat
    0 specially)."""
    order = toposort(values)
    ones = {v: filled(xp, 1, Meta(v.shape, v.dtype)) for v in set(seeds).intersection(order)}
    return interpret(values, ones, rebuild, order=order) if ones else values


@dataclass(frozen=True)
class Derivative:
    """A derivative of some order as a linear form. Its own indices are those of the last input in `wrt`; each earlier index is contracted
    with a direction, an input of the shape of what was differentiated there. A unit vector as direction selects one slice."""

    wrt: tuple[int, ...]
    value: Value
    directions: tuple[Value, ...]


def derivatives(graph: Graph, wrt: Sequence[int], order: int) -> list[Derivative]:
    """Return the derivatives of the graph's only output in the inputs `wrt`, from order 1 to `order`; of those that are equal by symmetry,
    the first. Directions are inputs numbered after those of the graph; a scalar needs none."""
    free = count(len(graph.inputs))
    found: list[Derivative] = []
    level = [Derivative((), graph.outputs[0], ())]
    symmetric = order == 1 or is_symmetric(graph.outputs[0])
    for _ in range(order):
        level = [d for previous in level for d in _next(previous, graph, wrt, free, symmetric)]
        found += level if symmetric else distinct(graph, level, wrt)
    return found


def _next(previous: Derivative, graph: Graph, wrt: Sequence[int], free: Iterable[int], symmetric: bool) -> list[Derivative]:
    y, directions = previous.value, previous.directions
    if previous.wrt:  # hooks apply to the first gradient only, as in a Hessian
        (y,) = drop_hooks(Graph((*graph.inputs, *directions), (y,))).outputs
    if y.size == 1:
        seed = filled(xp, 1, Meta(y.shape, y.dtype))
    else:
        seed = input_value(next(iter(free)), y.shape, y.dtype)
        directions = (*directions, seed)
    later = wrt[wrt.index(previous.wrt[-1]) if previous.wrt and symmetric else 0 :]  # the others are transposes of these
    pulled = pull({y: seed}, [graph.inputs[i] for i in later])
    return [Derivative((*previous.wrt, i), g, directions) for i, g in zip(later, pulled, strict=True)]


def chosen_inputs(graph: Graph, wrt: Sequence[int] | None) -> list[Value]:
    if wrt is None:
        return [x for x in graph.inputs if kind(x.dtype) in "fc"]
    for i in wrt:
        if kind(graph.inputs[i].dtype) not in "fc":
            raise GraphError(f"{graph.labels[i]} is {type_text(graph.inputs[i])}: only floating-point inputs have a derivative")
    return [graph.inputs[i] for i in wrt]


def fresh(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


__all__ = ["Derivative", "derivatives", "grad", "pull", "transposed_vjp", "vjp"]
