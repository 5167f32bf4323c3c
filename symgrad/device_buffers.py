"""What tensors on a device hold: buffers, parts of buffers, and nothing while a kernel has them.

A kernel that trains a model is given the memory of its parameters, and puts the new values there. Meanwhile the tensors hold nothing, and
other threads that meet them wait. Steps of training have a `PooledBuffer` for what stays with them from one run to the next: small tensors
share one buffer, since every buffer that goes in or out of a kernel costs time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

storage_lock = threading.Lock()
"""Held by whoever changes what a tensor on a device holds."""
DONATED = "was donated to a compiled function, which has used its memory for its results; pass a clone()"


class DonatedError(RuntimeError):
    """A tensor's memory has been donated."""


class DonationsInFlight:
    """While kernels run that are given the memory of tensors, and until those have their new values. Other threads that meet such a tensor
    wait, and look again."""

    def __init__(self) -> None:
        self.count = self.waiters = 0
        self.lock = storage_lock
        self._change = threading.Condition(storage_lock)

    def begin(self, in_flight: list[bool]) -> None:
        """Whoever calls this has the lock. An interrupt comes after a call of a function, and so not between these lines."""
        self.count += 1
        in_flight.append(True)

    def end(self, in_flight: list[bool]) -> None:
        """Whoever calls this has the lock. A second time, after an interrupt, makes no difference."""
        if in_flight:
            self.count -= 1
            in_flight.clear()
            if self.waiters:
                self.notify()

    def notify(self) -> None:
        """Whoever calls this has the lock."""
        self._change.notify_all()

    def wait(self) -> None:
        """Until nobody gives."""
        with self.lock:
            self.waiters += 1
            self._change.wait_for(lambda: not self.count)
            self.waiters -= 1


donations_in_flight = DonationsInFlight()


class DonatedPlaceholder:
    """What a tensor holds while a kernel has its memory: a type, and no numbers."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def is_deleted(self) -> bool:
        return True

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise DonatedError(f"this tensor {DONATED}")


class PoolState:
    """What a step of training knows of the tensors in its pooled buffers without looking at each of them."""

    __slots__ = ("intact", "observed", "runs")

    def __init__(self) -> None:
        self.intact = False
        """Whether all are still there."""
        self.observed = True
        """Whether somebody has read one since the latest run, and may be told that it was written to."""
        self.runs = 0
        """How often they have had new values."""


class PooledBuffer:
    """A buffer that belongs to a step of training, with the numbers of one tensor, or of several, one after the other."""

    __slots__ = ("buffer", "device_put", "placeholder", "pool_state")

    def __init__(self, shape: tuple[int, ...], dtype: Any, pool_state: PoolState, device_put: Callable[[Any], Any]) -> None:
        self.placeholder = DonatedPlaceholder(shape, dtype)
        """What it holds while a kernel has the buffer."""
        self.buffer: Any = None
        self.pool_state, self.device_put = pool_state, device_put


class BufferSlice:
    """What a tensor in a pooled buffer holds: a place there."""

    __slots__ = ("_copy", "dtype", "parent", "shape", "span")

    def __init__(self, parent: PooledBuffer, shape: tuple[int, ...], dtype: Any, span: slice | None = None) -> None:
        self.parent, self.shape, self.dtype = parent, shape, dtype
        self.span = span
        """None is all of it."""
        self._copy: tuple[Any, Any] = (None, None)

    def is_deleted(self) -> bool:
        return bool(self.parent.buffer.is_deleted())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The numbers as they are now; somebody who may write to them asks for a copy."""
        array = np.asarray(self.parent.buffer)
        array = array if self.span is None else array[self.span].reshape(self.shape)
        return np.array(array, dtype) if copy or (dtype is not None and dtype != array.dtype) else array

    def materialize(self) -> Any:
        """A buffer for kernels that read the tensor: a copy, unless the tensor has the pooled buffer to itself."""
        whole = self.parent.buffer
        if self.span is None:
            return whole
        of, copy = self._copy
        if of is not whole:
            copy = self.parent.device_put(np.asarray(self))
            self._copy = whole, copy
        return copy
