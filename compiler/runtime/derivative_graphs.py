"""The graphs of the derivatives of a program, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from symgrad.compiler.algebra import dense, structured
from symgrad.compiler.autodiff import forward, jacobian, jets, pull as differentiate
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph
from symgrad.ops.promotion import kind, promote_types


def _value_and_grad(graph: Graph, wrt: tuple[int, ...]) -> Graph:
    gradient = differentiate.grad(graph, wrt)
    return Graph(gradient.inputs, (*graph.outputs, *gradient.outputs), gradient.labels)


DERIVATIVE_GRAPHS: dict[str, Callable[[Graph, tuple[int, ...]], Graph]] = {
    "vjp": differentiate.vjp,
    "jvp": forward.jvp,
    "grad": differentiate.grad,
    "value_and_grad": _value_and_grad,
    "jacobian": dense.jacobian,
    "hessian": dense.hessian,
    "hvp": jacobian.hvp,
    "structured_jacobian": lambda graph, wrt: structured.structured_jacobian(graph, wrt).graph,
    "structured_hessian": lambda graph, wrt: structured.structured_hessian(graph, wrt).graph,
}
"""Functions from a graph and the positions of inputs to the graph of a derivative, by the name of the derivative. `Program.kernel` compiles
these graphs; a new kind of derivative is a new item."""
_TAYLOR, _ALONG_ONES = "taylor ", " along ones"


def taylor_name(order: int, along_ones: bool) -> str:
    """Return the name of the Taylor coefficients 0 to `order`: along directions that are further inputs, or `along_ones`."""
    return f"{_TAYLOR}{order}{_ALONG_ONES * along_ones}"


def taylor_order(what: str) -> int | None:
    """Return the order of the Taylor coefficients of this name; None for another derivative."""
    number = what.removeprefix(_TAYLOR).removesuffix(_ALONG_ONES)
    return int(number) if what.startswith(_TAYLOR) and number.isdecimal() else None


def _taylor(what: str, order: int) -> Callable[[Graph, tuple[int, ...]], Graph]:
    return lambda graph, wrt: jets.taylor(graph, wrt, order, along_ones=what.endswith(_ALONG_ONES))


def derivative_graph(what: str, graph: Graph, wrt: tuple[int, ...], scalar_types: Sequence[type | None] = ()) -> Graph:
    """Return the graph of a derivative with respect to the inputs `wrt`. `scalar_types` has the types of the Python numbers among the
    arguments: see `Call`."""
    order = taylor_order(what)
    if order is not None:  # coefficients have the dtypes of the results
        return _taylor(what, order)(graph, wrt)
    if what not in DERIVATIVE_GRAPHS:
        raise ValueError(f"there is 'forward', {', '.join(map(repr, DERIVATIVE_GRAPHS))}, and no {what!r}")
    derived = DERIVATIVE_GRAPHS[what](graph, wrt)
    floats = {i for i, cls in enumerate(scalar_types) if cls is float}
    return _typed_as_results(derived, graph, what, [i in floats for i in wrt]) if floats.intersection(wrt) else derived


def _typed_as_results(derived: Graph, graph: Graph, what: str, floats: Sequence[bool]) -> Graph:
    """Cast derivatives with respect to Python floats to the dtype of the result. Programs read such arguments as float64, but in eager code
    they have no dtype."""
    if what == "jvp" or what.startswith("structured_"):  # a tangent of the result, or a matrix, already has its dtype
        return derived
    count, first = len(floats), len(graph.outputs) if what == "value_and_grad" else 0
    each = count * count if what == "hessian" else count
    outputs = list(derived.outputs)
    types = [v.dtype for v in graph.outputs]
    if what == "vjp":  # one sum over all results
        types = [functools.reduce(promote_types, types)]
    for k in range(len(outputs) - first):
        like = types[k // each]
        if floats[k % count] and kind(like) == kind(outputs[first + k].dtype) == "f":
            outputs[first + k] = xp.cast(outputs[first + k], dtype=like)
    return Graph(derived.inputs, outputs, derived.labels)
