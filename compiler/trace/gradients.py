"""Gradients while a function is traced: `.grad` that comes and goes, backward() inside, and hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.custom_backward import trace_hook
from symgrad.compiler.trace.histories import refuse_backward
from symgrad.compiler.trace.journal import Journal
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.errors import TraceError
from symgrad.tensor import Tensor


class GradRecorder:
    """What a capture is told of gradients."""

    effects: bool
    journal: Journal
    storages: dict[int, TracedStorage]
    keep_alive: list[Any]

    def __init__(self) -> None:
        self.initial_grads: dict[int, Any] = {}
        """The gradients that tensors had before the call, by their ids."""
        self.grad_reads: dict[int, tuple[Tensor, bool]] = {}
        """Tensors from outside whose `.grad` was asked for or added to, and whether there was one before the call."""
        self.grad_overwrites: set[int] = set()  # those for which it was replaced before anybody asked
        self.backward_ran = False
        self.differentiated = False
        """Whether gradients were computed inside, and hooks of tensors called."""
        self.hooks = False
        """Whether gradients go through hooks that the function has registered."""
        self.gradient_refusal: str | None = None
        """Why derivatives of the results would be wrong."""
        self.initial_histories: dict[int, tuple[Any, bool]] = {}
        """The nodes that tensors from outside had before the call, and whether they required grad, by their ids."""
        self.history_changes: Any = None
        """Which of them have other ones after it: see `symgrad.compiler.trace.histories`."""
        self.input_histories: dict[Any, str] = {}
        """Inputs that were computed from tensors that require grad: the keys of their nodes, and their names."""

    def value(self, t: Tensor) -> Value:
        raise NotImplementedError

    def refuse_replay(self, how: str) -> None:
        raise NotImplementedError

    def on_backward(self, tensors: Any) -> None:
        """backward() is called. It must not go on through what was recorded before the call, since no program could do that again."""
        refuse_backward(tensors, self.input_histories)
        self.backward_ran = self.differentiated = True

    def on_hook(self, t: Tensor | None, hook: Callable[[Tensor], Any] | None, how: str) -> None:
        """A hook for gradients: backward() inside of the function calls it, and what is differentiated outside has what it does in its
        graph. One of a tensor from outside stays there."""
        storage = None if t is None else self.storages.get(id(t._array))
        if t is not None and (t._node is None or storage is None):
            self.refuse_replay(how)
        elif t is None or hook is None:
            self.refuse_gradients(f"{how} changes derivatives in ways that no graph can follow")
        else:
            self.hooks = True
            trace_hook(self, t, hook, how)

    def refuse_gradients(self, why: str) -> None:
        """Derivatives of the results would be wrong; it matters only if there can be any."""
        self.gradient_refusal = f"{user_line()}: {why}; call backward() inside the function, or leave it eager"
        if not self.effects:
            raise TraceError(self.gradient_refusal)

    def before_grad_read(self, t: Tensor) -> None:
        """`.grad` is asked for: what the function does depends on whether there is one."""
        storage = self.storages.get(id(t._array))
        if id(t) not in self.grad_reads and id(t) not in self.grad_overwrites and (storage is None or storage.external is t):
            self.grad_reads[id(t)] = t, self.initial_grads.get(id(t), t._grad) is not None
            if t._grad is not None:
                self._note_grad(t)

    def before_grad_accumulate(self, t: Tensor) -> None:
        """A tensor that may get another gradient."""
        self.before_grad_read(t)
        self._note_grad(t)

    def before_grad_replace(self, t: Tensor) -> None:
        """A tensor gets another gradient, whatever the one was that it had."""
        if id(t) not in self.grad_reads:
            self.grad_overwrites.add(id(t))
        self._note_grad(t)

    def _note_grad(self, t: Tensor) -> None:
        """Remember the gradient that a tensor has. It is an input, also if only its gradient takes part."""
        self.initial_grads.setdefault(id(t), t._grad)
        self.keep_alive.append(t)
        self.value(t)
        storage = self.storages.get(id(t._array))
        if storage is not None and storage.external is t:  # what the function made is gone after a call that fails, anyway
            self.journal.before_history_change(t)
