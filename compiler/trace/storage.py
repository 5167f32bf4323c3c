"""Storage while a function is traced: a write makes a new value (SSA), and every view of the storage sees it."""

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
    """The present value of an array. The storage of a view has the `parent` that it is a view of and the `path` of view steps from there: a
    write to either is seen in the other."""

    __slots__ = ("external", "grad_value", "is_detached", "node_key", "parent", "path", "seen_version", "value", "version")

    def __init__(self, value: Value, parent: TracedStorage | None = None, path: Any = (), outside: Tensor | None = None) -> None:
        self.value = value
        self.parent = parent
        self.path = path
        self.external = outside
        """The tensor from outside the function that owns this storage: it existed before the call, and later runs find it again."""
        self.grad_value: Value | None = None
        """The value that cotangents flow to, if not `value`: the one before writes without history, such as those under no_grad."""
        self.node_key: Any = None
        """The key of the autograd node of the tensor that owns this storage."""
        self.is_detached: bool = parent is not None and parent.is_detached
        """True for a view made under no_grad, or through detach(): it sees writes, without their history."""
        self.version = 0
        self.seen_version = 0 if parent is None else self.root()[0].version

    def root(self) -> tuple[TracedStorage, Any]:
        """The storage at the end of the chain of parents, and the path of view steps from there."""
        storage, path = self, self.path
        while storage.parent is not None:
            storage = storage.parent
            path = (*storage.path, *path)
        return storage, path

    def current(self) -> Value:
        """The present value: the path replayed on the root's value if the root was written to since."""
        root, path = self.root()
        if root is not self and self.seen_version != root.version:
            value = follow(xp, root.value, path)
            self.value, self.seen_version = xp.detach(value) if self.is_detached else value, root.version
        return self.value

    def with_history(self) -> Value:
        """The present value with the history of the last recorded write: a write without history changes the value only."""
        root, path = self.root()
        if root.grad_value is None:
            return self.current()
        return follow(xp, revalued(root.value, root.grad_value), path)

    def write(self, value: Value, quiet: bool = False) -> TracedStorage:
        """Write `value` into the root storage, where views may overlap, and return the root. A `quiet` write has no history."""
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
    """The step from a tensor to output `index` of a view row, as (row, attributes); one of several views is written as a slice."""
    if row == "unbind":
        return "getitem", (("index", region(shape, attrs["axis"], index)),)
    if row == "assume":  # written to, nothing is known of it
        return "reshape", (("shape", shape),)
    if row in ("split", "split_with_sizes"):
        start = sum(attrs["sizes"][:index])
        return "getitem", (("index", region(shape, attrs["axis"], (start, start + attrs["sizes"][index], 1))),)
    return row, tuple(attrs.items())
