"""Gradients while a function is traced: reads and writes of `.grad`, and hooks."""

from __future__ import annotations

from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.values import TracedValues
from symgrad.errors import TraceError
from symgrad.tensor import Tensor


class GradRecorder(TracedValues):
    """The events of a tracer that concern `.grad`."""

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
                self.note_grad(t)

    def before_grad_accumulate(self, t: Tensor) -> None:
        """Note that a gradient may be added to `t.grad`, which reads the present one."""
        self.before_grad_read(t)
        self.note_grad(t)

    def before_grad_replace(self, t: Tensor) -> None:
        """Note that `t.grad` is replaced, independently of the present one."""
        if id(t) not in self.grad_reads:
            self.grad_overwrites.add(id(t))
        self.note_grad(t)
