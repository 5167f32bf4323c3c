"""Gradients while a function is traced: `.grad` that comes and goes, backward() inside, and hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.graph.ir import Value
from symgrad.compiler.lines import user_line
from symgrad.compiler.tracing.backwards import follow_hook
from symgrad.compiler.tracing.box import Box
from symgrad.compiler.tracing.histories import refuse_backward
from symgrad.compiler.tracing.journal import Journal
from symgrad.errors import TraceError
from symgrad.tensor import Tensor


class Gradients:
    """What a capture is told of gradients."""

    effects: bool
    journal: Journal
    boxes: dict[int, Box]
    alive: list[Any]

    def __init__(self) -> None:
        self.had: dict[int, Any] = {}
        """The gradients that tensors had before the call, by their ids."""
        self.graded: dict[int, tuple[Tensor, bool]] = {}
        """Tensors from outside whose `.grad` was asked for or added to, and whether there was one before the call."""
        self.dropped: set[int] = set()  # those for which it was replaced before anybody asked
        self.backward_ran = False
        self.differentiated = False
        """Whether gradients were computed inside, and hooks of tensors called."""
        self.hooks = False
        """Whether gradients go through hooks that the function has registered."""
        self.deaf: str | None = None
        """Why derivatives of the results would be wrong."""
        self.before: dict[int, tuple[Any, bool]] = {}
        """The nodes that tensors from outside had before the call, and whether they required grad, by their ids."""
        self.after: Any = None
        """Which of them have other ones after it: see `symgrad.compiler.tracing.histories`."""
        self.histories: dict[Any, str] = {}
        """Inputs that were computed from tensors that require grad: the keys of their nodes, and their names."""

    def value(self, t: Tensor) -> Value:
        raise NotImplementedError

    def done_once(self, how: str) -> None:
        raise NotImplementedError

    def going_back(self, tensors: Any) -> None:
        """backward() is called. It must not go on through what was recorded before the call, since no program could do that again."""
        refuse_backward(tensors, self.histories)
        self.backward_ran = self.differentiated = True

    def hooked(self, t: Tensor | None, hook: Callable[[Tensor], Any] | None, how: str) -> None:
        """A hook for gradients: backward() inside of the function calls it, and what is differentiated outside has what it does in its
        graph. One of a tensor from outside stays there."""
        box = None if t is None else self.boxes.get(id(t._array))
        if t is not None and (t._node is None or box is None):
            self.done_once(how)
        elif t is None or hook is None:
            self.unheard(f"{how} changes derivatives in ways that no graph can follow")
        else:
            self.hooks = True
            follow_hook(self, t, hook, how)

    def unheard(self, why: str) -> None:
        """Derivatives of the results would be wrong; it matters only if there can be any."""
        self.deaf = f"{user_line()}: {why}; call backward() inside the function, or leave it eager"
        if not self.effects:
            raise TraceError(self.deaf)

    def asked_for_grad(self, t: Tensor) -> None:
        """`.grad` is asked for: what the function does depends on whether there is one."""
        box = self.boxes.get(id(t._array))
        if id(t) not in self.graded and id(t) not in self.dropped and (box is None or box.outside is t):
            self.graded[id(t)] = t, self.had.get(id(t), t._grad) is not None
            if t._grad is not None:
                self._note_grad(t)

    def regraded(self, t: Tensor) -> None:
        """A tensor that may get another gradient."""
        self.asked_for_grad(t)
        self._note_grad(t)

    def replaced(self, t: Tensor) -> None:
        """A tensor gets another gradient, whatever the one was that it had."""
        if id(t) not in self.graded:
            self.dropped.add(id(t))
        self._note_grad(t)

    def _note_grad(self, t: Tensor) -> None:
        """Remember the gradient that a tensor has. It is an input, also if only its gradient takes part."""
        self.had.setdefault(id(t), t._grad)
        self.alive.append(t)
        self.value(t)
        box = self.boxes.get(id(t._array))
        if box is not None and box.outside is t:  # what the function made is gone after a call that fails, anyway
            self.journal.meeting(t)
