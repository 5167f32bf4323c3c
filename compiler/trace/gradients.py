"""Gradients while a function is traced: reads and writes of `.grad`, backward() inside the function, and hooks."""

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
    """The events of a capture that concern gradients."""

    effects: bool
    journal: Journal
    storages: dict[int, TracedStorage]
    keep_alive: list[Any]

    def __init__(self) -> None:
        self.initial_grads: dict[int, Any] = {}
        """The `.grad` of tensors before the call, by tensor id."""
        self.grad_reads: dict[int, tuple[Tensor, bool]] = {}
        """By id, tensors from outside whose `.grad` was read or added to, and whether they had one before the call."""
        self.grad_overwrites: set[int] = set()  # ids of tensors whose .grad was replaced before it was read
        self.backward_ran = False
        self.differentiated = False
        """True if gradients were computed inside the function, which calls the hooks of tensors."""
        self.hooks = False
        """True if the function registered hooks that gradients pass through."""
        self.gradient_refusal: str | None = None
        """Why derivatives of the results would be wrong, or None."""
        self.initial_histories: dict[int, tuple[Any, bool]] = {}
        """By tensor id, the node of each input before the call, and whether it required grad."""
        self.history_changes: Any = None
        """The HistoryChanges of the call: see `symgrad.compiler.trace.histories`."""
        self.input_histories: dict[Any, str] = {}
        """Labels of the inputs that were computed from tensors that require grad, by the keys of their nodes."""

    def value(self, t: Tensor) -> Value:
        raise NotImplementedError

    def refuse_replay(self, how: str) -> None:
        raise NotImplementedError

    def on_backward(self, tensors: Any) -> None:
        """Note a call of backward(); raise TraceError if it would continue into history recorded before the call, which no program can
        repeat."""
        refuse_backward(tensors, self.input_histories)
        self.backward_ran = self.differentiated = True

    def on_hook(self, t: Tensor | None, hook: Callable[[Tensor], Any] | None, how: str) -> None:
        """Record a gradient hook: backward() inside the function calls it, and derivatives taken outside have its ops in their graph. A
        hook of a tensor from outside, or of a leaf, stays registered after the call, which no program can repeat."""
        storage = None if t is None else self.storages.get(id(t._array))
        if t is not None and (t._node is None or storage is None):
            self.refuse_replay(how)
        elif t is None or hook is None:
            self.refuse_gradients(f"{how} changes derivatives in ways that no graph can follow")
        else:
            self.hooks = True
            trace_hook(self, t, hook, how)

    def refuse_gradients(self, why: str) -> None:
        """Note why derivatives of the results would be wrong: an error if the call leaves a history. Without effects, raise TraceError
        now."""
        self.gradient_refusal = f"{user_line()}: {why}; call backward() inside the function, or leave it eager"
        if not self.effects:
            raise TraceError(self.gradient_refusal)

    def before_grad_read(self, t: Tensor) -> None:
        """Note a read of `.grad` of a tensor from outside: the program then depends on whether there is a gradient before the call."""
        storage = self.storages.get(id(t._array))
        if id(t) not in self.grad_reads and id(t) not in self.grad_overwrites and (storage is None or storage.external is t):
            self.grad_reads[id(t)] = t, self.initial_grads.get(id(t), t._grad) is not None
            if t._grad is not None:
                self._note_grad(t)

    def before_grad_accumulate(self, t: Tensor) -> None:
        """Note that a gradient may be added to `t.grad`, which reads the present one."""
        self.before_grad_read(t)
        self._note_grad(t)

    def before_grad_replace(self, t: Tensor) -> None:
        """Note that `t.grad` is replaced, independently of the present one."""
        if id(t) not in self.grad_reads:
            self.grad_overwrites.add(id(t))
        self._note_grad(t)

    def _note_grad(self, t: Tensor) -> None:
        """Remember the present `t.grad`, and make `t` an input even if the program uses only its gradient."""
        self.initial_grads.setdefault(id(t), t._grad)
        self.keep_alive.append(t)
        self.value(t)
        storage = self.storages.get(id(t._array))
        if storage is not None and storage.external is t:  # a tensor that the function created is gone anyway after a call that fails
            self.journal.before_history_change(t)
