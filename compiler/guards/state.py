"""Guards of Python state that a function depends on besides its arguments: the names that it reads, and the parts of modules that it calls.

Numbers, strings and the like are compared by value, everything else (a tensor, a module, a function) by identity.
`symgrad.compiler.guards.names` finds the names.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import numpy as np

from symgrad.compiler.inputs.pytree import has_attribute
from symgrad.compiler.support.source_lines import warn
from symgrad.device_tensor import has_grad
from symgrad.tensor import Tensor

COMPARED_BY_VALUE = (bool, int, float, complex, str, bytes, type(None))
_GUARDED_GROUPS = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
MISSING = object()
_MUTATION_WARNING = "is changed while the function is traced. Python code runs then, and not again: a compiled call leaves it as it is"


def is_unchanged(now: Any, before: Any) -> bool:
    """True if `now` is the same object as `before`, or an equal number or string of the same type. Floats are compared by their bits: 0.0
    differs from -0.0, and NaN equals NaN."""
    if now is before:
        return True
    if type(before) not in COMPARED_BY_VALUE or type(now) is not type(before):
        return False
    return repr(now) == repr(before) if isinstance(before, (float, complex)) else bool(now == before)


def describe_change(before: Any, now: Any) -> str:
    """A description of the change from `before` to `now`: `1 -> 2`, `gone`, `another Linear`."""
    if type(before) in COMPARED_BY_VALUE and type(now) in COMPARED_BY_VALUE:
        return f"{before!r} -> {now!r}"
    return "gone" if now is MISSING else f"another {now.__class__.__name__}"


def read_or_missing(read: Callable[[], Any]) -> Any:
    """The result of `read()`, the object bound to a name; MISSING for an empty closure cell."""
    try:
        return read()
    except ValueError:  # a closure cell is empty
        return MISSING


class NameGuard:
    """Guard of a closure cell, a global or an attribute: True when called if it still holds the same object, or an equal plain value."""

    guarded = True

    def __init__(self, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        self.title, self.read, self.attribute = title, read, attribute
        self.value = read_or_missing(read)
        self.plain = type(self.value) in COMPARED_BY_VALUE
        self.module_guard = (
            ModuleGuard(self.value) if not isinstance(self.value, type) and has_attribute(self.value, "named_parameters") else None
        )
        """The guard of the value itself, if that is a module: its attributes may be read although it is not called."""

    def __call__(self) -> bool:
        return is_unchanged(read_or_missing(self.read), self.value)

    def describe(self, *_: Any) -> str:
        return f"{self.title}: {describe_change(self.value, read_or_missing(self.read))}"

    def current_values(self) -> list[Any]:
        """The object that the name is bound to now, as a list."""
        return [read_or_missing(self.read)]

    def warn(self) -> None:
        """Warn that the traced code itself rebound the name. Silent for an attribute that held no plain value: an object may keep a list or
        the like of its own, on which results are assumed not to depend."""
        if self.attribute and not self.plain:
            return
        warn(f"{self.title} {_MUTATION_WARNING}; keep it in a tensor that is written in place, or leave the function eager")


class ContainerGuard:
    """Guard of the entries, in order, of a list, dictionary, set or similar container that the function reads."""

    attribute = plain = False
    module_guard = None

    def __init__(self, title: str, value: Any, guarded: bool = True) -> None:
        self.title, self.value, self.items = title, value, self._entries(value)
        self.keys, self.parts = [key for key, _ in self.items], [part for _, part in self.items]
        self.guarded = guarded
        """True if the entries are compared before each run; otherwise only after the trace."""
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
            warn(f"{self.title} {_MUTATION_WARNING}; keep numbers in a tensor that is written in place, or leave the function eager")


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


class IteratorGuard:
    """An iterator that the code refers to by name. An iterator cannot be asked whether it was advanced, but advancing it is its only use:
    it counts as changed after every trace, which warns."""

    attribute = plain = guarded = False
    module_guard = None

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value = title, value

    def __call__(self) -> bool:
        return False

    def describe(self, *_: Any) -> str:
        return f"{self.title}: advanced"

    def current_values(self) -> list[Any]:
        return []

    def warn(self) -> None:
        warn(
            f"{self.title} is an iterator. It is advanced when the function is traced, and not again: a compiled call repeats what it gave;"
            " call next() before, and pass the result as an argument, or leave the function eager"
        )


class ArrayGuard:
    """Guard of the elements of a NumPy array that the function reads; an array that is an input of the program needs no guard."""

    attribute = plain = False
    guarded = True
    module_guard = None

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value, self.content = title, value, value.tobytes()

    def __call__(self) -> bool:
        return bool(self.value.tobytes() == self.content)

    def describe(self, *_: Any) -> str:
        return f"{self.title}: other numbers in an array"

    def current_values(self) -> list[Any]:
        return []

    def warn(self) -> None:
        warn(f"{self.title} {_MUTATION_WARNING}; make it a tensor that is written in place, or leave the function eager")


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


StateGuard = NameGuard | ContainerGuard | ArrayGuard | IteratorGuard


class GradPresenceGuard:
    """Guard of the `.grad` of a captured tensor: True when called if there is a gradient, or with `same`, if it is still the same one,
    which the program contains."""

    def __init__(self, tensor: Tensor, name: str | None, same: bool) -> None:
        self.tensor, self.name = tensor, tensor.name or name or "a tensor that the function captures"
        self.grad = tensor._grad if same else None

    def __call__(self) -> bool:
        return has_grad(self.tensor) if self.grad is None else self.tensor._grad is self.grad

    def describe(self, before: bool, now: bool) -> str:
        changed = "a gradient -> none" if not has_grad(self.tensor) else "another gradient" if before else "none -> a gradient"
        return f".grad of {self.name}: {changed}"


class ModuleGuard:
    """Guard of the parts of a module: its parameters, buffers, submodules and hooks by identity, its plain attributes by value, and its
    `forward`."""

    def __init__(self, module: Any) -> None:
        self.module, self.own = module, module.__dict__
        self.parts = [(group, dict(self.own[group])) for group in _GUARDED_GROUPS if group in self.own]
        self.plain = {name: value for name, value in self.own.items() if type(value) in COMPARED_BY_VALUE}
        self.forward = self._forward()

    def _forward(self) -> tuple[Any, Any]:
        """The functions that a call may run: the `forward` in the module's own attributes, if it was replaced, and that of its class."""
        return self.own.get("forward"), getattr(type(self.module), "forward", None)

    def __call__(self) -> bool:
        return self.explain_failure() is None

    def tensors(self) -> list[Tensor]:
        """The module's own parameters and buffers."""
        return [x for _, parts in self.parts for x in parts.values() if isinstance(x, Tensor)]

    def explain_failure(self) -> str | None:
        """A description of the first part that changed, or None."""
        own, title = self.own, type(self.module).__name__
        for name, value in self.plain.items():
            now = own.get(name, MISSING)
            if now is not value and not is_unchanged(now, value):
                return f"training: {value} -> {now}" if name == "training" else f"{title}.{name}: {value!r} -> {now!r}"
        if self._forward() != self.forward:
            return f"{title}.forward: another function"
        for group, parts in self.parts:
            now = own[group]
            if now.keys() != parts.keys():
                return f"{title}: other {group.strip('_').replace('_', ' ')}"
            for name, part in parts.items():
                if now[name] is not part:
                    return f"{title}.{name}: another {now[name].__class__.__name__}"
        return None

    def describe(self, *_: Any) -> str:
        return str(self.explain_failure())

    def finalize(self) -> None:
        """Drop the guards of attributes that the module's own code changed during the trace, with a warning: a program does not repeat the
        change."""
        for name in [name for name, value in self.plain.items() if not is_unchanged(self.own.get(name, MISSING), value)]:
            del self.plain[name]
            warn(f"{type(self.module).__name__}.{name} {_MUTATION_WARNING}; make it a buffer, or leave the function eager")
