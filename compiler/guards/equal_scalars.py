"""Tensors that hold the same number before every run: the counters of steps that an optimizer keeps for each parameter.

They are one input of a program, which leaves one result for all of them; what is computed from a counter is computed once. On the device
they hold one buffer, which nobody donates, or one part of a pooled buffer. Whether they are still alike is looked up before each run:
mostly all hold the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Value
from symgrad.device_buffers import BufferSlice, donations_in_flight
from symgrad.device_tensor import is_unaliased, storage_of
from symgrad.tensor import Tensor


class EqualScalarsGuard:
    """The first of such tensors, which stands for all, with its input, and the others."""

    def __init__(self, first: Tensor, value: Value) -> None:
        self.first, self.value = first, value
        self.others: list[Tensor] = []

    def __call__(self) -> bool:
        storage = storage_of(self.first)
        if storage.__class__ is BufferSlice and storage.parent.pool_state.intact:
            return True
        for t in self.others:
            if storage_of(t) is not storage:
                return self._equal()
        return True

    def _equal(self) -> bool:
        donations_in_flight.wait()  # until whoever runs such a program has left all new values
        storage = np.asarray(storage_of(self.first))
        return all(np.array_equal(storage_of(t), storage) and storage_of(t).dtype == storage.dtype for t in self.others)

    def describe(self, *_: Any) -> str:
        return "optimizer: counters of steps that were equal are not"


def merge_equal_scalars(capture: Any, key: Any, t: Tensor) -> None:
    """Let a tensor that a function captures stand for others with this key, or another for it, if nobody else can see its memory."""
    known = id(t._array) in capture.storages or t._node is not None or t._requires_grad
    if known or not capture.effects or not is_unaliased(t):
        return
    key = key, t._array.dtype, t._array.tobytes()
    group = capture.equal_scalars.get(key)
    if group is None:
        capture.equal_scalars[key] = EqualScalarsGuard(t, capture.value(t))
        capture.guards.append((capture.equal_scalars[key], True))
        return
    group.others.append(t)
    capture.bind(t, group.value)
    capture.storages[id(t._array)].external = t
    capture.initial_grads.setdefault(id(t), t._grad)
