"""The graph values of tensors in a trace: those that ops made, inputs for captured tensors and random draws, and constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.guards.array_uses import operand_sites
from symgrad.compiler.inputs.sources import CapturedInput, RngInput
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import revalued
from symgrad.compiler.ir.graph import Value, input_value, literal
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.state import TraceState, random_state
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.engine import key_of
from symgrad.errors import TraceError
from symgrad.mode import local
from symgrad.ops.generator import default_generator
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array


class TracedValues(TraceState):
    """Finds the value of a tensor, and binds tensors to values."""

    def bind(self, t: Tensor, value: Value, view_of: tuple[TracedStorage, Any] | None = None) -> None:
        """Let `value` stand for `t`. For a view, `view_of` holds the storage of its base and the step from there to the view."""
        self.known_ids.add(id(t))
        self.storages[id(t._array)] = TracedStorage(value) if view_of is None else TracedStorage(value, view_of[0], (view_of[1],))
        if t._node is not None:
            self.storages[id(t._array)].node_key = key_of(t._node)
            self.node_values[key_of(t._node)] = value
        self.keep_alive += (t, t._array)

    def value(self, t: Tensor) -> Value:
        """The graph value of `t`, with its history if `t` requires grad and ops are recorded; a new input if the function captures `t`."""
        storage, detached = self.storages.get(id(t._array)), self.detached_histories
        own = detached.value_of(t) if detached.values else None
        if own is not None:
            return (
                revalued(own if storage is None else storage.current(), own) if local.mode.recording or storage is None
                else storage.current()
            )
        if storage is not None and self._has_its_history(t, storage):
            return storage.with_history() if t._requires_grad and local.mode.recording else storage.current()
        origin = None if t._node is None else self.node_values.get(key_of(t._node))
        if origin is not None:  # saved for backward(): its tensor's history, and the values in storage now, or those of an unpack hook
            origin = xp.cast(origin, dtype=t._array.dtype)
            return origin if storage is None else revalued(storage.current(), origin)
        leaf = None if t._node is None else _cast_leaf(t._node)
        if storage is not None and leaf is not None:
            return revalued(storage.current(), xp.cast(self.value(leaf), dtype=t._array.dtype))
        if self.arrays:
            self._note_operand(t._array)
        return self.captured_value(t) if storage is None else xp.detach(storage.current())  # by detach(), without its history

    def _note_operand(self, array: Array) -> None:
        """Note the expression at which an array that the function reads by name, or a view of it, becomes an operand."""
        owner = array if id(array) in self.arrays else array.base
        if id(owner) in self.arrays:
            self.operand_sites.setdefault(id(owner), set()).update(operand_sites(owner))

    def _has_its_history(self, t: Tensor, storage: TracedStorage) -> bool:
        """True if `t` is the tensor for which `storage` was made, or has its node."""
        if id(t) in self.known_ids:
            return True
        return storage.node_key is not None and t._node is not None and bool(storage.node_key == key_of(t._node))

    def shares_history(self, owner: Tensor) -> bool:
        """True if writes to `owner` belong to the history of its storage; False if it sees the storage through detach() or .data."""
        return id(owner) in self.known_ids or id(owner._array) not in self.storages

    def root_storage(self, t: Tensor) -> TracedStorage | None:
        """The storage at the end of the chain of views that leads to `t`; None if the trace does not know its memory."""
        storage = self.storages.get(id(t._array))
        return None if storage is None else storage.root()[0]

    def draw_index_of(self, t: Tensor) -> int | None:
        """The index of the draw that made the memory of `t`, or None."""
        memory, base, shape = t._array, t._array.base, t._array.shape
        for i, (a, _) in enumerate(self.draws):
            if a is not None and (a is memory or (a.base is not None and a.base is base and a.shape == shape)):
                return i
        return None

    def refuse_random(self) -> None:
        """Raise TraceError if random numbers were drawn that no draw records: a program would repeat them at every run."""
        if self.drawn[0] != default_generator.uses and self.drawn[1] != random_state()[1]:
            raise TraceError(
                f"{user_line()}: random numbers are drawn inside a traced function, which would repeat them at every run; draw them"
                " outside and pass them in, or leave the function eager"
            )

    def captured_value(self, t: Tensor) -> Value:
        """A new input for a captured tensor or a random draw; a literal for an unnamed scalar if `inline_scalars`."""
        number = self.draw_index_of(t)
        if number is not None:
            value = self.add_input(t, f"draw{number + 1}", own=True)
            self.sources.append(RngInput(number))
            return value
        self.refuse_random()
        if self.inline_scalars and not t._array.ndim and not t._requires_grad and t.name is None and id(t) not in self.names:
            value = literal(t._array.item(), t._array.dtype)
            self.bind(t, value)
            return value
        if id(t._array) in self.constant_arrays and not t._requires_grad and self._bind_identity(t):
            return self.storages[id(t._array)].current()
        self.captured.append(t)
        self.sources.append(CapturedInput(t))
        title = t.name or self.names.get(id(t)) or self.tensor_names.get(id(t))
        if title is None:
            self.unnamed.append(len(self.inputs))
        return self.add_input(t, title or f"c{len(self.captured)}")

    def bind_constant(self, t: Tensor) -> None:
        """Bind `t` to its present values: to a literal if all are the same number, to an identity matrix, else to an input that holds a
        copy."""
        if self.bind_literal(t) or self._bind_identity(t):
            return
        frozen = wrap(t._array.copy())
        self.add_input(t, "constant", own=True)
        self.path.constants.add(self.inputs[-1])
        self.captured.append(frozen)
        self.sources.append(CapturedInput(frozen))

    def bind_literal(self, t: Tensor) -> bool:
        """Bind `t` to a literal if all its elements are the same number, and return whether they are."""
        array = t._array
        first = array.reshape(-1)[0].item() if array.size and array.dtype.kind in "bif" else None
        if first is None or not (array == first).all():
            return False
        self.bind(t, xp.expand(literal(first, array.dtype), shape=array.shape))
        return True

    def _bind_identity(self, t: Tensor) -> bool:
        """Bind `t` to a row `eye` if it is an identity matrix, bit by bit, and return whether it is: then `X.T @ X + lam * eye(n)` is known
        to be positive definite, and `eye(n) @ X` to be X."""
        array = t._array
        if array.ndim != 2 or not array.size or array.dtype.kind not in "bifc" or np.count_nonzero(array) != min(array.shape):
            return False
        rows, columns = array.shape
        if array.tobytes() != np.eye(rows, columns, dtype=array.dtype).tobytes():
            return False
        self.bind(t, xp.eye(rows=rows, columns=columns, dtype=array.dtype))
        return True

    def unique_label(self, title: str) -> str:
        """`title`, extended by underscores until no other input has that label."""
        while title in self.used_labels:
            title += "_"
        self.used_labels.add(title)
        return title

    def add_input(self, t: Tensor, title: str, own: bool = False) -> Value:
        """Add an input for `t` and return its value. `own`: the function created `t`, and it is an input because it is a constant or
        because each run draws it anew; writes to it are no effects."""
        dtype = t._array.dtype if t._array.dtype.isnative else t._array.dtype.newbyteorder("=")  # kernels get a converted copy
        value = input_value(len(self.inputs), t._array.shape, dtype)
        label = self.unique_label(title)
        self.inputs.append(value)
        self.labels.append(label)
        self.bind(t, value)
        self.storages[id(t._array)].external = None if own else t
        self.input_tensors.append(t)
        self.note_grad(t)
        self.initial_histories[id(t)] = t._node, t._requires_grad
        if t._node is not None and t.requires_grad:
            self.input_histories[key_of(t._node)] = label
        return value

    def note_grad(self, t: Tensor) -> None:
        """Remember the present `t.grad`, and make `t` an input even if the program uses only its gradient."""
        self.initial_grads.setdefault(id(t), t._grad)
        self.keep_alive.append(t)
        self.value(t)
        storage = self.storages.get(id(t._array))
        if storage is not None and storage.external is t:  # a tensor that the function created is gone anyway after a call that fails
            self.journal.before_history_change(t)


def _cast_leaf(edge: Any) -> Tensor | None:
    """The leaf tensor that a cast node reads, else None: backward saved the leaf in another dtype, or before its storage was replaced."""
    if getattr(edge, "row", None) is not TABLE["cast"]:
        return None
    (source,) = edge.inputs
    return source if isinstance(source, Tensor) else None
