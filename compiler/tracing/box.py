"""What memory holds while a function is traced: a write makes a new value, and views see it."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.graph.builder import xp
from symgrad.compiler.graph.custom import revalued
from symgrad.compiler.graph.ir import Value
from symgrad.ops.joining import region
from symgrad.ops.promotion import kind
from symgrad.ops.writing import follow
from symgrad.tensor import Tensor


class Box:
    """What an array holds now. A view's box knows its parent's, and the way there: a write to either is seen in the other."""

    __slots__ = ("node", "outside", "parent", "path", "seen", "silent", "slope", "value", "writes")

    def __init__(self, value: Value, parent: Box | None = None, path: Any = (), outside: Tensor | None = None) -> None:
        self.value = value
        self.parent = parent
        self.path = path
        self.outside = outside
        """The tensor that was there before the function ran, and will be there when it runs again."""
        self.slope: Value | None = None
        """What derivatives go to, if that is not `value`: what was there before writes that have no history, as under no_grad."""
        self.node: Any = None
        """The key of the history of the tensor whose memory it is."""
        self.silent: bool = parent is not None and parent.silent
        """Whether it is a view made under no_grad, or through detach(): it sees what is written, and has no part in its history."""
        self.writes = 0
        self.seen = 0 if parent is None else self.root()[0].writes

    def root(self) -> tuple[Box, Any]:
        """The box whose memory it is, and the way from there."""
        box, path = self, self.path
        while box.parent is not None:
            box = box.parent
            path = (*box.path, *path)
        return box, path

    def now(self) -> Value:
        """The numbers."""
        root, path = self.root()
        if root is not self and self.seen != root.writes:
            value = follow(xp, root.value, path)
            self.value, self.seen = xp.detach(value) if self.silent else value, root.writes
        return self.value

    def recorded(self) -> Value:
        """The numbers with their history, which a write without history leaves as it was."""
        root, path = self.root()
        if root.slope is None:
            return self.now()
        return follow(xp, revalued(root.value, root.slope), path)  # type: ignore[no-any-return]

    def assign(self, value: Value, quiet: bool = False) -> Box:
        """Write, quietly or with history, straight into the memory, in which views may overlap; the box whose it is, is returned."""
        root, path = self.root()
        before = root.value
        if not quiet:
            before, root.slope = (root.recorded() if path else before), None
        elif root.slope is None and kind(before.dtype) in "fc":
            root.slope = before
        root.value = xp.view_write(before, value, path=path) if path else value
        root.writes += 1
        self.value, self.seen = value, root.writes
        return root


def step_of(row: str, attrs: dict[str, Any], index: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """The way from a tensor to a view of it, as one step; one of several views is a slice."""
    if row == "unbind":
        return "getitem", (("index", region(shape, attrs["axis"], index)),)
    if row in ("split", "split_with_sizes"):
        start = sum(attrs["sizes"][:index])
        return "getitem", (("index", region(shape, attrs["axis"], (start, start + attrs["sizes"][index], 1))),)
    return row, tuple(attrs.items())
