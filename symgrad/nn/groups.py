"""The dictionaries in which a module keeps its parameters, buffers, submodules and hooks: they count changes, so that compiled programs
notice them without looking at every module at every call."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from symgrad.mode import changes, local


def _put_back(group: Any, items: dict[Any, Any]) -> None:
    group.clear()
    group.update(items)


def _counting(method: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        changes.count += 1
        if local.mode.capture is not None:
            local.mode.capture.undo(functools.partial(_put_back, self, dict(self)))
        return method(self, *args, **kwargs)

    return change


_CHANGES = ("__setitem__", "__delitem__", "pop", "popitem", "clear", "update", "setdefault", "__ior__")


class Group(dict[str, Any]):
    """Parameters, buffers or submodules by their names."""


class HookGroup(OrderedDict[int, Any]):
    """Hooks by their numbers, in the order in which they are called."""


for _name in _CHANGES:
    setattr(Group, _name, _counting(getattr(dict, _name)))
    setattr(HookGroup, _name, _counting(getattr(OrderedDict, _name)))
