"""What Python code depends on besides its arguments: names that it reads, and what the modules that it calls consist of.

Names are closure cells and globals that the function, and functions that it calls by such names, read: numbers, strings and the like are
compared by value, everything else (a tensor, a module, a function) by identity. Attributes of other objects, and what is in lists and
dictionaries, are not looked at: that is as it was when the function was traced.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from symgrad.compiler.lines import warn
from symgrad.tensor import Tensor

_VALUES = (bool, int, float, complex, str, bytes, type(None))
_PASSED_OVER = (types.ModuleType, type, types.BuiltinFunctionType)
_GROUPS = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_MISSING = object()
_CHANGED = "is changed while the function is traced. Python code runs then, and not again: a compiled call leaves it as it is"
_MOST = 200
"""Functions that are looked through."""


class Name:
    """A closure cell or a global: called before each run, it says whether it is what it was."""

    def __init__(self, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        self.title, self.read, self.attribute = title, read, attribute
        self.value = read()
        self.plain = type(self.value) in _VALUES
        self.makeup = Makeup(self.value) if not isinstance(self.value, type) and hasattr(self.value, "named_parameters") else None
        """Of a module: its attributes may be read without it being called."""

    def __call__(self) -> bool:
        now = self.read()
        if now is self.value:
            return True
        return self.plain and type(now) is type(self.value) and (now == self.value or now != now)

    def describe(self, *_: Any) -> str:
        now = self.read()
        if self.plain and type(now) in _VALUES:
            return f"{self.title}: {self.value!r} -> {now!r}"
        kinds = "gone" if now is _MISSING else f"another {type(now).__name__}"
        return f"{self.title}: {kinds}"


    def warn(self) -> None:
        """The traced code itself has changed it. An object may keep a list or the like of its own, as long as it decides nothing."""
        if self.attribute and not self.plain:
            return
        warn(f"{self.title} {_CHANGED}; keep it in a tensor that is written in place, or leave the function eager")


def names(function: Any) -> list[Name]:
    """What a function, and the user's functions that it calls by name, read; of a method, the attributes of its object, too."""
    found = {key: Name(title, read, attribute=True) for key, title, read in _attributes(function)}
    seen: set[int] = set()
    waiting = list(_functions(function))
    while waiting and len(seen) < _MOST:
        f = waiting.pop()
        if id(f.__code__) in seen:
            continue
        seen.add(id(f.__code__))
        for key, title, read in _reads(f):
            if key in found:
                continue
            value = read()
            if isinstance(value, _PASSED_OVER) or value is _MISSING or _is_ours(value):
                continue
            found[key] = Name(title, read)
            waiting += _functions(value)
    return list(found.values())


def _attributes(function: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """Of the object whose method it is, or which is called like a function; a module is looked at as a whole."""
    owner = function.__self__ if isinstance(function, types.MethodType) else function
    if isinstance(owner, (types.FunctionType, type)) or hasattr(owner, "__wrapped__"):
        return
    if hasattr(owner, "named_parameters"):
        yield id(owner), "self", lambda: owner
    elif not _is_library(type(owner)):
        yield from _own(owner)


def _own(owner: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    title, own = type(owner).__name__, getattr(owner, "__dict__", {})
    for name, value in own.items():
        if not isinstance(value, _PASSED_OVER):
            yield (id(owner), name), f"{title}.{name}", functools.partial(own.get, name, _MISSING)
    for name in _slots(type(owner)):
        if not isinstance(getattr(owner, name, _MISSING), _PASSED_OVER):
            yield (id(owner), name), f"{title}.{name}", functools.partial(getattr, owner, name, _MISSING)


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        given = base.__dict__.get("__slots__", ())
        yield from (name for name in ([given] if isinstance(given, str) else given) if name not in ("__dict__", "__weakref__"))


def _is_ours(x: Any) -> bool:
    """A function of this package, or of NumPy and the like, which nobody replaces."""
    return isinstance(x, (types.FunctionType, types.MethodType)) and _is_library(x)


def _is_library(x: Any) -> bool:
    return str(x.__module__).partition(".")[0] in ("symgrad", "numpy", "jax", "functools", "builtins")


def _functions(x: Any) -> Iterator[Any]:
    """The Python functions behind something that is called."""
    x = getattr(x, "__wrapped__", x) if not isinstance(x, types.FunctionType) else x
    if isinstance(x, types.MethodType):
        x = x.__func__
    if isinstance(x, types.FunctionType) and not _is_ours(x):
        yield x
        if hasattr(x, "__wrapped__"):
            yield from _functions(x.__wrapped__)
    elif not isinstance(x, (type, Tensor)) and hasattr(x, "named_parameters"):
        for module in x.modules():
            forward = getattr(type(module).forward, "__wrapped__", type(module).forward)
            if isinstance(forward, types.FunctionType) and not _is_ours(forward):
                yield forward


def _reads(f: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
        yield id(cell), f"closure cell {name}", _cell_reader(cell)
    space = f.__globals__
    for name in _global_names(f.__code__):
        if name in space:
            yield (id(space), name), f"global {name}", functools.partial(space.get, name, _MISSING)


def _cell_reader(cell: Any) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING

    return read


def _global_names(code: Any) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


class HasGradient:
    """Whether a tensor that the function brings along has a gradient in its `.grad`; or, if the program has that in it, still the same."""

    def __init__(self, tensor: Tensor, name: str | None, same: bool) -> None:
        self.tensor, self.name = tensor, tensor.name or name or "a tensor that the function brings along"
        self.grad = tensor._grad if same else None

    def __call__(self) -> bool:
        return self.tensor._grad is not None if self.grad is None else self.tensor._grad is self.grad

    def describe(self, before: bool, now: bool) -> str:
        changed = "a gradient -> none" if self.tensor._grad is None else "another gradient" if before else "none -> a gradient"
        return f".grad of {self.name}: {changed}"


class Makeup:
    """What a module consists of: its parameters, buffers, submodules and hooks, each by identity, and plain values among its attributes."""

    def __init__(self, module: Any) -> None:
        self.module, self.own = module, module.__dict__
        self.parts = [(group, dict(self.own[group])) for group in _GROUPS if group in self.own]
        self.plain = {name: value for name, value in self.own.items() if type(value) in _VALUES}

    def __call__(self) -> bool:
        return self.failed() is None

    def tensors(self) -> list[Tensor]:
        """Its parameters and buffers."""
        return [x for _, parts in self.parts for x in parts.values() if isinstance(x, Tensor)]

    def failed(self) -> str | None:
        """What is no longer as it was."""
        own, title = self.own, type(self.module).__name__
        for name, value in self.plain.items():
            now = own.get(name, _MISSING)
            if now is not value and (type(now) is not type(value) or (now != value and value == value)):
                return f"training: {value} -> {now}" if name == "training" else f"{title}.{name}: {value!r} -> {now!r}"
        for group, parts in self.parts:
            now = own[group]
            if now.keys() != parts.keys():
                return f"{title}: other {group.strip('_').replace('_', ' ')}"
            for name, part in parts.items():
                if now[name] is not part:
                    return f"{title}.{name}: another {type(now[name]).__name__}"
        return None

    def describe(self, *_: Any) -> str:
        return str(self.failed())

    def settle(self) -> None:
        """After the trace: what the module's own code has changed cannot be held fixed. It is not done again by a program."""
        for name in [name for name, value in self.plain.items() if self.own.get(name, _MISSING) != value]:
            del self.plain[name]
            warn(f"{type(self.module).__name__}.{name} {_CHANGED}; make it a buffer, or leave the function eager")
