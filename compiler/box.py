"""What memory holds while a function is traced: a write makes a new value, and views see it."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.builder import xp
from symgrad.compiler.ir import Value
from symgrad.ops.writing import follow
from symgrad.tensor import Tensor


class Box:
    """What an array holds now. A view's box knows its parent's, and the way there: a write to either is seen in the other."""

    __slots__ = ("outside", "parent", "path", "seen", "value", "writes")

    def __init__(self, value: Value, parent: Box | None = None, path: Any = (), outside: Tensor | None = None) -> None:
        self.value = value
        self.parent = parent
        self.path = path
        self.outside = outside
        """The tensor that was there before the function ran, and will be there when it runs again."""
        self.writes = 0
        self.seen = 0 if parent is None else parent.count()

    def count(self) -> int:
        return self.writes + (0 if self.parent is None else self.parent.count())

    def now(self) -> Value:
        if self.parent is not None and self.seen != self.parent.count():
            self.value, self.seen = follow(xp, self.parent.now(), self.path), self.parent.count()
        return self.value

    def assign(self, value: Value) -> Box:
        """Write; the box whose memory it is, is returned."""
        if self.parent is None:
            self.value = value
            self.writes += 1
            return self
        root = self.parent.assign(xp.view_write(self.parent.now(), value, path=self.path))
        self.value, self.seen = value, self.parent.count()
        return root
