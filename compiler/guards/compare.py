"""Comparing Python state with what it was at the trace, and the base class of its guards.

Numbers, strings and the like are compared by value, everything else (a tensor, a module, a function) by identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from symgrad.compiler.support.source_lines import warn
from symgrad.tracer import ObjectGuard

COMPARED_BY_VALUE = (bool, int, float, complex, str, bytes, type(None))
MISSING = object()
MUTATION_WARNING = "is changed while the function is traced. Python code runs then, and not again: a compiled call leaves it as it is"
SMALL_CONTAINERS = (list, tuple, dict, set, frozenset)
_MAX_CONTENT, _MAX_CONTENT_DEPTH = 64, 3
"""Larger or deeper containers are compared by identity."""


class StateGuard(ABC):
    """Guard of Python state that a function reads by name; True when called if the state is what it was at the trace."""

    title: str
    value: Any
    attribute: bool = False
    """True for the value of an attribute of an object."""
    plain: bool = False
    """True for a value that is compared by value."""
    guarded: bool = True
    """True if the state is compared before each run; otherwise only after the trace."""
    module_guard: ObjectGuard | None = None
    """The guard of the value itself, if that is a module: its attributes may be read although it is not called."""

    @abstractmethod
    def __call__(self) -> bool: ...

    @abstractmethod
    def describe(self, *_: Any) -> str:
        """A description of the change, for `recompiles()`."""

    def current_values(self) -> list[Any]:
        """The objects that the state consists of now, as far as they may be arguments."""
        return []

    def warn(self) -> None:
        """Warn that the traced code itself changed the state."""
        warn(f"{self.title} {MUTATION_WARNING}; keep it in a tensor that is written in place, or leave the function eager")


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


class Content(tuple[Any, ...]):
    """The type of a small list, tuple, dictionary or set, and its entries; containers in it are Contents, too."""

    __slots__ = ()


def content_of(value: Any, depth: int = 0) -> Any:
    """The Content of a small container; anything else as it is."""
    if type(value) not in SMALL_CONTAINERS or len(value) > _MAX_CONTENT or depth >= _MAX_CONTENT_DEPTH:
        return value
    parts = [part for item in value.items() for part in item] if type(value) is dict else value
    return Content((type(value), *(content_of(part, depth + 1) for part in parts)))


def is_same_content(now: Any, before: Any) -> bool:
    if type(now) is not Content or type(before) is not Content:
        return is_unchanged(now, before)
    return len(now) == len(before) and all(map(is_same_content, now, before))
