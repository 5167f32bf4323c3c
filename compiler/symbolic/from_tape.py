"""Freeze the history of a result out of the autograd tape; works after backward(), too, when the arrays are freed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Graph, Value, input_value, literal
from symgrad.compiler.symbolic.user_ops import of_function
from symgrad.engine import key_of, node_of
from symgrad.errors import GraphError
from symgrad.graph import Constant, Node, Output
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, refresh


@dataclass(frozen=True)
class History:
    """The graph of a result. `leaves` are the tensors behind its inputs, None for a constant whose values were not kept."""

    graph: Graph
    leaves: tuple[Tensor | None, ...]


def history(result: Tensor) -> History:
    """Return the recorded history of a tensor: leaves that require grad, and constants, are inputs."""
    if result._base is not None:
        refresh(result)
    root = result if result._node is None else result._node
    known: dict[Any, Any] = {}
    inputs: list[Value] = []
    labels: list[str] = []
    leaves: list[Tensor | None] = []

    def leaf(edge: Any) -> Value:
        constant = isinstance(edge, Constant)
        label = edge.name or f"{'c' if constant else 'x'}{sum((x is None) == constant for x in leaves) + 1}"
        while label in labels:
            label += "_"
        dtype = edge.dtype if constant else edge._array.dtype
        inputs.append(input_value(len(inputs), edge.shape, dtype))
        labels.append(label)
        leaves.append(None if constant else edge)
        return inputs[-1]

    def value(edge: Any) -> Any:
        if edge is None or isinstance(edge, (bool, int, float, complex)):
            return edge
        if isinstance(edge, Constant) and edge.value is not None:
            return literal(edge.value, edge.dtype)
        key = key_of(edge)
        if key not in known:
            known[key] = leaf(edge)
        return known[key]

    for node in _oldest_first(root):
        values = _applied(node, tuple(map(value, node.inputs)))
        if isinstance(values, tuple):
            known.update({(node, i): v for i, v in enumerate(values)})
        else:
            known[node] = values
    return History(Graph(inputs, [value(root)], labels), tuple(leaves))


def _applied(node: Node, args: tuple[Any, ...]) -> Any:
    """Return the values of a recorded node, given those of its arguments."""
    row = node.row
    if row.pullback is None:
        return apply(TABLE.get(row.name, row), args, node.attrs)
    if row.sympy is None:
        raise GraphError(
            f"{row.name} is a Function of the user's, whose history has no formula; give it a static method symbolic(*args): its meaning as"
            " an expression of SymPy's"
        )
    given = tuple(a if a is not None else x for a, x in zip(args, node.ctx._given, strict=True))  # type: ignore[attr-defined]
    found = of_function(xp, row, given, lambda x: isinstance(x, Value))
    return found if isinstance(found, tuple) else (found,)


def _oldest_first(root: Any) -> list[Node]:
    seen: set[Node] = set()
    stack = [root]
    while stack:
        edge = stack.pop()
        if isinstance(edge, (Node, Output)) and node_of(edge) not in seen:
            seen.add(node_of(edge))
            stack.extend(node_of(edge).inputs)
    return sorted(seen, key=lambda node: node.sequence)
