"""Second histories of one storage: a tensor from detach() or .data shares storage but no history, and a write to it starts its own.

    d = v.detach(); d.mul_(w)       v has new values and its old history, d has a history of its own

A TracedStorage has one history, that of the tensor for which it was made. The histories of the others are kept here, by the keys of their
autograd nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import revalued
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.engine import key_of
from symgrad.tensor import Tensor


@dataclass(eq=False)
class DetachedHistories:
    """The values, with their histories, of tensors that share storage, but no history, with another tensor."""

    values: dict[Any, Value] = field(default_factory=dict)
    """By the keys of the tensors' autograd nodes. Usually there are none: then no tensor need be looked up."""
    _owners: dict[int, Value] = field(default_factory=dict)
    """By tensor id, for owners: the base for a later write through one of their views."""

    def value_of(self, t: Tensor) -> Value | None:
        """The value last written to `t`, if `t` has a history kept here, else None."""
        return self.values.get(key_of(t._node)) if t._node is not None else None

    def write(self, t: Tensor, storage: TracedStorage, value: Value, quiet: bool, owned: TracedStorage) -> TracedStorage:
        """Write `value` to `t`, which does not share the history of its `storage`, and return the root storage. `owned` is the storage of
        the tensor that `t` is a view of, or that of `t` itself."""
        owner = t if t._owner is None else t._owner
        before = self._owners.get(id(owner))
        before = xp.detach(owned.current()) if before is None else revalued(owned.current(), before)
        root = storage.write(xp.detach(value), quiet=True)
        if not quiet:
            whole = value if owner is t else xp.view_write(before, value, path=_view_path(storage, owned))
            self._owners[id(owner)] = whole
            for x, new in ((t, value), (owner, whole)):
                if x._node is not None:
                    self.values[key_of(x._node)] = new
        return root

    def add_result(self, t: Tensor, value: Value) -> None:
        """Give `t`, a result of a Function in the storage of another tensor, the history of `value`."""
        self.values[key_of(t._node)] = self._owners[id(t)] = value

    def add_view(self, x: Tensor, t: Tensor, value: Value) -> None:
        """Register `t`, a view of `x`, with `value`, if `x` has a history kept here."""
        if t._node is not None and self.value_of(x) is not None:
            self.values[key_of(t._node)] = value


def _view_path(storage: TracedStorage, owned: TracedStorage) -> Any:
    """The path of view steps from the storage `owned` to `storage`, that of a view of it."""
    path = storage.path
    while storage.parent is not None and storage.parent is not owned:
        storage = storage.parent
        path = (*storage.path, *path)
    return path
