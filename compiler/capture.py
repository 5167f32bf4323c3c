"""From a recorded run to a graph, in two ways.

    trace     run a function under the dispatcher's capture: every op is seen, also those under no_grad. Arguments are inputs,
              and so is every tensor that the function brings along; it is read again at each run of the graph.
    history   freeze what led to a result, out of the autograd tape; works after backward() too, when the arrays are gone.

Tracing is for functions whose values stay in the graph: a write in place, or a value that leaves for Python, is a TraceError that
names the line.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import symgrad
from symgrad.compiler.builder import apply, xp
from symgrad.compiler.formula.user import of_function
from symgrad.compiler.ir import Graph, Value, input_value, literal
from symgrad.compiler.tree import flatten
from symgrad.dispatch import tensors
from symgrad.engine import key_of, node_of
from symgrad.errors import GraphError, TraceError, describe
from symgrad.graph import Constant, Node, Output
from symgrad.mode import Observer, local
from symgrad.ops.generator import Generator, default_generator
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, refresh, wrap

_PACKAGE = str(Path(symgrad.__file__).parent)


_WAYS = {  # what to write in place of what takes a value out of the graph
    "backward()": "use func.grad or func.value_and_grad",
    "autograd.grad()": "pass create_graph=True, or use func.grad",
    "bool(tensor)": "use where(condition, x, y) for a choice",
    "a mask": "use where(mask, x, 0) to keep the size",
}
_ANSWERS: dict[str, Any] = {"bool(tensor)": bool, "int(tensor)": int}
"""What a function that is followed may ask for."""


def user_line() -> str:
    """Where the user's code is now: `model.py:12`."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _state_of_random() -> bytes:
    return Generator.get_state(default_generator).tobytes()


@dataclass
class Way:
    """What Python asked for on its way through a function, and the answers that it went on with."""

    values: list[Value] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    @property
    def outcomes(self) -> tuple[Any, ...]:
        return tuple(self.answers)


@functools.cache
def undifferentiable(row: Row) -> Row:
    """The row of what a Function gave: its first argument, of which there is no derivative in the others."""
    return dataclasses.replace(
        row, numpy=lambda x, *others, line: x, type=lambda x, *others, line: Meta(x.shape, x.dtype), attrs=("line",), outputs=1,
        compose=lambda xp, x, *others, line: x,
    )  # fmt: skip


class Capture:
    """What the dispatcher calls while a function is traced: see `symgrad.mode.Mode.capture`."""

    def __init__(self, abstract: bool, names: Mapping[int, str], follow: bool = False) -> None:
        self.abstract = abstract
        self.follow = follow and not abstract
        """Whether Python may ask for the truth of a tensor, and take the way that it takes."""
        self.path = Way()
        self.names = names
        """What tensors that the function brings along are called, by their ids."""
        self.drawn = _state_of_random()
        self.inputs: list[Value] = []
        self.labels: list[str] = []
        self.captured: list[Tensor] = []
        self.known: dict[int, Value] = {}
        self.arrays: dict[int, Value] = {}
        self.nodes: dict[Any, Value] = {}
        self.alive: list[Tensor] = []

    def __call__(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        operands = tuple(self.value(a) if isinstance(a, Tensor) else a for a in args)
        try:
            values = apply(row, operands, attrs)
        except RuntimeError as error:  # the op itself ran: what its type rule lacks is a value
            raise TraceError(f"{user_line()}: {error}; leave the function eager") from error
        if not isinstance(result, tuple):
            result, values = (result,), (values,)
        for t, v in zip(result, values, strict=True):
            self.enter(t, v if local.mode.recording else xp.detach(v))

    def written(self, t: Tensor) -> None:
        raise TraceError(
            f"{user_line()}: a tensor is written to in place inside a traced function; write y = x + 1 in place of x += 1,"
            " or leave the function eager"
        )

    def left(self, t: Tensor, how: str) -> None:
        asked = next((kind for start, kind in _ANSWERS.items() if how.startswith(start)), None)
        if self.follow and asked is not None and t._array.size == 1:
            self.path.values.append(self.value(t))
            self.path.answers.append(asked(t._array.item()))
            return
        way = next((way for start, way in _WAYS.items() if how.startswith(start)), "compute with tensors instead")
        raise TraceError(
            f"{user_line()}: {how} takes a value out of the graph of a traced function, and its formula and kernel cannot follow it there;"
            f" {way}, or leave the function eager"
        )

    def meaning(self, row: Row, args: tuple[Any, ...]) -> Any:
        """A Function that says what it means is traced as that, with recorded ops; its own forward and backward do not run."""
        return of_function(tensors, row, args, lambda x: isinstance(x, Tensor))

    def called(self, row: Row, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """A Function that does not: its forward was traced, and its backward cannot be."""
        given = tuple(self.value(a) for a in args if isinstance(a, Tensor) and a._requires_grad)
        for t in results:
            if isinstance(t, Tensor) and t._requires_grad:
                self.enter(t, apply(undifferentiable(row), (self.value(t), *given), {"line": user_line()}))

    def refuse_random(self) -> None:
        """What was drawn while tracing would be drawn once and for all."""
        if self.drawn != _state_of_random():
            raise TraceError(
                f"{user_line()}: random numbers are drawn inside a traced function, which would repeat them at every run; draw them"
                " outside and pass them in, or leave the function eager"
            )

    def filled(self, t: Tensor, number: int) -> None:
        """A tensor that autograd made of one number is that number."""
        self.enter(t, xp.expand(literal(number, t._array.dtype), shape=t._array.shape))

    def enter(self, t: Tensor, value: Value) -> None:
        self.known[id(t)] = self.arrays[id(t._array)] = value
        if t._node is not None:
            self.nodes[key_of(t._node)] = value
        self.alive.append(t)

    def value(self, t: Tensor) -> Value:
        """What stands for a tensor: a value of the graph, or a new input if the function brought it along."""
        found = self.known.get(id(t))
        if found is not None:
            return found
        origin = None if t._node is None else self.nodes.get(key_of(t._node))
        if origin is not None:  # an array that backward had saved, with its history given back
            return xp.cast(origin, dtype=t._array.dtype)  # type: ignore[no-any-return]
        same = self.arrays.get(id(t._array))
        if same is not None:  # the same memory without its history: detach()
            return xp.detach(same)  # type: ignore[no-any-return]
        self.refuse_random()
        self.captured.append(t)
        return self.argument(t, t.name or self.names.get(id(t)) or f"c{len(self.captured)}")

    def argument(self, t: Tensor, label: str) -> Value:
        value = input_value(len(self.inputs), t._array.shape, t._array.dtype)
        while label in self.labels:
            label += "_"
        self.inputs.append(value)
        self.labels.append(label)
        self.enter(t, value)
        return value


def tracing() -> bool:
    """Is a function being traced in this thread? Observers, such as anomaly mode, may stand in front."""
    capture = local.mode.capture
    while isinstance(capture, Observer):
        capture = capture.outer
    return capture is not None


@dataclass(frozen=True)
class Trace:
    """A function as a graph. Its inputs are the arguments, then the captured tensors."""

    graph: Graph
    captured: tuple[Tensor, ...]
    structure: Any
    """The container of the results, see `symgrad.compiler.tree`."""
    path: Way


def trace(
    function: Callable[[Sequence[Tensor]], Any],
    args: Sequence[Any],
    labels: Sequence[str],
    names: Mapping[int, str] = MappingProxyType({}),
    *,
    follow: bool = False,
) -> Trace:
    """Run `function` on a list of tensors made from `args` (tensors, arrays, or shapes without data), and freeze what it did.
    If it is followed, Python may branch on values: the graph is that of the path taken."""
    capture = Capture(any(not isinstance(a, (Tensor, np.ndarray)) for a in args), names, follow)
    inputs = [_stand_in(a) for a in args]
    for t, label in zip(inputs, labels, strict=True):
        capture.argument(t, label)
    mode = local.mode
    if tracing():
        raise TraceError(f"{user_line()}: a function is already being traced: trace them one after the other")
    before = mode.capture, mode.recording
    mode.capture, mode.recording = capture, True
    try:
        result = function(inputs)
    finally:
        mode.capture, mode.recording = before
    leaves, structure = flatten(result, lambda x: isinstance(x, Tensor))
    if not leaves:
        raise TraceError(f"the function must return a tensor or tensors, got {describe(result)}")
    outputs = [capture.value(t) for t in leaves]
    return Trace(Graph(capture.inputs, outputs, capture.labels), tuple(capture.captured), structure, capture.path)


def _stand_in(arg: Any) -> Tensor:
    """A tensor of its own for an argument, so that the same tensor passed twice makes two inputs; derivatives inside may ask for it."""
    array = arg._array if isinstance(arg, Tensor) else arg
    array = array.view() if isinstance(array, np.ndarray) else np.broadcast_to(np.zeros((), arg.dtype), arg.shape)
    return wrap(array, kind(array.dtype) in "fc")


@dataclass(frozen=True)
class History:
    """What led to a result. `leaves` are the tensors behind the inputs, None for a constant whose values were not kept."""

    graph: Graph
    leaves: tuple[Tensor | None, ...]


def history(result: Tensor) -> History:
    """The recorded history of a tensor: leaves that require grad, and constants, are inputs."""
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
    """The values of a recorded node, given those of its arguments."""
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
