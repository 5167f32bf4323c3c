"""A function run under capture, and what it did as a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.compiler.graph.ir import Graph
from symgrad.compiler.lines import user_line
from symgrad.compiler.tracing.aliases import overlaps
from symgrad.compiler.tracing.capture import Capture, tracing
from symgrad.compiler.tracing.histories import Histories, hand_over
from symgrad.compiler.tracing.results import results, with_tensors
from symgrad.compiler.tracing.signature import held_by
from symgrad.compiler.tracing.tree import unflatten
from symgrad.compiler.tracing.way import Way
from symgrad.errors import TraceError
from symgrad.mode import active, local
from symgrad.ops.promotion import kind
from symgrad.ops.weak import weak
from symgrad.resident import memory
from symgrad.tensor import Tensor, root_of, wrap


@dataclass(frozen=True)
class Trace:
    """A function as a graph. Its inputs are the arguments, then the captured tensors."""

    graph: Graph
    captured: tuple[Tensor, ...]
    structure: Any
    """The container of the results, see `symgrad.compiler.tracing.tree`."""
    path: Way
    capture: Capture
    result: Any
    """What the function returned when it was traced."""
    same: tuple[tuple[int, int], ...] = ()
    """Results that are tensors from outside which were written to: their positions, and those of the inputs."""

    def forget(self) -> None:
        """Let go of the result."""
        object.__setattr__(self, "result", None)

    def entitle(self, titles: Mapping[int, str]) -> None:
        """Give names to what the run itself has made for later ones, as an optimizer its state."""
        labels = self.capture.labels
        for i in self.capture.unnamed:
            title = titles.get(id(self.capture.outside[i]))
            labels[i] = labels[i] if title is None else self.capture.label(title)
        object.__setattr__(self, "graph", Graph(self.graph.inputs, self.graph.outputs, labels))


def trace(
    function: Callable[[Sequence[Tensor]], Any],
    args: Sequence[Any],
    labels: Sequence[str],
    names: Mapping[int, str] = MappingProxyType({}),
    titles: Mapping[int, str] = MappingProxyType({}),
    *,
    follow: bool = False,
    effects: bool = False,
    numbers: bool = True,
    abstract: bool = False,
    asked: Sequence[bool] | None = None,
    lifted: Sequence[Tensor] = (),
) -> Trace:
    """Run `function` on a list of tensors made from `args` (tensors, arrays, or shapes without data), and freeze what it did.
    If it is followed, Python may branch on values: the graph is that of the path taken, with the `numbers` that were there.
    Without effects the floating-point arguments require grad, or those that are `asked`; so do captured tensors that are `lifted`."""
    capture = Capture(abstract or any(not isinstance(a, (Tensor, np.ndarray)) for a in args), names, follow, effects)
    capture.numbers, capture.titles = capture.numbers and numbers, titles
    related = _related(args) if effects else ()
    inputs = [_stand_in(a, effects, i in related, asked is None or asked[i]) for i, a in enumerate(args)]
    values = [capture.argument(t, label) for t, label in zip(inputs, labels, strict=True)]
    capture.arguments = len(values)
    given: list[Any] = list(inputs)
    for j, arg in enumerate(args):
        i = next(i for i, other in enumerate(args) if other is arg)
        if effects and i < j:  # the same tensor again: one stand-in for both, so that a write to one is a write to the other
            given[j] = inputs[i]
            capture.unused.add(id(inputs[j]))
    for i, cls in enumerate(getattr(function, "weak", ())):
        if cls is not None:
            given[i] = weak(cls(inputs[i]._array.item()), values[i], capture.path.ask)
    mode = local.mode
    if tracing():
        raise TraceError(f"{user_line()}: a function is already being traced: trace them one after the other")
    before = mode.capture, mode.recording, capture
    watch = getattr(before[0], "around", None)  # who looks for NaN goes on looking
    mode.watch(capture if watch is None else watch(capture))
    mode.recording = capture.recorded
    active.append(capture)
    try:
        with lifting(lifted):
            result = with_tensors(function(given), getattr(function, "numbers_alone", False))
        _restore(*before)
        leaves, structure = results(result, effects)
        outputs = [capture.value(t) for t in leaves]
        capture.after = Histories(capture)
        given_back = hand_over(capture, inputs, args, leaves) if effects else {}
        if any(id(t) in given_back for t in leaves):  # the function returns an argument, or what it has made of it in place
            result = unflatten(structure, [given_back.get(id(t), t) for t in leaves])
    except BaseException as error:
        _restore(*before)
        capture.journal.roll_back()
        explained = capture.explained(error)
        if explained is not error:
            raise explained from error
        raise
    capture.before |= {id(t): (t._node, t._requires_grad) for t in lifted if id(t) in capture.before}
    written = {id(t): i for i, t in enumerate(capture.outside) if id(t) in capture.written_outside}
    same = tuple((j, written[id(t)]) for j, t in enumerate(leaves) if id(t) in written)
    graph = Graph(capture.inputs, outputs, capture.labels)
    return Trace(graph, tuple(capture.captured), structure, capture.path, capture, result, same)


@contextlib.contextmanager
def lifting(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Let floating-point tensors require grad for a while."""
    changed = [t for t in tensors if not t._requires_grad and kind(memory(t).dtype) in "fc"]
    try:
        for t in changed:
            t._requires_grad = True
        yield
    finally:
        for t in changed:
            t._requires_grad = False


def _restore(capture: Any, recording: bool, traced: Capture) -> None:
    mode = local.mode
    if traced in active:
        active.remove(traced)
    mode.watch(capture)
    mode.recording = recording


def _related(args: Sequence[Any]) -> set[int]:
    """Arguments that share memory with others: one may be a view of another, and have a part in its history."""
    pairs = overlaps([held_by(a) for a in args])
    return {k for i, j, _ in pairs if args[i] is not args[j] for k in (i, j)}


def _stand_in(arg: Any, effects: bool, related: bool, asked: bool) -> Tensor:
    """What the function gets for an argument: a tensor of its own, lest one that the function also brings along be taken for it. With
    effects it shares the argument's memory, and if gradients are asked for, or it is related to others, it is the argument itself, since
    the traced call is the first one; without, derivatives inside may be asked of it."""
    if effects and isinstance(arg, Tensor):
        if related or (arg.requires_grad and (arg._owner is None or arg._node is None)):
            return arg
        t = wrap(arg._array.view(), arg._requires_grad, arg._node)
        t._base, t._made, t._grad = root_of(arg), arg._made, arg._grad
        return t
    array = np.asarray(arg._held) if isinstance(arg, Tensor) else arg
    array = array.view() if isinstance(array, np.ndarray) else np.broadcast_to(np.zeros((), arg.dtype), arg.shape)
    return wrap(array, asked and not effects and kind(array.dtype) in "fc")
