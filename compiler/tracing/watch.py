"""What Python code depends on besides its arguments: names that it reads, and what the modules that it calls consist of.

Numbers, strings and the like are compared by value, everything else (a tensor, a module, a function) by identity. Which names there are is
found by `symgrad.compiler.tracing.reading`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.lines import warn
from symgrad.resident import has_gradient
from symgrad.tensor import Tensor

VALUES = (bool, int, float, complex, str, bytes, type(None))
_GROUPS = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
MISSING = object()
_CHANGED = "is changed while the function is traced. Python code runs then, and not again: a compiled call leaves it as it is"


def same(now: Any, before: Any) -> bool:
    """Whether a value is what it was."""
    return now is before or (type(before) in VALUES and type(now) is type(before) and (now == before or now != now))


def change(before: Any, now: Any) -> str:
    """What has become of a value, in words."""
    if type(before) in VALUES and type(now) in VALUES:
        return f"{before!r} -> {now!r}"
    return "gone" if now is MISSING else f"another {type(now).__name__}"


def now(read: Callable[[], Any]) -> Any:
    """What stands for a name."""
    try:
        return read()
    except ValueError:  # a closure cell is empty
        return MISSING


class Name:
    """A closure cell or a global: called before each run, it says whether it is what it was."""

    def __init__(self, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        self.title, self.read, self.attribute = title, read, attribute
        self.value = now(read)
        self.plain = type(self.value) in VALUES
        self.makeup = Makeup(self.value) if not isinstance(self.value, type) and hasattr(self.value, "named_parameters") else None
        """Of a module: its attributes may be read without it being called."""

    def __call__(self) -> bool:
        found = now(self.read)
        if found is self.value:
            return True
        return self.plain and type(found) is type(self.value) and (found == self.value or found != found)

    def describe(self, *_: Any) -> str:
        return f"{self.title}: {change(self.value, now(self.read))}"

    def held(self) -> list[Any]:
        """What is there now."""
        return [now(self.read)]

    def warn(self) -> None:
        """The traced code itself has changed it. An object may keep a list or the like of its own, as long as it decides nothing."""
        if self.attribute and not self.plain:
            return
        warn(f"{self.title} {_CHANGED}; keep it in a tensor that is written in place, or leave the function eager")


class Contents:
    """What is in a list or a dictionary that the function reads."""

    attribute = plain = False
    makeup = None

    def __init__(self, title: str, value: Any) -> None:
        self.title, self.value = title, value
        self.items = list(value.items() if isinstance(value, dict) else enumerate(value))
        self._now: Callable[[Any], Any] = value.get if isinstance(value, dict) else value.__getitem__

    def __call__(self) -> bool:
        if len(self.value) != len(self.items):
            return False
        for key, item in self.items:  # a plain loop, since it runs at every call
            now = self._now(key)
            if now is not item and not same(now, item):
                return False
        return True

    def describe(self, *_: Any) -> str:
        if len(self.value) != len(self.items):
            return f"{self.title}: {len(self.items)} -> {len(self.value)} entries"
        key, item = next((key, item) for key, item in self.items if not same(self._now(key), item))
        return f"{self.title}[{key!r}]: {change(item, self._now(key))}"

    def held(self) -> list[Any]:
        return list(self.value.values() if isinstance(self.value, dict) else self.value)

    def warn(self) -> None:
        """The traced code itself may keep something there, as long as it decides nothing."""


class HasGradient:
    """Whether a tensor that the function brings along has a gradient in its `.grad`; or, if the program has that in it, still the same."""

    def __init__(self, tensor: Tensor, name: str | None, same: bool) -> None:
        self.tensor, self.name = tensor, tensor.name or name or "a tensor that the function brings along"
        self.grad = tensor._grad if same else None

    def __call__(self) -> bool:
        return has_gradient(self.tensor) if self.grad is None else self.tensor._grad is self.grad

    def describe(self, before: bool, now: bool) -> str:
        changed = "a gradient -> none" if not has_gradient(self.tensor) else "another gradient" if before else "none -> a gradient"
        return f".grad of {self.name}: {changed}"


class Makeup:
    """What a module consists of: its parameters, buffers, submodules and hooks, each by identity, and plain values among its attributes."""

    def __init__(self, module: Any) -> None:
        self.module, self.own = module, module.__dict__
        self.parts = [(group, dict(self.own[group])) for group in _GROUPS if group in self.own]
        self.plain = {name: value for name, value in self.own.items() if type(value) in VALUES}

    def __call__(self) -> bool:
        return self.failed() is None

    def tensors(self) -> list[Tensor]:
        """Its parameters and buffers."""
        return [x for _, parts in self.parts for x in parts.values() if isinstance(x, Tensor)]

    def failed(self) -> str | None:
        """What is no longer as it was."""
        own, title = self.own, type(self.module).__name__
        for name, value in self.plain.items():
            now = own.get(name, MISSING)
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
        for name in [name for name, value in self.plain.items() if self.own.get(name, MISSING) != value]:
            del self.plain[name]
            warn(f"{type(self.module).__name__}.{name} {_CHANGED}; make it a buffer, or leave the function eager")
