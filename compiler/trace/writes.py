"""Writes to tensors while a function is traced, and tensors that share or exchange memory."""

from __future__ import annotations

from symgrad.compiler.inputs.sources import CapturedInput
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.graph_break import rebinding_error
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.compiler.trace.values import TracedValues
from symgrad.engine import key_of
from symgrad.errors import EffectError
from symgrad.escapes import Rebinding
from symgrad.mode import local
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array


class WriteRecorder(TracedValues):
    """The events of a tracer that concern writes and aliases."""

    def before_write(self, t: Tensor) -> None:
        """Journal a write to a tensor from outside the function; raise EffectError in a trace without effects. Storage that the function
        created may always be written to."""
        storage = self.root_storage(t)
        if storage is not None and storage.external is None:
            return  # created by the function
        if self.effects:
            self.journal.before_write(t if storage is None or storage.external is None else storage.external)
        elif not self._freeze_constant(t if t._owner is None else t._owner) and (storage is not None or t._owner is not None):
            raise EffectError(
                f"{user_line()}: a tensor from outside is written to in place inside a traced function; write y = x + 1 in place of"
                " x += 1, or leave the function eager"
            )

    def after_write(self, t: Tensor, result: Tensor) -> None:
        """Bind `t` to the value of `result`, which was copied into it."""
        self.write_value(t, xp.expand(xp.cast(self.value(result), dtype=t._array.dtype), shape=t._array.shape))

    def write_value(self, t: Tensor, value: Value) -> None:
        """Let `value` stand for `t` from now on, and for the region of `t` in every tensor that shares its storage."""
        self.value(t)  # registers t
        storage, owner = self.storages[id(t._array)], t if t._owner is None else t._owner
        quiet, joint = t._node is None or not local.mode.recording, self.shares_history(owner)
        root = (
            storage.write(value, quiet) if joint
            else self.detached_histories.write(t, storage, value, quiet, self.storages[id(owner._array)])
        )
        if root.external is not None:
            self.written_inputs[id(root.external)] = root.external, root
        self.keep_alive.append(owner)
        for x in (t, t._owner) if joint else ():
            if x is not None and x._node is not None:
                storage = self.storages[id(x._array)]
                storage.node_key = key_of(x._node)
                self.node_values[storage.node_key] = storage.current()

    def _freeze_constant(self, t: Tensor) -> bool:
        """Before a write to `t`: return True if the function created it from Python or NumPy values, and make its present values a constant
        of the program."""
        if id(t._array) not in self.constant_arrays:
            return False
        storage = self.storages.get(id(t._array))
        if storage is None or storage.external is None:
            self.bind_constant(t)
            return True
        place = next(k for k, other in enumerate(self.captured) if other is storage.external)
        self.captured[place] = frozen = wrap(t._array.copy())
        self.sources[place] = CapturedInput(frozen)
        storage.external = None
        return True

    def before_alias(self, t: Tensor) -> None:
        """Register `t` before a second tensor, without history, is made around its storage, so that `t` is the one that gets gradients."""
        self.value(t)

    def before_rebind(self, t: Tensor, how: Rebinding) -> None:
        """Raise TraceError before `t` gets other storage, or another shape; the function may reshape in place a tensor that it created."""
        if how.keeps_memory and id(t._array) in self.storages and all(t is not other for other in self.input_tensors):
            return
        raise rebinding_error(how)

    def on_detach_in_place(self, t: Tensor) -> None:
        """Detach the value of `t`, which loses its history by detach_()."""
        self.value(t)
        storage = self.storages[id(t._array)]
        storage.value, storage.grad_value, storage.node_key = xp.detach(storage.current()), None, None

    def on_saved_copy(self, array: Array, copy: Array) -> None:
        """Bind `copy`, made because `array` was saved for backward() and is about to be overwritten, to the value of `array`."""
        if id(array) in self.storages:
            self.storages[id(copy)] = TracedStorage(self.storages[id(array)].current())
            self.keep_alive.append(copy)
