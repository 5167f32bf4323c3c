"""`trace()`: run a function under a capture and freeze the ops that it performed into a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.guards.conditions import MetadataCondition, PathConditions
from symgrad.compiler.inputs.signature import storage_or_spec
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.histories import HistoryChanges, transfer_histories
from symgrad.compiler.trace.results import flatten_results, numbers_to_tensors
from symgrad.compiler.trace.shortest import shortest
from symgrad.compiler.trace.tracer import GraphTracer, is_tracing
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.escapes import Metadata
from symgrad.mode import active_captures, local
from symgrad.observer import Observer
from symgrad.ops.promotion import kind
from symgrad.ops.symbolic_scalar import make_symbolic_scalar
from symgrad.pytree import unflatten
from symgrad.tensor import Tensor, added_attributes, root_of, wrap


@dataclass(frozen=True)
class Trace:
    """A traced call. The inputs of the graph are the arguments, then everything else that a run reads: captured tensors, constants, random
    draws and external scalars, in the order in which the function used them."""

    graph: Graph
    captured: tuple[Tensor, ...]
    structure: Any
    """The structure of the results: see `symgrad.pytree`."""
    path: PathConditions
    capture: GraphTracer
    result: Any
    """The return value of the traced call."""
    returned_inputs: tuple[tuple[int, int], ...] = ()
    """(result position, input position) of each result that is an input tensor which the function wrote to."""

    def release_result(self) -> None:
        """Drop the reference to the result."""
        object.__setattr__(self, "result", None)

    def assign_names(self, tensor_names: Mapping[int, str]) -> None:
        """Label the unnamed inputs that have a name after the call: state that it created for later calls, such as an optimizer's."""
        labels = self.capture.labels
        for i in self.capture.unnamed:
            title = tensor_names.get(id(self.capture.input_tensors[i]))
            labels[i] = labels[i] if title is None else self.capture.unique_label(title)
        object.__setattr__(self, "graph", Graph(self.graph.inputs, self.graph.outputs, labels))


def trace(
    function: Callable[[Sequence[Tensor]], Any],
    args: Sequence[Any],
    labels: Sequence[str],
    names: Mapping[int, str] = MappingProxyType({}),
    tensor_names: Mapping[int, str] = MappingProxyType({}),
    *,
    allow_branches: bool = False,
    effects: bool = False,
    inline_scalars: bool = True,
    abstract: bool = False,
    requires_grad: Sequence[bool] | None = None,
    captured_with_grad: Sequence[Tensor] = (),
    arrays: frozenset[int] = frozenset(),
) -> Trace:
    """Run `function` on a list of tensors made from `args` (tensors, arrays, or specs without data), and return the graph of that run.

    With `allow_branches`, Python may branch on values: the graph is that of the path taken. In a trace with branches and without effects,
    `inline_scalars` makes captured scalars literals of the graph instead of inputs. Without effects every floating-point argument requires
    grad, or those that `requires_grad` marks; the tensors in `captured_with_grad` require grad during the trace.
    `arrays` are the ids of the NumPy arrays that the function reads by name.
    """
    capture = GraphTracer(abstract or any([not isinstance(a, (Tensor, np.ndarray)) for a in args]), names, allow_branches, effects)
    capture.inline_scalars, capture.tensor_names = capture.inline_scalars and inline_scalars, tensor_names
    capture.arrays = arrays
    inputs = _add_arguments(capture, args, labels, effects, requires_grad)
    given = _with_symbolic_scalars(capture, function, _with_duplicates(capture, args, inputs) if effects else list(inputs))
    if is_tracing():
        raise TraceError(f"{user_line()}: a function is already being traced: trace them one after the other")
    try:
        result = _run(capture, function, given, captured_with_grad)
        leaves, structure = flatten_results(result, effects)
        outputs = [capture.value(t) for t in leaves]
        capture.history_changes = HistoryChanges(capture)
        given_back = transfer_histories(capture, inputs, args, leaves) if effects else {}
        if any([id(t) in given_back for t in leaves]):  # the function returns a stand-in: the caller gets the argument itself
            result = unflatten(structure, [given_back.get(id(t), t) for t in leaves])
    except BaseException as error:
        capture.journal.roll_back()
        explained = capture.original_refusal(error)
        if explained is not error:
            raise explained from error
        raise
    capture.initial_histories |= {id(t): (t._node, t._requires_grad) for t in captured_with_grad if id(t) in capture.initial_histories}
    graph = shortest(Graph(capture.inputs, outputs, capture.labels), capture.closed_forms)
    return Trace(graph, tuple(capture.captured), structure, capture.path, capture, result, _returned_inputs(capture, leaves))


def _add_arguments(
    capture: GraphTracer, args: Sequence[Any], labels: Sequence[str], effects: bool, requires_grad: Sequence[bool] | None
) -> list[Tensor]:
    """Add an input for each argument, and return the stand-ins that the function gets for them."""
    related = _aliased_arguments(args) if effects else ()
    inputs = [_traced_argument(a, effects, i in related, requires_grad is None or requires_grad[i]) for i, a in enumerate(args)]
    for t, label, arg in zip(inputs, labels, args, strict=True):
        capture.add_input(t, label)
        if isinstance(arg, Tensor) and (added := added_attributes(arg)):
            t.__dict__.update(added)
            capture.path.add_scalar_condition(MetadataCondition(capture.inputs[-1], Metadata.ATTRIBUTES, arg))
    capture.arguments, capture.given = len(inputs), args
    return inputs


def _with_duplicates(capture: GraphTracer, args: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
    """The stand-ins, with one stand-in for arguments that are the same tensor, so that all of them see a write to one."""
    given: list[Any] = list(inputs)
    first: dict[int, int] = {}
    for j, arg in enumerate(args):
        i = first.setdefault(id(arg), j)
        if i < j:
            given[j] = inputs[i]
            capture.duplicate_arguments.add(id(inputs[j]))
    return given


def _with_symbolic_scalars(capture: GraphTracer, function: Any, given: list[Any]) -> list[Any]:
    """The stand-ins, with symbolic Python scalars in place of those for Python numbers."""
    for i, cls in enumerate(getattr(function, "scalar_types", ())):
        if cls is not None:
            number = cls(capture.input_tensors[i]._array.item())
            given[i] = make_symbolic_scalar(number, capture.inputs[i], capture.path.add_scalar_condition)
    return given


def _run(capture: GraphTracer, function: Callable[[Sequence[Tensor]], Any], given: Sequence[Any], with_grad: Sequence[Tensor]) -> Any:
    """The results of `function`, run while `capture` is the tracer of this thread. An active NaN watch stays active."""
    mode = local.mode
    before, recording = mode.capture, mode.recording
    try:
        mode.swap_capture(before.around(capture) if isinstance(before, Observer) else capture)
        mode.recording = capture.was_recording
        active_captures.append(capture)
        with requiring_grad(with_grad):
            return numbers_to_tensors(function(given), getattr(function, "numbers_alone", False))
    finally:
        if capture in active_captures:
            active_captures.remove(capture)
        mode.swap_capture(before)
        mode.recording = recording


def _returned_inputs(capture: GraphTracer, leaves: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    """(result position, input position) of each result that is an input tensor which the function wrote to."""
    written = {id(t): i for i, t in enumerate(capture.input_tensors) if id(t) in capture.written_inputs}
    return tuple([(j, written[id(t)]) for j, t in enumerate(leaves) if id(t) in written])


@contextlib.contextmanager
def requiring_grad(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Context in which the floating-point and complex ones of `tensors` require grad."""
    changed = [t for t in tensors if not t._requires_grad and kind(storage_of(t).dtype) in "fc"]
    try:
        for t in changed:
            t._requires_grad = True
        yield
    finally:
        for t in changed:
            t._requires_grad = False


def _aliased_arguments(args: Sequence[Any]) -> set[int]:
    """Positions of arguments that share memory with a different argument: one may be a view of the other and share its history."""
    pairs = aliased_pairs([storage_or_spec(a) for a in args])
    return {k for i, j, _ in pairs if args[i] is not args[j] for k in (i, j)}


def _traced_argument(arg: Any, effects: bool, related: bool, requires_grad: bool) -> Tensor:
    """The stand-in that the function gets for an argument: a tensor of its own, so that a captured tensor is not mistaken for it.

    With effects the stand-in shares the argument's memory. It is the argument itself if that shares memory with others (`related`), or
    requires grad and is no recorded view, since the traced call is also the first real call. Without effects it may require grad, for
    derivatives inside the function.
    """
    if effects and isinstance(arg, Tensor):
        if related or (arg.requires_grad and (arg._owner is None or arg._node is None)):
            return arg
        t = wrap(arg._array.view(), arg._requires_grad, arg._node)
        t._base, t._made, t._grad = root_of(arg), arg._made, arg._grad
        return t
    array = np.asarray(arg._storage) if isinstance(arg, Tensor) else arg
    array = array.view() if isinstance(array, np.ndarray) else np.broadcast_to(np.zeros((), arg.dtype), arg.shape)
    return wrap(array, requires_grad and not effects and kind(array.dtype) in "fc")
