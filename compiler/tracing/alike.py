"""Tensors that hold the same number before every run: the counters of steps that an optimizer keeps for each parameter.

They are one input of a program, which leaves one result for all of them; what is computed from a counter is computed once. On the device
they hold one buffer, which nobody gives away, or one part of a pack. Whether they are still alike is looked up before each run: mostly all
hold the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.buffers import Part, giving
from symgrad.compiler.graph.ir import Value
from symgrad.resident import is_alone, memory
from symgrad.tensor import Tensor


class Alike:
    """The first of such tensors, which stands for all, with its input, and the others."""

    def __init__(self, first: Tensor, value: Value) -> None:
        self.first, self.value = first, value
        self.others: list[Tensor] = []

    def __call__(self) -> bool:
        held = memory(self.first)
        if held.__class__ is Part and held.pack.terms.whole:
            return True
        for t in self.others:
            if memory(t) is not held:
                return self._equal()
        return True

    def _equal(self) -> bool:
        giving.wait()  # until whoever runs such a program has left all new values
        held = np.asarray(memory(self.first))
        return all(np.array_equal(memory(t), held) and memory(t).dtype == held.dtype for t in self.others)

    def describe(self, *_: Any) -> str:
        return "optimizer: counters of steps that were equal are not"


def join(capture: Any, key: Any, t: Tensor) -> None:
    """Let a tensor that a function brings along stand for others with this key, or another for it, if nobody else can see its memory."""
    known = id(t._array) in capture.boxes or t._node is not None or t._requires_grad
    if known or not capture.effects or not is_alone(t):
        return
    key = key, t._array.dtype, t._array.tobytes()
    group = capture.groups.get(key)
    if group is None:
        capture.groups[key] = Alike(t, capture.value(t))
        capture.dependencies.append((capture.groups[key], True))
        return
    group.others.append(t)
    capture.enter(t, group.value)
    capture.boxes[id(t._array)].outside = t
    capture.had.setdefault(id(t), t._grad)
