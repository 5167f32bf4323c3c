"""Guards of what containers and arrays hold that a function reads by name: lists, dictionaries, sets, NumPy arrays, buffers, iterators."""

from __future__ import annotations

import array
import ctypes
import io
import types
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Any

import numpy as np

from symgrad.compiler.guards.code_names import is_user_code
from symgrad.compiler.guards.compare import MUTATION_WARNING, StateGuard, describe_change, is_unchanged
from symgrad.compiler.support.source_lines import warn

_MAX_ITEMS = 64
"""The entries of longer containers are compared before each run only if they are at most _MAX_ENTRIES, with those of containers in them."""
_MAX_ENTRIES = 1024
"""Comparing this many entries takes about 15 microseconds. The trace warns of containers with more."""
MAX_DEPTH = 3
"""Nesting depth to which containers are searched."""
_MAX_ITEMS_COMPARED = 10_000
"""The entries of longer containers are not compared after the trace either."""
_MAX_BYTES = 65536
"""Larger arrays are not compared before each run; comparing this many bytes takes 1.2 microseconds."""
_C_DATA = ctypes.Structure.__mro__[1]
"""The base class of the values, arrays and structures of ctypes."""
BUFFERS = (bytearray, array.array, memoryview)
CONTAINERS = (list, dict, set, deque, ChainMap, types.MappingProxyType, UserDict, UserList, *BUFFERS[:2])
CONTENTS = (np.ndarray, Iterator, _C_DATA, tuple, memoryview, *CONTAINERS)
"""Types whose objects have contents to guard."""
_MAPPINGS = (dict, ChainMap, types.MappingProxyType, UserDict)


class ContainerGuard(StateGuard):
    """Guard of the entries, in order, of a list, dictionary, set or similar container that the function reads."""

    def __init__(self, title: str, value: Any, guarded: bool = True) -> None:
        self.title, self.value, self.items = title, value, self._entries(value)
        self.keys, self.parts = [key for key, _ in self.items], [part for _, part in self.items]
        self.guarded = guarded
        self.decides = True
        """True if results may depend on the entries: not for a list that the code only appends to."""

    @staticmethod
    def _entries(value: Any) -> list[tuple[Any, Any]]:
        return list(value.items() if isinstance(value, (Mapping, UserDict)) else enumerate(value))

    def _is_identical(self) -> bool:
        """True if all entries are the objects that they were, which takes about 15 nanoseconds for each."""
        if isinstance(self.value, dict):
            return all(map(is_, self.value.values(), self.parts)) and all(map(is_, self.value, self.keys))
        return isinstance(self.value, list) and all(map(is_, self.value, self.parts))

    def __call__(self) -> bool:
        if len(self.value) != len(self.items):
            return False
        if self._is_identical():
            return True
        entries = self._entries(self.value)
        for (key, now), (before, item) in zip(entries, self.items, strict=False):  # a plain loop, since it runs at every call
            if (now is not item and not is_unchanged(now, item)) or (key is not before and key != before):
                return False
        return True

    def describe(self, *_: Any) -> str:
        if len(self.value) != len(self.items):
            return f"{self.title}: {len(self.items)} -> {len(self.value)} entries"
        for (key, now), (before, item) in zip(self._entries(self.value), self.items, strict=False):
            if key != before:
                return f"{self.title}: another order"
            if not is_unchanged(now, item):
                place = "" if isinstance(self.value, set) else f"[{key!r}]"
                return f"{self.title}{place}: {describe_change(item, now)}"
        return f"{self.title}: as it was"

    def current_values(self) -> list[Any]:
        return [part for _, part in self._entries(self.value)]

    def warn(self) -> None:
        """Warn that the traced code itself changed the entries, if results may depend on them."""
        if self.decides:
            warn(f"{self.title} {MUTATION_WARNING}; keep numbers in a tensor that is written in place, or leave the function eager")


class LargeContainerGuard(ContainerGuard):
    """A container with too many entries to compare before each run: the trace warns, if results may depend on them."""

    def __init__(self, title: str, value: Any, compared: bool) -> None:
        super().__init__(title, value if compared else (), guarded=False)
        self.whole = value

    def warn(self) -> None:
        if not self():
            super().warn()
        elif self.decides:
            warn(
                f"{self.title} is a {self.whole.__class__.__name__} with too many entries to compare before each call. It is read when the"
                " function is traced, and not again: changes are not seen. Pass what changes as an argument, or keep it in a tensor"
            )


class ObjectArrayGuard(ContainerGuard):
    """Guard of the elements of a NumPy array of Python objects."""

    @staticmethod
    def _entries(value: Any) -> list[tuple[Any, Any]]:
        return list(np.ndenumerate(value))

    def __call__(self) -> bool:
        entries = self._entries(self.value)
        return len(entries) == len(self.items) and all(
            key == before and is_unchanged(now, item) for (key, now), (before, item) in zip(entries, self.items, strict=True)
        )

    def describe(self, *_: Any) -> str:
        return f"{self.title}: other elements of an array"


class IteratorGuard(StateGuard):
    """An iterator that the code refers to by name. An iterator cannot be asked whether it was advanced, but advancing it is its only use:
    it counts as changed after every trace, which warns."""

    guarded = False

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value = title, value

    def __call__(self) -> bool:
        return False

    def describe(self, *_: Any) -> str:
        return f"{self.title}: advanced"

    def warn(self) -> None:
        warn(
            f"{self.title} is an iterator. It is advanced when the function is traced, and not again: a compiled call repeats what it gave;"
            " call next() before, and pass the result as an argument, or leave the function eager"
        )


class ArrayGuard(StateGuard):
    """Guard of the elements of a NumPy array that the function reads; an array that is only an operand of ops is an input, which needs no
    guard."""

    is_only_operand: Callable[[Any], bool | None] = staticmethod(lambda sites: None)
    """Whether the code uses the array as an operand only, at the given expressions; None if that is not known: see `array_uses`."""

    def needs_no_guard(self, sites: Any) -> bool:
        """True for an array that is an input of the program, and an operand at these expressions, if the code does not also read it."""
        return self.is_only_operand(sites) is True

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value, self.content = title, value, value.tobytes()

    def __call__(self) -> bool:
        return bool(self.value.tobytes() == self.content)

    def describe(self, *_: Any) -> str:
        return f"{self.title}: other numbers in an array"

    def warn(self) -> None:
        warn(f"{self.title} {MUTATION_WARNING}; make it a tensor that is written in place, or leave the function eager")


class BufferGuard(ArrayGuard):
    """Guard of the bytes of a memoryview, bytearray or `array.array`."""

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value, self.content = title, value, bytes(value)

    def __call__(self) -> bool:
        return bool(bytes(self.value) == self.content)


class LargeArrayGuard(ArrayGuard):
    """A NumPy array that is too large to be compared before each run: the trace warns, unless the array is an input of the program."""

    guarded = False

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value = title, value

    def __call__(self) -> bool:
        return False

    def needs_no_guard(self, sites: Any) -> bool:
        return self.is_only_operand(sites) is not False

    def warn(self) -> None:
        if not isinstance(self.value, np.ndarray):
            warn(
                f"{self.title} is a {self.value.__class__.__name__} of {memoryview(self.value).nbytes} bytes that is read when the function"
                " is traced, and not again: changes are not seen. Make it a tensor with sg.frombuffer, which is read at every call"
            )
            return
        warn(
            f"{self.title} is a NumPy array of {self.value.nbytes} bytes that is read when the function is traced, and"
            " not again: changes are not seen. Make it a tensor with sg.from_numpy, which is read at every call"
        )


def container_guards(title: str, value: Any, depth: int = 0) -> Iterator[StateGuard]:
    """Guards of the contents of `value`, one of CONTENTS, and of the containers in it."""
    if isinstance(value, np.ndarray):
        yield _array_guard(title, value)
        return
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase) and not is_user_code(type(value).__module__):
        yield IteratorGuard(title, value)
    if isinstance(value, _C_DATA):
        yield BufferGuard(title, value)
        return
    if isinstance(value, BUFFERS) and (isinstance(value, memoryview) or len(value) > _MAX_ITEMS):
        yield BufferGuard(title, value) if memoryview(value).nbytes <= _MAX_BYTES else LargeArrayGuard(title, value)
        return
    if not isinstance(value, (*CONTAINERS, tuple)):
        return
    small = is_small(value)
    if not isinstance(value, tuple):
        yield ContainerGuard(title, value) if small else LargeContainerGuard(title, value, len(value) <= _MAX_ITEMS_COMPARED)
    for key, part in items_of(value) if small and depth < MAX_DEPTH else ():
        yield from container_guards(f"{title}[{key!r}]", part, depth + 1)


def _array_guard(title: str, value: Any) -> StateGuard:
    if value.dtype == object:
        return ObjectArrayGuard(title, value) if value.size <= _MAX_ENTRIES else LargeContainerGuard(title, value, False)
    return ArrayGuard(title, value) if value.nbytes <= _MAX_BYTES else LargeArrayGuard(title, value)


def is_small(container: Any) -> bool:
    return len(container) <= _MAX_ITEMS or _count(container) <= _MAX_ENTRIES


def items_of(container: Any) -> Iterable[tuple[Any, Any]]:
    return container.items() if isinstance(container, _MAPPINGS) else enumerate(container)


def _count(container: Any, depth: int = 0) -> int:
    """The number of entries of a container, and of containers in it; any number above _MAX_ENTRIES if there are more."""
    count = len(container)
    for _, part in items_of(container) if depth < MAX_DEPTH and count <= _MAX_ENTRIES else ():
        if isinstance(part, (*CONTAINERS, tuple)) and not isinstance(part, BUFFERS):
            count += _count(part, depth + 1)
        if count > _MAX_ENTRIES:
            break
    return count
