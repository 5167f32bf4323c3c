"""The equal-scalars guard: tensors that hold the same scalar before every run, such as the step counts that an optimizer keeps for each
parameter.

They are one input of a program, which writes one result back to all of them, and everything computed from a step count is computed once. On
the device they share one buffer, which is never donated, or one slice of a pooled buffer. The guard checks before each run that they are
still equal: usually all hold the same storage object, and no values are compared.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Value
from symgrad.device_buffers import BufferSlice, donations_in_flight
from symgrad.device_tensor import is_unaliased, storage_of
from symgrad.tensor import Tensor


class EqualScalarsGuard:
    """True when called if all tensors of a group still hold equal scalars: the `first`, whose input `value` stands for all, and the
    `others`."""

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
        donations_in_flight.wait()  # until a program in another thread has written all new values back
        storage = np.asarray(storage_of(self.first))
        return all(np.array_equal(storage_of(t), storage) and storage_of(t).dtype == storage.dtype for t in self.others)

    def describe(self, *_: Any) -> str:
        return "optimizer: counters of steps that were equal are not"


def merge_equal_scalars(capture: Any, key: Hashable, t: Tensor) -> None:
    """Let the captured tensor `t` share the input of the earlier tensors with this key and value, or start such a group with it. Only for a
    tensor that the capture does not know yet, that needs no gradient, and whose storage is not visible elsewhere."""
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
