"""Dictionaries and lists that count changes, so that compiled programs notice them without looking everywhere at every call: what modules
consist of, and what optimizers have."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from symgrad.mode import changes, local


def _put_back(group: Any, items: Any) -> None:
    group.clear()
    group.extend(items) if isinstance(group, list) else group.update(items)


def undone(group: Any) -> None:
    """A dictionary or a list is about to be changed; if the call that does it is traced and fails, it will be as it was."""
    if local.mode.capture is not None:
        local.mode.capture.undo(functools.partial(_put_back, group, group.copy()))


def _counting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        changes.count += 1
        if not getattr(self, "kept_elsewhere", False):
            undone(self)
        return method(self, *args, **kwargs)

    return change


_CHANGES = {
    dict: ("__setitem__", "__delitem__", "pop", "popitem", "clear", "update", "setdefault", "__ior__"),
    list: ("__setitem__", "__delitem__", "pop", "clear", "append", "extend", "insert", "remove", "reverse", "sort", "__iadd__", "__imul__"),
}


def counts_changes(cls: type) -> type:
    """Make a class of dictionaries or lists count what its own methods do not."""
    kind = list if issubclass(cls, list) else dict
    for name in _CHANGES[kind]:
        if name not in cls.__dict__:
            setattr(cls, name, _counting(getattr(cls.__mro__[1], name)))
    return cls


@counts_changes
class Group(dict[str, Any]):
    """Parameters, buffers or submodules by their names."""


@counts_changes
class HookGroup(OrderedDict[int, Any]):
    """Hooks by their numbers, in the order in which they are called."""


@counts_changes
class Items(list[Any]):
    """Parameters of an optimizer, or its groups."""
