"""What memory holds while a function is traced: a write makes a new value, and views see it."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import revalued
from symgrad.compiler.ir.graph import Value
from symgrad.ops.joining import region
from symgrad.ops.promotion import kind
from symgrad.ops.writing import follow
from symgrad.tensor import Tensor


class TracedStorage:
    """What an array holds now. A view's storage knows its parent's, and the way there: a write to either is seen in the other."""

    __slots__ = ("external", "grad_value", "is_detached", "node_key", "parent", "path", "seen_version", "value", "version")

    def __init__(self, value: Value, parent: TracedStorage | None = None, path: Any = (), outside: Tensor | None = None) -> None:
        self.value = value
        self.parent = parent
        self.path = path
        self.external = outside
        """The tensor that was there before the function ran, and will be there when it runs again."""
        self.grad_value: Value | None = None
        """What derivatives go to, if that is not `value`: what was there before writes that have no history, as under no_grad."""
        self.node_key: Any = None
        """The key of the history of the tensor whose memory it is."""
        self.is_detached: bool = parent is not None and parent.is_detached
        """Whether it is a view made under no_grad, or through detach(): it sees what is written, and has no part in its history."""
        self.version = 0
        self.seen_version = 0 if parent is None else self.root()[0].version

    def root(self) -> tuple[TracedStorage, Any]:
        """The storage whose memory it is, and the way from there."""
        storage, path = self, self.path
        while storage.parent is not None:
            storage = storage.parent
            path = (*storage.path, *path)
        return storage, path

    def current(self) -> Value:
        """The numbers."""
        root, path = self.root()
        if root is not self and self.seen_version != root.version:
            value = follow(xp, root.value, path)
            self.value, self.seen_version = xp.detach(value) if self.is_detached else value, root.version
        return self.value

    def with_history(self) -> Value:
        """The numbers with their history, which a write without history leaves as it was."""
        root, path = self.root()
        if root.grad_value is None:
            return self.current()
        return follow(xp, revalued(root.value, root.grad_value), path)  # type: ignore[no-any-return]

    def write(self, value: Value, quiet: bool = False) -> TracedStorage:
        """Write, quietly or with history, straight into the memory, in which views may overlap; the storage whose it is, is returned."""
        root, path = self.root()
        before = root.value
        if not quiet:
            before, root.grad_value = (root.with_history() if path else before), None
        elif root.grad_value is None and kind(before.dtype) in "fc":
            root.grad_value = before
        root.value = xp.view_write(before, value, path=path) if path else value
        root.version += 1
        self.value, self.seen_version = value, root.version
        return root


def view_step(row: str, attrs: dict[str, Any], index: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """The way from a tensor to a view of it, as one step; one of several views is a slice."""
    if row == "unbind":
        return "getitem", (("index", region(shape, attrs["axis"], index)),)
    if row in ("split", "split_with_sizes"):
        start = sum(attrs["sizes"][:index])
        return "getitem", (("index", region(shape, attrs["axis"], (start, start + attrs["sizes"][index], 1))),)
    return row, tuple(attrs.items())
