"""Tensors whose numbers are on a device: they come to the host when somebody looks.

A compiled function leaves its results where they were computed, and finds parameters there at its next call. Such a tensor is of a class
of its own, a subclass in which `_array` is a property: whoever reads it gets an array in the host's memory, and the tensor is an ordinary
one from then on. So no other code needs to know, and no other tensor pays for the question.

What a tensor holds is either an array, which anybody may see and write to, or a buffer of the device, which nobody but the tensor has
and nobody writes to. It never holds both.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.mode import local
from symgrad.tensor import Size, Tensor
from symgrad.views import mark_written

_slot: Any = Tensor.__dict__["_array"]
memory: Any = _slot.__get__
"""What a tensor holds, wherever it is: `memory(t).shape` moves nothing. So does `t._held`, and faster."""
_class: Any = object.__dict__["__class__"]
_lock, _making = threading.Lock(), threading.Lock()
_resident: dict[type, type] = {}
"""The class of resident tensors for each class of tensors."""
_home: dict[type, type] = {}
new: Any = object.__new__

DONATED = "was donated to a compiled function, which has used its memory for its results; pass a clone()"
MOST_MOVES = 4
"""A tensor that came back to the host this often is left there, unless a kernel writes to it."""


class Donated(RuntimeError):
    """A tensor's memory has been given away."""


class Giving:
    """While kernels run that are given the memory of tensors, and until those have their new values. Other threads that meet such a tensor
    wait, and look again."""

    def __init__(self) -> None:
        self.count = self._waiting = 0
        self.lock = _lock
        """Held by whoever takes memory, and counts it."""
        self._change = threading.Condition(_lock)

    def begin(self, taken: list[bool]) -> None:
        """Whoever calls this has the lock. An interrupt comes after a call of a function, and so not between these lines."""
        self.count += 1
        taken.append(True)

    def over(self, taken: list[bool]) -> None:
        """Whoever calls this has the lock. A second time, after an interrupt, makes no difference."""
        if taken:
            self.count -= 1
            taken.clear()
            if self._waiting:
                self._change.notify_all()

    def wait(self) -> None:
        """Until nobody gives."""
        with self.lock:
            self._waiting += 1
            self._change.wait_for(lambda: not self.count)
            self._waiting -= 1


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


def is_gone(t: Tensor) -> bool:
    """Whether the memory of a tensor was given away for good: for the time of a run it would hold another thing."""
    held = t._held
    return type(t) in _home and held.__class__ is not InUse and held.is_deleted() and t._held is held


def take(tensors: Sequence[Tensor], held: Sequence[Any], instead: Sequence[InUse], taken: list[bool]) -> bool:
    """Take their buffers from tensors, if they still hold them, until `giving.over(taken)`: something is in `taken` meanwhile."""
    with _lock:
        for t, x in zip(tensors, held, strict=True):
            if t._held is not x or x.__class__ is InUse:
                return False
        giving.begin(taken)
        for t, nothing in zip(tensors, instead, strict=True):
            t._held = nothing
        return True


def _fetch(t: Tensor) -> Any:
    with _lock:
        held = t._held
        home = _home.get(type(t))
        if home is None:  # another thread was faster
            return held
        if held.__class__ is not InUse:
            try:
                array = np.array(held)
            except RuntimeError as error:
                raise Donated(f"this tensor {DONATED}") from error
            t._held = array
            _class.__set__(t, home)
            return array
    giving.wait()
    return _fetch(t)


def _put(t: Tensor, array: Any) -> None:
    with _lock:
        t._held = array
        _class.__set__(t, _home[type(t)])


class Resident(Tensor):
    """A tensor on a device."""

    __slots__ = ()
    _array: Any = property(_fetch, _put)

    @property
    def shape(self) -> Size:
        return Size(memory(self).shape)

    @property
    def dtype(self) -> Any:
        return dtypes.of(memory(self).dtype)

    @property
    def ndim(self) -> int:
        return len(memory(self).shape)

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number. The tensor stays where it is."""
        held = self._held
        if local.mode.capture is None and not held.shape and held.dtype.kind != "V":
            with contextlib.suppress(RuntimeError):  # somebody has it: it will be read again
                return np.asarray(held).item()
        methods: Any = Tensor  # which are given to it elsewhere
        return methods.item(self)

    @property
    def __class__(self) -> Any:
        return _home[type(self)]  # what it is for everybody else

    @__class__.setter
    def __class__(self, cls: type) -> None:
        _fetch(self)
        _class.__set__(self, cls)

    def __copy__(self) -> Any:
        _fetch(self)
        return self.__copy__()  # of its own class now

    def __deepcopy__(self, memo: Any) -> Any:
        _fetch(self)
        return self.__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        _fetch(self)
        return self.__reduce_ex__(protocol)


_resident[Tensor], _home[Resident] = Resident, Tensor


def _residents_of(cls: type) -> type:
    with _making:
        if cls not in _resident:
            names = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
            made = type(cls)(cls.__name__, (Resident, cls), names)
            _resident[cls], _home[made] = made, cls
        return _resident[cls]


def is_resident(t: Tensor) -> bool:
    return type(t) in _home


def resident(held: Any) -> Tensor:
    """A new tensor around what a kernel gave: an array, or a buffer of a device."""
    t: Any = new(Tensor if held.__class__ is np.ndarray else Resident)
    t._held = held
    t._node = t._base = None
    t._requires_grad = False
    t._cell = []
    return t  # type: ignore[no-any-return]


def move(t: Tensor, buffer: Any) -> None:
    """Let a tensor that nobody else shares memory with hold a buffer from now on."""
    cls = type(t)
    with _lock:
        t._held = buffer
        if cls not in _home:
            _class.__set__(t, _resident.get(cls) or _residents_of(cls))


def is_alone(t: Tensor) -> bool:
    """Whether nobody but the tensor can see its memory: no view, no array, no saved value of a recorded operation."""
    held = t._held
    return t._base is None and sys.getrefcount(held) <= 3 and (held.base is None or _owns(held))


def _owns(array: Any) -> bool:
    base = array.base
    return base is None or (base.__class__ is np.ndarray and sys.getrefcount(base) <= 3 and _owns(base))


def write(t: Tensor, held: Any) -> None:
    """Let a tensor have new numbers: those who see its memory see them, too."""
    on_host, here = held.__class__ is np.ndarray, type(t) not in _home
    if here and not is_alone(t):
        np.copyto(t._array, np.asarray(held))
    elif here is on_host:
        t._held = held
    elif on_host:
        t._array = held
    else:
        move(t, held)
    if t._base is not None or local.mode.capture is not None:
        mark_written(t)
        return
    old, t._cell = t._cell, []  # as mark_written does, without its questions
    t._writes += 1
    old += (t._cell, t._writes)


@contextlib.contextmanager
def returning(tensors: Iterable[Any]) -> Iterator[None]:
    """Tensors on a device that are only looked at here are there again afterwards."""
    there = [(t, t._held, t._version) for t in tensors if type(t) in _home]
    yield
    for t, buffer, version in there:
        if type(t) not in _home and t._version == version and is_alone(t):
            move(t, buffer)
