"""What tensors on a device hold: buffers, parts of buffers, and nothing while a kernel has them.

A kernel that trains a model is given the memory of its parameters, and puts the new values there. Meanwhile the tensors hold nothing, and
other threads that meet them wait. Steps of training have a `Pack` for what stays with them from one run to the next: small tensors share
one buffer, since every buffer that goes in or out of a kernel costs time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

lock = threading.Lock()
"""Held by whoever changes what a tensor on a device holds."""
DONATED = "was donated to a compiled function, which has used its memory for its results; pass a clone()"


class Donated(RuntimeError):
    """A tensor's memory has been given away."""


class Giving:
    """While kernels run that are given the memory of tensors, and until those have their new values. Other threads that meet such a tensor
    wait, and look again."""

    def __init__(self) -> None:
        self.count = self.waiting = 0
        self.lock = lock
        self._change = threading.Condition(lock)

    def begin(self, taken: list[bool]) -> None:
        """Whoever calls this has the lock. An interrupt comes after a call of a function, and so not between these lines."""
        self.count += 1
        taken.append(True)

    def over(self, taken: list[bool]) -> None:
        """Whoever calls this has the lock. A second time, after an interrupt, makes no difference."""
        if taken:
            self.count -= 1
            taken.clear()
            if self.waiting:
                self.wake()

    def wake(self) -> None:
        """Whoever calls this has the lock."""
        self._change.notify_all()

    def wait(self) -> None:
        """Until nobody gives."""
        with self.lock:
            self.waiting += 1
            self._change.wait_for(lambda: not self.count)
            self.waiting -= 1


giving = Giving()


class InUse:
    """What a tensor holds while a kernel has its memory: a type, and no numbers."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def is_deleted(self) -> bool:
        return True

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise Donated(f"this tensor {DONATED}")


class Terms:
    """What a step of training knows of the tensors in its packs without looking at each of them."""

    __slots__ = ("runs", "seen", "whole")

    def __init__(self) -> None:
        self.whole = False
        """Whether all are still there."""
        self.seen = True
        """Whether somebody has read one since the latest run, and may be told that it was written to."""
        self.runs = 0
        """How often they have had new values."""


class Pack:
    """A buffer that belongs to a step of training, with the numbers of one tensor, or of several, one after the other."""

    __slots__ = ("buffer", "nothing", "put", "terms")

    def __init__(self, shape: tuple[int, ...], dtype: Any, terms: Terms, put: Callable[[Any], Any]) -> None:
        self.nothing = InUse(shape, dtype)
        """What it holds while a kernel has the buffer."""
        self.buffer: Any = None
        self.terms, self.put = terms, put


class Part:
    """What a tensor in a pack holds: a place there."""

    __slots__ = ("_copy", "dtype", "pack", "place", "shape")

    def __init__(self, pack: Pack, shape: tuple[int, ...], dtype: Any, place: slice | None = None) -> None:
        self.pack, self.shape, self.dtype = pack, shape, dtype
        self.place = place
        """None is all of it."""
        self._copy: tuple[Any, Any] = (None, None)

    def is_deleted(self) -> bool:
        return bool(self.pack.buffer.is_deleted())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The numbers as they are now; somebody who may write to them asks for a copy."""
        array = np.asarray(self.pack.buffer)
        array = array if self.place is None else array[self.place].reshape(self.shape)
        return np.array(array, dtype) if copy or (dtype is not None and dtype != array.dtype) else array

    def cut(self) -> Any:
        """A buffer for kernels that read the tensor: a copy, unless the tensor has the pack to itself."""
        whole = self.pack.buffer
        if self.place is None:
            return whole
        of, copy = self._copy
        if of is not whole:
            copy = self.pack.put(np.asarray(self))
            self._copy = whole, copy
        return copy
