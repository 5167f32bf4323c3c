"""Changes that a traced call makes to the autograd history of tensors from outside: by a write to them, or by requires_grad_().

    def f(a, w): a -= w         after a call, the history of `a` leads to the old `a` and to `w`, and backward() reaches both

The function gets stand-ins for its arguments (see `symgrad.compiler.trace.trace`); their new histories are transferred to the arguments.
Later calls record one node for the results and for all tensors that were written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.engine import key_of, node_of
from symgrad.errors import TraceError
from symgrad.graph import Node
from symgrad.mode import guard_epoch
from symgrad.tensor import Tensor
from symgrad.views import refuse, set_history


class HistoryChanges:
    """The tensors from outside whose history a traced call changed, by input position."""

    def __init__(self, capture: Any) -> None:
        places = {id(t): (i, t) for i, t in enumerate(capture.input_tensors)}
        self.written: list[tuple[int, Value]] = []
        """Input position and new value of each tensor that got a new history by a write."""
        self.leaves: list[tuple[int, bool]] = []
        """Input position and new `requires_grad` of each tensor that became a leaf, or a leaf whose `requires_grad` changed."""
        self.keeps_history = False
        """True if backward() can run through one of the new histories."""
        for i, t in places.values():
            node, asked = capture.initial_histories[id(t)]
            if t._node is not None and t._node is not node:
                self.written.append((i, capture.value(t)))
                self.keeps_history |= can_run_backward(t)
            elif t._node is None and (node is not None or t._requires_grad is not asked):
                self.leaves.append((i, t._requires_grad))

    @property
    def values(self) -> list[Value]:
        return [value for _, value in self.written]

    @property
    def any(self) -> bool:
        return bool(self.written or self.leaves)

    def check(self, find: Callable[[int], Tensor]) -> None:
        """Raise, before a run, if a tensor that it records a write to does not allow one: a view made under no_grad, say."""
        for i, _ in self.written:
            refuse(find(i))

    def mark_leaves(self, find: Callable[[int], Tensor]) -> None:
        """Make the tensors in `leaves` leaves after a run, and set whether they require grad."""
        for i, asked in self.leaves:
            make_leaf(find(i), asked)

    def apply(self, find: Callable[[int], Tensor], recorded: Sequence[Tensor]) -> None:
        """Give the tensors in `written` their history after a run: that of `recorded`, tensors recorded in their place."""
        for (i, _), t in zip(self.written, recorded, strict=True):
            set_history(find(i), t._node)


def make_leaf(t: Tensor, requires_grad: bool) -> None:
    """Turn `t` into a leaf, and set whether it requires grad."""
    t._node, t._requires_grad = None, requires_grad
    guard_epoch.count += 1


def can_run_backward(t: Tensor) -> bool:
    """True if every node in the history of `t` still has its saved arrays."""
    return all(node.saved is not None for node in ancestor_nodes([t]))


def ancestor_nodes(tensors: Sequence[Tensor]) -> list[Node]:
    """All nodes in the histories of `tensors`."""
    stack, seen = [t._node for t in tensors], {}
    while stack:
        node = node_of(stack.pop())
        if isinstance(node, Node) and node not in seen:
            seen[node] = True
            stack += node.inputs
    return list(seen)


def refuse_backward(tensors: Any, outside: Mapping[Any, str]) -> None:
    """Raise TraceError if backward() from `tensors` would continue into history that was recorded before the call, which no program can
    repeat. `outside` maps the keys of the nodes that inputs had before the call to the labels of the inputs."""
    found = [t for t in (tensors if isinstance(tensors, (list, tuple)) else [tensors]) if isinstance(t, Tensor)]
    edges = [key_of(e) for node in ancestor_nodes(found) for e in node.inputs] if outside else []
    for key in (*(key_of(t._node) for t in found), *edges):
        label = outside.get(key)
        if label is not None:
            raise TraceError(
                f"{user_line()}: backward() is called inside a traced function, and {label} was computed from tensors that require grad"
                f" outside of it; pass {label}.detach(), or let the function compute {label} itself"
            )


def transfer_histories(capture: Any, stand_ins: Sequence[Tensor], arguments: Sequence[Any], results: Sequence[Tensor]) -> dict[int, Tensor]:
    """Transfer the gradients, histories and `requires_grad` of stand-ins to their arguments after a traced call; their memory is shared.
    Return the arguments by the ids of their stand-ins."""
    journal, unused = capture.journal, capture.duplicate_arguments
    pairs = [(t, a) for t, a in zip(stand_ins, arguments, strict=True) if isinstance(a, Tensor) and a is not t and id(t) not in unused]
    for t, argument in pairs:
        journal.before_history_change(argument)
        argument._grad = t._grad
        if t._node is not None and t._node is not argument._node:
            if argument._owner is not None:
                journal.before_history_change(argument._owner)
            set_history(argument, t._node)
        elif t._node is None and (argument._node is not None or t._requires_grad is not argument._requires_grad):
            _redirect_edges(argument, t, (*results, *(x for x, _ in pairs)))
            make_leaf(argument, t._requires_grad)
    return {id(t): a for t, a in pairs}


def _redirect_edges(argument: Tensor, stand_in: Tensor, tensors: Sequence[Tensor]) -> None:
    """Replace the leaf `stand_in` by `argument` in the histories of `tensors`."""
    for node in ancestor_nodes(tensors):
        node.inputs = tuple(argument if edge is stand_in else edge for edge in node.inputs)
        if node.saved is not None:
            node.saved = tuple(argument if edge is stand_in else edge for edge in node.saved)

