"""Dictionaries and lists that count changes, so that compiled programs notice them without looking everywhere at every call: what modules
consist of, and what optimizers have."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from symgrad.mode import guard_epoch, local


def _restore_items(group: Any, items: Any) -> None:
    group.clear()
    group.extend(items) if isinstance(group, list) else group.update(items)


def record_undo(group: Any) -> None:
    """A dictionary or a list is about to be changed; if the call that does it is traced and fails, it will be as it was."""
    if local.mode.capture is not None:
        local.mode.capture.record_undo(functools.partial(_restore_items, group, group.copy()))


def _bump_epoch_first(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard_epoch.count += 1
        if not getattr(self, "has_own_undo", False):
            record_undo(self)
        return method(self, *args, **kwargs)

    return change


_MUTATING_METHODS = {
    dict: ("__setitem__", "__delitem__", "pop", "popitem", "clear", "update", "setdefault", "__ior__"),
    list: ("__setitem__", "__delitem__", "pop", "clear", "append", "extend", "insert", "remove", "reverse", "sort", "__iadd__", "__imul__"),
}


def bumps_guard_epoch(cls: type) -> type:
    """Make a class of dictionaries or lists count what its own methods do not."""
    kind = list if issubclass(cls, list) else dict
    for name in _MUTATING_METHODS[kind]:
        if name not in cls.__dict__:
            setattr(cls, name, _bump_epoch_first(getattr(cls.__mro__[1], name)))
    return cls


@bumps_guard_epoch
class GuardedDict(dict[str, Any]):
    """Parameters, buffers or submodules by their names."""


@bumps_guard_epoch
class GuardedHooks(OrderedDict[int, Any]):
    """Hooks by their numbers, in the order in which they are called."""


@bumps_guard_epoch
class GuardedList(list[Any]):
    """Parameters of an optimizer, or its groups."""
