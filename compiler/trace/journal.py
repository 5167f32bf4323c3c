"""The journal of a traced call: the state before each of its changes, so that a call that fails can be rolled back."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.generator import default_generator
from symgrad.tensor import Tensor
from symgrad.views import mark_written

_HISTORY = ("_array", "_node", "_requires_grad", "_epoch", "_path", "_undo")


class Journal:
    """Values of tensors before the first write, gradients and histories before they were replaced, and further undo actions."""

    def __init__(self) -> None:
        self._random = default_generator.mark()
        self._written: list[tuple[weakref.ref[Tensor], Any, Any, dict[str, Any]]] = []
        """(tensor, array, copy of its values, history attributes). Tensors are held weakly, so that `has_escaped_tensors` can see whether
        one that the function created, such as `w.data`, outlives the call."""
        self._seen: dict[int, weakref.ref[Tensor]] = {}
        self._histories: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}
        self._actions: list[Callable[[], None]] = []

    def before_write(self, t: Tensor) -> None:
        """Copy the values and history of `t`, and of its owner if it is a view, before the first write to it."""
        known = self._seen.get(id(t))
        if (known is not None and known() is t) or not t._array.flags.writeable:
            return
        self._seen[id(t)] = weakref.ref(t)
        self._written.append((self._seen[id(t)], t._array, t._array.copy(), {name: getattr(t, name) for name in _HISTORY}))
        if t._owner is not None:
            self.before_write(t._owner)

    def before_history_change(self, t: Tensor) -> None:
        """Save the gradient and history of `t` before either may be replaced."""
        if id(t) not in self._histories:
            self._histories[id(t)] = t, (t._grad, t._node, t._requires_grad, t._epoch)

    def record_undo(self, action: Callable[[], None]) -> None:
        """Add an action that undoes a change of Python state."""
        self._actions.append(action)

    def roll_back(self) -> None:
        """Restore everything to the state before the call."""
        for reference, array, values, history in reversed(self._written):
            np.copyto(array, values)
            t = reference()
            if t is not None:
                for name, value in history.items():
                    setattr(t, name, value)
                mark_written(t)
        for t, before in self._histories.values():
            t._grad, t._node, t._requires_grad, t._epoch = before
        for action in reversed(self._actions):
            action()
        default_generator.rewind(self._random)
        self.clear()

    def clear(self) -> None:
        """Forget all saved state: the call has succeeded, or was rolled back."""
        self._written, self._seen, self._histories, self._actions = [], {}, {}, []
