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
from symgrad.buffers import DONATED, Donated, InUse, Part, giving, lock
from symgrad.mode import local, watched
from symgrad.tensor import Size, Tensor
from symgrad.views import mark_written

_slot: Any = Tensor.__dict__["_array"]
memory: Any = _slot.__get__
"""What a tensor holds, wherever it is: `memory(t).shape` moves nothing. So does `t._held`, and faster."""
_class: Any = object.__dict__["__class__"]
_making = threading.Lock()
_resident: dict[type, type] = {}
"""The class of resident tensors for each class of tensors."""
_leased: dict[type, type] = {}
"""The same for those in a pack."""
_home: dict[type, type] = {}
"""And back, from both."""
new: Any = object.__new__

MOST_MOVES = 4
"""A tensor that came back to the host this often is left there, unless a kernel writes to it."""


def is_gone(t: Tensor) -> bool:
    """Whether the memory of a tensor was given away for good: for the time of a run it would hold another thing."""
    held = memory(t)
    return type(t) in _home and not in_use(held) and held.is_deleted() and memory(t) is held


def in_use(held: Any) -> bool:
    """Whether a kernel has what a tensor holds."""
    return (held.pack.buffer if held.__class__ is Part else held).__class__ is InUse


def take(tensors: Sequence[Tensor], held: Sequence[Any], instead: Sequence[InUse], taken: list[bool]) -> bool:
    """Take their buffers from tensors, if they still hold them, until `giving.over(taken)`: something is in `taken` meanwhile."""
    with lock:
        for t, x in zip(tensors, held, strict=True):
            now = memory(t)
            if in_use(now) or (now.cut() if now.__class__ is Part else now) is not x:
                return False
        giving.begin(taken)
        for t, nothing in zip(tensors, instead, strict=True):
            _hold(t, nothing, _resident[_home[type(t)]])
        return True


def _hold(t: Tensor, held: Any, cls: type) -> None:
    """Let a tensor hold something else, as one of a class that fits it. Whoever calls this has the lock.

    An interrupt may come between the two: a tensor of a device's class that holds an array is as good as any, and one of the host's class
    must never hold a buffer."""
    part = memory(t)
    if part.__class__ is Part:
        part.pack.terms.whole = False
        t.__dict__["_writes"] += part.pack.terms.runs
        if terms := _terms(t.__dict__.get("_grad")):  # nobody sees from now on who asks for it
            terms.seen = True
    if type(t) is not cls and cls in _home:
        _class.__set__(t, cls)
    _slot.__set__(t, held)
    if type(t) is not cls:
        _class.__set__(t, cls)


def _fetch(t: Tensor) -> Any:
    with lock:
        held = memory(t)
        home = _home.get(type(t))
        if home is None:  # another thread was faster
            return held
        if not in_use(held):
            try:
                array = np.array(held)
            except RuntimeError as error:
                raise Donated(f"this tensor {DONATED}") from error
            _hold(t, array, home)
            return array
    giving.wait()
    return _fetch(t)


def _put(t: Tensor, array: Any) -> None:
    with lock:
        _hold(t, array, _home[type(t)])


def _item(t: Tensor) -> Any:
    methods: Any = Tensor  # which are given to it elsewhere
    return methods.item(t)


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
        if watched.count and local.mode.capture is not None:
            return _item(self)
        try:
            array = np.asarray(memory(self))  # asking the buffer for its shape and type would take as long
        except RuntimeError:  # somebody has it: it will be read again
            return _item(self)
        return array.item() if not array.ndim and array.dtype.kind != "V" else _item(self)

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


def _read(t: Tensor) -> Any:
    with lock:
        part = memory(t)
        if part.__class__ is not Part:  # another thread has made it an ordinary one
            return part
        if not in_use(part):
            part.pack.terms.seen = True
            return part.cut()
    giving.wait()
    return _read(t)


def _replace(t: Tensor, held: Any) -> None:
    with lock:
        _hold(t, held, _resident[_home[type(t)]])


def _writes(t: Tensor) -> int:
    with lock:
        part = memory(t)
        return int(t.__dict__["_writes"] + (part.pack.terms.runs if part.__class__ is Part else 0))


def _set_writes(t: Tensor, count: int) -> None:
    with lock:
        part = memory(t)
        t.__dict__["_writes"] = count - (part.pack.terms.runs if part.__class__ is Part else 0)


def _gradient(t: Tensor) -> Any:
    found = t.__dict__.get("_grad")
    terms = _terms(found)
    if terms is not None:  # whoever asked may keep it
        terms.seen = True
    return found


def _set_gradient(t: Tensor, gradient: Any) -> None:
    terms = _terms(t.__dict__.get("_grad"))
    if terms is not None:
        terms.whole = False
    t.__dict__["_grad"] = gradient


def _terms(gradient: Any) -> Any:
    """Those of a gradient that a step of training has left, in a pack."""
    part = None if gradient is None else memory(gradient)
    return part.pack.terms if part.__class__ is Part else None


class Leased(Resident):
    """A tensor in a pack of a step of training. Kernels that read it get a buffer; whoever writes to it takes it out of the pack. The step
    knows without looking whether somebody has asked for the gradient that it has left, or has set another one."""

    __slots__ = ()
    _held: Any = property(_read, _replace)
    _writes: Any = property(_writes, _set_writes)
    _grad: Any = property(_gradient, _set_gradient)


Resident.__name__ = Leased.__name__ = Tensor.__name__  # in Python's own messages, too, they are tensors
_resident[Tensor], _leased[Tensor] = Resident, Leased
_home[Resident] = _home[Leased] = Tensor


def _class_of(cls: type, kind: type, known: dict[type, type]) -> type:
    """The class of resident or leased tensors for a class of tensors."""
    with _making:
        if cls not in known:
            names = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
            made = type(cls)(cls.__name__, (kind, cls), names)
            known[cls], _home[made] = made, cls
        return known[cls]


def lease(t: Tensor, part: Part) -> None:
    """Put a tensor that nobody else shares memory with into a pack which has its numbers. Whoever calls this has the lock."""
    home = _home.get(type(t)) or type(t)
    if home not in _resident:
        _class_of(home, Resident, _resident)
    _hold(t, part, _leased.get(home) or _class_of(home, Leased, _leased))
    t.__dict__["_writes"] = t.__dict__.get("_writes", 0) - part.pack.terms.runs


def leased(part: Part) -> Tensor:
    """A new tensor in a pack."""
    t: Any = new(Leased)
    _slot.__set__(t, part)
    t._node = t._base = None
    t._requires_grad = False
    t._cell = []
    t.__dict__["_writes"] = -part.pack.terms.runs
    return t  # type: ignore[no-any-return]


def has_gradient(t: Tensor) -> bool:
    """Whether there is something in `.grad`, without asking for it."""
    return t.__dict__.get("_grad") is not None


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
    home = _home.get(type(t)) or type(t)
    with lock:
        _hold(t, buffer, _resident.get(home) or _class_of(home, Resident, _resident))


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
    t._writes += 1
    tell(t, t._writes)


def tell(t: Tensor, writes: int) -> None:
    """Let operations that saved a tensor know that it was written to: as mark_written does, without its questions."""
    old, t._cell = t._cell, []
    old += (t._cell, writes)


@contextlib.contextmanager
def returning(tensors: Iterable[Any]) -> Iterator[None]:
    """Tensors on a device that are only looked at here are there again afterwards."""
    there = [(t, t._held, t._version) for t in tensors if type(t) in _home]
    yield
    for t, buffer, version in there:
        if type(t) not in _home and t._version == version and is_alone(t):
            move(t, buffer)
