"""Dictionaries and lists that bump the guard epoch when they change, so that compiled programs notice changes to modules and optimizers
without checking everything at every call."""

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
    """Register an undo for a dictionary or list that is about to change: a traced call that fails restores it."""
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
    """Class decorator: make the inherited mutating methods of a dictionary or list bump the guard epoch."""
    kind = list if issubclass(cls, list) else dict
    for name in _MUTATING_METHODS[kind]:
        if name not in cls.__dict__:
            setattr(cls, name, _bump_epoch_first(getattr(cls.__mro__[1], name)))
    return cls


@bumps_guard_epoch
class GuardedDict(dict[str, Any]):
    """Parameters, buffers or submodules by name."""


@bumps_guard_epoch
class GuardedHooks(OrderedDict[int, Any]):
    """Hooks by id, in call order."""


@bumps_guard_epoch
class GuardedList(list[Any]):
    """The parameters of an optimizer, or its parameter groups."""
