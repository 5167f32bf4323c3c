"""A function run under capture, and what it did as a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.guards.conditions import PathConditions
from symgrad.compiler.inputs.pytree import unflatten
from symgrad.compiler.inputs.signature import storage_or_spec
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.histories import HistoryChanges, transfer_histories
from symgrad.compiler.trace.results import flatten_results, numbers_to_tensors
from symgrad.compiler.trace.tracer import Capture, is_tracing
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.mode import active_captures, local
from symgrad.ops.promotion import kind
from symgrad.ops.symbolic_scalar import make_symbolic_scalar
from symgrad.tensor import Tensor, root_of, wrap


@dataclass(frozen=True)
class Trace:
    """A function as a graph. Its inputs are the arguments, then the captured tensors."""

    graph: Graph
    captured: tuple[Tensor, ...]
    structure: Any
    """The container of the results, see `symgrad.compiler.inputs.pytree`."""
    path: PathConditions
    capture: Capture
    result: Any
    """What the function returned when it was traced."""
    returned_inputs: tuple[tuple[int, int], ...] = ()
    """Results that are tensors from outside which were written to: their positions, and those of the inputs."""

    def release_result(self) -> None:
        """Let go of the result."""
        object.__setattr__(self, "result", None)

    def assign_names(self, tensor_names: Mapping[int, str]) -> None:
        """Give names to what the run itself has made for later ones, as an optimizer its state."""
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
) -> Trace:
    """Run `function` on a list of tensors made from `args` (tensors, arrays, or shapes without data), and freeze what it did.
    If it is followed, Python may branch on values: the graph is that of the path taken, with the `inline_scalars` that were there.
    Without effects the floating-point arguments require grad, or those that are `requires_grad`; so do captured tensors that are
    `captured_with_grad`."""
    capture = Capture(abstract or any(not isinstance(a, (Tensor, np.ndarray)) for a in args), names, allow_branches, effects)
    capture.inline_scalars, capture.tensor_names = capture.inline_scalars and inline_scalars, tensor_names
    related = _aliased_arguments(args) if effects else ()
    inputs = [_traced_argument(a, effects, i in related, requires_grad is None or requires_grad[i]) for i, a in enumerate(args)]
    values = [capture.add_input(t, label) for t, label in zip(inputs, labels, strict=True)]
    capture.arguments = len(values)
    given: list[Any] = list(inputs)
    for j, arg in enumerate(args):
        i = next(i for i, other in enumerate(args) if other is arg)
        if effects and i < j:  # the same tensor again: one stand-in for both, so that a write to one is a write to the other
            given[j] = inputs[i]
            capture.duplicate_arguments.add(id(inputs[j]))
    for i, cls in enumerate(getattr(function, "scalar_types", ())):
        if cls is not None:
            given[i] = make_symbolic_scalar(cls(inputs[i]._array.item()), values[i], capture.path.add_scalar_condition)
    mode = local.mode
    if is_tracing():
        raise TraceError(f"{user_line()}: a function is already being traced: trace them one after the other")
    before = mode.capture, mode.recording, capture
    watch = getattr(before[0], "around", None)  # who looks for NaN goes on looking
    mode.swap_capture(capture if watch is None else watch(capture))
    mode.recording = capture.was_recording
    active_captures.append(capture)
    try:
        with requiring_grad(captured_with_grad):
            result = numbers_to_tensors(function(given), getattr(function, "numbers_alone", False))
        _restore(*before)
        leaves, structure = flatten_results(result, effects)
        outputs = [capture.value(t) for t in leaves]
        capture.history_changes = HistoryChanges(capture)
        given_back = transfer_histories(capture, inputs, args, leaves) if effects else {}
        if any(id(t) in given_back for t in leaves):  # the function returns an argument, or what it has made of it in place
            result = unflatten(structure, [given_back.get(id(t), t) for t in leaves])
    except BaseException as error:
        _restore(*before)
        capture.journal.roll_back()
        explained = capture.original_refusal(error)
        if explained is not error:
            raise explained from error
        raise
    capture.initial_histories |= {id(t): (t._node, t._requires_grad) for t in captured_with_grad if id(t) in capture.initial_histories}
    written = {id(t): i for i, t in enumerate(capture.input_tensors) if id(t) in capture.written_inputs}
    same = tuple((j, written[id(t)]) for j, t in enumerate(leaves) if id(t) in written)
    graph = Graph(capture.inputs, outputs, capture.labels)
    return Trace(graph, tuple(capture.captured), structure, capture.path, capture, result, same)


@contextlib.contextmanager
def requiring_grad(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Let floating-point tensors require grad for a while."""
    changed = [t for t in tensors if not t._requires_grad and kind(storage_of(t).dtype) in "fc"]
    try:
        for t in changed:
            t._requires_grad = True
        yield
    finally:
        for t in changed:
            t._requires_grad = False


def _restore(capture: Any, recording: bool, traced: Capture) -> None:
    mode = local.mode
    if traced in active_captures:
        active_captures.remove(traced)
    mode.swap_capture(capture)
    mode.recording = recording


def _aliased_arguments(args: Sequence[Any]) -> set[int]:
    """Arguments that share memory with others: one may be a view of another, and have a part in its history."""
    pairs = aliased_pairs([storage_or_spec(a) for a in args])
    return {k for i, j, _ in pairs if args[i] is not args[j] for k in (i, j)}


def _traced_argument(arg: Any, effects: bool, related: bool, requires_grad: bool) -> Tensor:
    """What the function gets for an argument: a tensor of its own, lest one that the function also captures be taken for it. With
    effects it shares the argument's memory, and if gradients are asked for, or it is related to others, it is the argument itself, since
    the traced call is the first one; without, derivatives inside may be asked of it."""
    if effects and isinstance(arg, Tensor):
        if related or (arg.requires_grad and (arg._owner is None or arg._node is None)):
            return arg
        t = wrap(arg._array.view(), arg._requires_grad, arg._node)
        t._base, t._made, t._grad = root_of(arg), arg._made, arg._grad
        return t
    array = np.asarray(arg._storage) if isinstance(arg, Tensor) else arg
    array = array.view() if isinstance(array, np.ndarray) else np.broadcast_to(np.zeros((), arg.dtype), arg.shape)
    return wrap(array, requires_grad and not effects and kind(array.dtype) in "fc")
