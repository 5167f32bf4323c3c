"""Tensors whose storage is a device buffer; they are copied to the host when their `_array` is read.

A compiled function leaves its results on the device, and finds parameters there at its next call. Such a tensor has a class of its own, a
subclass of Tensor in which `_array` is a property: reading it copies the values to the host and turns the tensor into an ordinary one. So
no other code needs to know about devices, and ordinary tensors pay nothing for the check.

The storage of a tensor is either a host array, which anyone may see and write to, or a device buffer, which is private to the tensor and
never written to. It is never both.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.device_buffers import DONATED, BufferSlice, DonatedError, DonatedPlaceholder, donations_in_flight, storage_lock
from symgrad.mode import active_observers, local
from symgrad.tensor import Size, Tensor
from symgrad.views import mark_written

_array_slot: Any = Tensor.__dict__["_array"]
storage_of: Any = _array_slot.__get__
"""Return the storage of a tensor without moving it: `storage_of(t).shape` copies nothing. `t._storage` does the same, faster."""
_class_slot: Any = object.__dict__["__class__"]
_class_lock = threading.Lock()
_device_classes: dict[type, type] = {}
"""The device class of each tensor class."""
_pooled_classes: dict[type, type] = {}
"""The class of pooled tensors for each tensor class."""
_host_classes: dict[type, type] = {}
"""The host class of each device class and each pooled class."""
allocate: Any = object.__new__

MAX_HOST_ROUND_TRIPS = 4
"""A captured tensor that was moved to the device this often is left on the host, unless a kernel writes to it."""


def is_donated(t: Tensor) -> bool:
    """True if the buffer of a tensor was donated for good; during a run the tensor would hold a placeholder."""
    storage = storage_of(t)
    return type(t) in _host_classes and not is_donation_in_flight(storage) and storage.is_deleted() and storage_of(t) is storage


def is_donation_in_flight(storage: Any) -> bool:
    """True if the storage is a placeholder for a buffer that a running kernel consumes."""
    return (storage.parent.buffer if storage.__class__ is BufferSlice else storage).__class__ is DonatedPlaceholder


def begin_donation(
    tensors: Sequence[Tensor], storages: Sequence[Any], placeholders: Sequence[DonatedPlaceholder], in_flight: list[bool]
) -> bool:
    """Replace the storages of the tensors by placeholders and return True; return False if another thread has changed one of them.

    The donation lasts until `donations_in_flight.end(in_flight)`; meanwhile `in_flight` is not empty.
    """
    with storage_lock:
        for t, x in zip(tensors, storages, strict=True):
            now = storage_of(t)
            if is_donation_in_flight(now) or (now.materialize() if now.__class__ is BufferSlice else now) is not x:
                return False
        donations_in_flight.begin(in_flight)
        for t, placeholder in zip(tensors, placeholders, strict=True):
            _set_storage(t, placeholder, _device_classes[_host_classes[type(t)]])
        return True


def _set_storage(t: Tensor, storage: Any, cls: type) -> None:
    """Set the storage of a tensor, and its class to match. The caller holds the lock.

    An interrupt may come between the two: a tensor of a device class may hold a host array, but one of a host class must never hold a
    buffer.
    """
    buffer_slice = storage_of(t)
    if buffer_slice.__class__ is BufferSlice:
        buffer_slice.parent.pool_state.intact = False
        t.__dict__["_writes"] += buffer_slice.parent.pool_state.runs
        if pool_state := _pool_state_of(t.__dict__.get("_grad")):  # reads of .grad are not observed from now on
            pool_state.observed = True
    if type(t) is not cls and cls in _host_classes:
        _class_slot.__set__(t, cls)
    _array_slot.__set__(t, storage)
    if type(t) is not cls:
        _class_slot.__set__(t, cls)


def _copy_to_host(t: Tensor) -> Any:
    with storage_lock:
        storage = storage_of(t)
        host_class = _host_classes.get(type(t))
        if host_class is None:  # another thread was faster
            return storage
        if not is_donation_in_flight(storage):
            try:
                array = np.array(storage)
            except RuntimeError as error:
                raise DonatedError(f"this tensor {DONATED}") from error
            _set_storage(t, array, host_class)
            return array
    donations_in_flight.wait()
    return _copy_to_host(t)


def _set_array(t: Tensor, array: Any) -> None:
    with storage_lock:
        _set_storage(t, array, _host_classes[type(t)])


def _generic_item(t: Tensor) -> Any:
    methods: Any = Tensor  # methods are attached elsewhere
    return methods.item(t)


class DeviceTensor(Tensor):
    """A tensor whose storage is a device buffer."""

    __slots__ = ()
    _array: Any = property(_copy_to_host, _set_array)

    @property
    def shape(self) -> Size:
        return Size(storage_of(self).shape)

    @property
    def dtype(self) -> Any:
        return dtypes.of(storage_of(self).dtype)

    @property
    def ndim(self) -> int:
        return len(storage_of(self).shape)

    def item(self) -> Any:
        """Return the value of a tensor of one element as a Python number. The tensor stays on the device."""
        if active_observers.count and local.mode.capture is not None:
            return _generic_item(self)
        try:
            array = np.asarray(storage_of(self))  # reading the shape and dtype of the buffer takes as long
        except RuntimeError:  # donated: read it again, after the run
            return _generic_item(self)
        return array.item() if not array.ndim and array.dtype.kind != "V" else _generic_item(self)

    @property
    def __class__(self) -> Any:
        cls = type(self)
        return _host_classes.get(cls, cls)  # the class that users see; another thread may have moved the tensor to the host

    @__class__.setter
    def __class__(self, cls: type) -> None:
        _copy_to_host(self)
        _class_slot.__set__(self, cls)

    def __copy__(self) -> Any:
        _copy_to_host(self)
        return self.__copy__()  # of its host class now

    def __deepcopy__(self, memo: Any) -> Any:
        _copy_to_host(self)
        return self.__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        _copy_to_host(self)
        return self.__reduce_ex__(protocol)


def _read_pooled(t: Tensor) -> Any:
    with storage_lock:
        buffer_slice = storage_of(t)
        if buffer_slice.__class__ is not BufferSlice:  # another thread has moved it to the host
            return buffer_slice
        if not is_donation_in_flight(buffer_slice):
            buffer_slice.parent.pool_state.observed = True
            return buffer_slice.materialize()
    donations_in_flight.wait()
    return _read_pooled(t)


def _replace_pooled(t: Tensor, storage: Any) -> None:
    with storage_lock:
        _set_storage(t, storage, _device_classes[_host_classes[type(t)]])


def _writes(t: Tensor) -> int:
    with storage_lock:
        buffer_slice = storage_of(t)
        return int(t.__dict__["_writes"] + (buffer_slice.parent.pool_state.runs if buffer_slice.__class__ is BufferSlice else 0))


def _set_writes(t: Tensor, count: int) -> None:
    with storage_lock:
        buffer_slice = storage_of(t)
        t.__dict__["_writes"] = count - (buffer_slice.parent.pool_state.runs if buffer_slice.__class__ is BufferSlice else 0)


def _get_grad(t: Tensor) -> Any:
    found = t.__dict__.get("_grad")
    pool_state = _pool_state_of(found)
    if pool_state is not None:  # the caller may keep a reference
        pool_state.observed = True
    return found


def _set_grad(t: Tensor, gradient: Any) -> None:
    pool_state = _pool_state_of(t.__dict__.get("_grad"))
    if pool_state is not None:
        pool_state.intact = False
    t.__dict__["_grad"] = gradient


def _pool_state_of(gradient: Any) -> Any:
    """Return the pool state of a gradient in a pooled buffer; None for any other gradient."""
    buffer_slice = None if gradient is None else storage_of(gradient)
    return buffer_slice.parent.pool_state if buffer_slice.__class__ is BufferSlice else None


class PooledTensor(DeviceTensor):
    """A tensor in a pooled buffer of a training step.

    Kernels that read it get a buffer; writing to it takes it out of the pool. Its properties record in the pool state whether its gradient
    was read or replaced, so that the step need not check.
    """

    __slots__ = ()
    _storage: Any = property(_read_pooled, _replace_pooled)
    _writes: Any = property(_writes, _set_writes)
    _grad: Any = property(_get_grad, _set_grad)


DeviceTensor.__name__ = PooledTensor.__name__ = Tensor.__name__  # so that Python's messages call them Tensor
_device_classes[Tensor], _pooled_classes[Tensor] = DeviceTensor, PooledTensor
_host_classes[DeviceTensor] = _host_classes[PooledTensor] = Tensor


def _device_class_of(cls: type, kind: type, known: dict[type, type]) -> type:
    """Return the device class or pooled class (a subclass of `kind`) for a tensor class."""
    with _class_lock:
        if cls not in known:
            names = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
            made = type(cls)(cls.__name__, (kind, cls), names)
            known[cls], _host_classes[made] = made, cls
        return known[cls]


def move_to_pool(t: Tensor, buffer_slice: BufferSlice) -> None:
    """Move an unaliased tensor into a slice of a pooled buffer, which already has its values. The caller holds the lock."""
    host_class = _host_classes.get(type(t)) or type(t)
    if host_class not in _device_classes:
        _device_class_of(host_class, DeviceTensor, _device_classes)
    _set_storage(t, buffer_slice, _pooled_classes.get(host_class) or _device_class_of(host_class, PooledTensor, _pooled_classes))
    t.__dict__["_writes"] = t.__dict__.get("_writes", 0) - buffer_slice.parent.pool_state.runs


def pooled_tensor(buffer_slice: BufferSlice) -> Tensor:
    """Return a new tensor in a slice of a pooled buffer."""
    t: Tensor = allocate(PooledTensor)
    _array_slot.__set__(t, buffer_slice)
    t._node = t._base = None
    t._requires_grad = False
    t._version_cell = []
    t.__dict__["_writes"] = -buffer_slice.parent.pool_state.runs
    return t


def has_grad(t: Tensor) -> bool:
    """True if `.grad` is set; does not count as a read of `.grad`."""
    return t.__dict__.get("_grad") is not None


def is_on_device(t: Tensor) -> bool:
    return type(t) in _host_classes


def tensor_from_storage(storage: Any) -> Tensor:
    """Return a new tensor around a kernel output: an array or a device buffer."""
    t: Tensor = allocate(Tensor if storage.__class__ is np.ndarray else DeviceTensor)
    t._storage = storage
    t._node = t._base = None
    t._requires_grad = False
    t._version_cell = []
    return t


def to_device(t: Tensor, buffer: Any) -> None:
    """Make a device buffer the storage of an unaliased tensor."""
    host_class = _host_classes.get(type(t)) or type(t)
    with storage_lock:
        _set_storage(t, buffer, _device_classes.get(host_class) or _device_class_of(host_class, DeviceTensor, _device_classes))


def is_unaliased(t: Tensor) -> bool:
    """True if nothing else refers to the memory of a tensor: no view, no array, no saved value of a recorded operation."""
    storage = t._storage
    return t._base is None and sys.getrefcount(storage) <= 3 and (storage.base is None or _owns_memory(storage))


def _owns_memory(array: Any) -> bool:
    base = array.base
    return base is None or (base.__class__ is np.ndarray and sys.getrefcount(base) <= 3 and _owns_memory(base))


def write_storage(t: Tensor, storage: Any) -> None:
    """Write new values into a tensor: in place if its host memory is aliased, so that the aliases see them, else by replacing its
    storage."""
    on_host, here = storage.__class__ is np.ndarray, type(t) not in _host_classes
    if here and not is_unaliased(t):
        np.copyto(t._array, np.asarray(storage))
    elif here is on_host:
        t._storage = storage
    elif on_host:
        t._array = storage
    else:
        to_device(t, storage)
    if t._base is not None or local.mode.capture is not None:
        mark_written(t)
        return
    t._writes += 1
    bump_version(t, t._writes)


def bump_version(t: Tensor, writes: int) -> None:
    """Invalidate what recorded operations saved of a tensor: `mark_written` without its checks."""
    old, t._version_cell = t._version_cell, []
    old += (t._version_cell, writes)


@contextlib.contextmanager
def restore_residency(tensors: Iterable[Any]) -> Iterator[None]:
    """Context manager that moves tensors back to the device if they were only read on the host meanwhile."""
    on_device = [(t, t._storage, t._version) for t in tensors if type(t) in _host_classes]
    yield
    for t, buffer, version in on_device:
        if type(t) not in _host_classes and t._version == version and is_unaliased(t):
            to_device(t, buffer)
