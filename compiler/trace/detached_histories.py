"""Memory that is seen without its history, through detach() or .data, and gets another one when it is written to.

    d = v.detach(); d.mul_(w)       v has new numbers and its old history, d has a history of its own

A storage has one history, that of the tensors which it was made for; those of others are kept here, by the keys of their nodes.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import revalued
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.engine import key_of
from symgrad.tensor import Tensor


class DetachedHistories:
    """Values with the histories of tensors that share memory, but not history, with others."""

    def __init__(self) -> None:
        self.values: dict[Any, Value] = {}
        self._owners: dict[int, Value] = {}
        """The same by the ids of tensors, views of which may be written to."""

    def value_of(self, t: Tensor) -> Value | None:
        """What was last written to a tensor, if it has a history of this kind."""
        return self.values.get(key_of(t._node)) if self.values and t._node is not None else None

    def write(self, t: Tensor, storage: TracedStorage, value: Value, quiet: bool, owned: TracedStorage) -> TracedStorage:
        """`t`, which is no part of the history of its storage, has a new value; `owned` is the storage of what it is a view of, or its
        own."""
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
        """`t`, a result of a Function in memory of another tensor, has a history of its own."""
        self.values[key_of(t._node)] = self._owners[id(t)] = value

    def add_view(self, x: Tensor, t: Tensor, value: Value) -> None:
        """`t` is a view of `x`."""
        if t._node is not None and self.value_of(x) is not None:
            self.values[key_of(t._node)] = value


def _view_path(storage: TracedStorage, owned: TracedStorage) -> Any:
    """The way from the storage of a tensor to that of a view of it."""
    path = storage.path
    while storage.parent is not None and storage.parent is not owned:
        storage = storage.parent
        path = (*storage.path, *path)
    return path
