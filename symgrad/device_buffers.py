"""Storages of tensors on a device: buffers, slices of pooled buffers, and placeholders while a kernel consumes a buffer.

A kernel that trains a model is given the buffers of its parameters, and writes the new values there. Meanwhile the tensors hold
placeholders, and other threads that read them wait. A training step has a `PooledBuffer` for what it keeps from one run to the next: small
tensors share one buffer, because every buffer that a kernel takes or returns costs time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

storage_lock = threading.Lock()
"""Held while the storage of a device tensor is changed."""
DONATED = "was donated to a compiled function, which has used its memory for its results; pass a clone()"


class DonatedError(RuntimeError):
    """Raised if the buffer of a tensor has been donated."""


class DonationsInFlight:
    """Counts donations in flight: runs that consume buffers of tensors, until these tensors have their new values. Other threads that read
    such a tensor wait, and read it again."""

    def __init__(self) -> None:
        self.count = self.waiters = 0
        self.on_host: set[int] = set()
        """Ids of tensors in aliased host memory that get new values from a run in flight: no placeholder stands for them."""
        self.lock = storage_lock
        self._change = threading.Condition(storage_lock)

    def begin(self, in_flight: list[bool]) -> None:
        """Count one donation. The caller holds the lock. Interrupts are handled after calls of Python functions, so not between these
        lines."""
        self.count += 1
        in_flight.append(True)

    def end(self, in_flight: list[bool]) -> None:
        """End the donation. The caller holds the lock. A second call, after an interrupt, has no effect."""
        if in_flight:
            self.count -= 1
            in_flight.clear()
            if self.waiters:
                self.notify()

    def notify(self) -> None:
        """Wake the waiting threads. The caller holds the lock."""
        self._change.notify_all()

    def wait(self) -> None:
        """Block until no donation is in flight."""
        with self.lock:
            self.waiters += 1
            self._change.wait_for(lambda: not self.count)
            self.waiters -= 1


donations_in_flight = DonationsInFlight()


class DonatedPlaceholder:
    """The storage of a tensor while a kernel consumes its buffer: a shape and a dtype, without values."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def is_deleted(self) -> bool:
        return True

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise DonatedError(f"this tensor {DONATED}")


class PoolState:
    """What a training step knows about the tensors in its pooled buffers without checking each of them."""

    __slots__ = ("intact", "observed", "runs")

    def __init__(self) -> None:
        self.intact = False
        """True if all of them still are in the pool."""
        self.observed = True
        """True if one may have been read since the latest run, so that the next run must bump versions."""
        self.runs = 0
        """Number of runs that gave them new values."""


class PooledBuffer:
    """A buffer that belongs to a training step, with the values of one tensor, or of several in a row."""

    __slots__ = ("buffer", "device_put", "placeholder", "pool_state")

    def __init__(self, shape: tuple[int, ...], dtype: Any, pool_state: PoolState, device_put: Callable[[Any], Any]) -> None:
        self.placeholder = DonatedPlaceholder(shape, dtype)
        """Takes the place of the buffer while a kernel consumes it."""
        self.buffer: Any = None
        self.pool_state, self.device_put = pool_state, device_put


class BufferSlice:
    """The storage of a tensor in a pooled buffer: a slice of that buffer."""

    __slots__ = ("_copy", "dtype", "parent", "shape", "span")

    def __init__(self, parent: PooledBuffer, shape: tuple[int, ...], dtype: Any, span: slice | None = None) -> None:
        self.parent, self.shape, self.dtype = parent, shape, dtype
        self.span = span
        """None stands for the whole buffer."""
        self._copy: tuple[Any, Any] = (None, None)

    def is_deleted(self) -> bool:
        return bool(self.parent.buffer.is_deleted())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Return the current values without a copy; a caller that may write to them asks for a copy."""
        array = np.asarray(self.parent.buffer)
        array = array if self.span is None else array[self.span].reshape(self.shape)
        return np.array(array, dtype) if copy or (dtype is not None and dtype != array.dtype) else array

    def materialize(self) -> Any:
        """Return a buffer for kernels that read the tensor: a copy, unless the tensor has the pooled buffer to itself."""
        whole = self.parent.buffer
        if self.span is None:
            return whole
        of, copy = self._copy
        if of is not whole:
            copy = self.parent.device_put(np.asarray(self))
            self._copy = whole, copy
        return copy
