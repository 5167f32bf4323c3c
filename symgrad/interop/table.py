"""The table: functions of NumPy, and what stands for each on tensors. One file for each family enters its functions here.

An adapter is made of functions of ours, so it is recorded and has derivatives. Its parameters have NumPy's names. It needs no `out`, and
none for options that it cannot honour: `bound` reads a call by NumPy's own signature, and refuses those by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.interop.operands import option

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
REFUSED: dict[Any, str] = {}
"""Why a function has no adapter."""


def implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an adapter."""

    def enter(adapter: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(functions, adapter))
        return adapter

    return enter


def refuses(reason: str, *functions: Any) -> None:
    """Enter functions that have no adapter, and why."""
    REFUSED.update(dict.fromkeys(functions, reason))


HARMLESS: dict[str, tuple[Any, ...]] = {
    "subok": (True, False), "overwrite_input": (True, False), "device": ("cpu",), "order": ("C", "K", "A"),
}  # fmt: skip
"""Options with values that make no difference to tensors, whose elements have one order, and no say in where they are."""


def title(func: Any) -> str:
    """`numpy.linalg.svd`."""
    return f"{func.__module__}.{func.__name__}"


@functools.cache
def _signature(func: Any, adapter: Any) -> inspect.Signature:
    """NumPy's signature; a few of its functions in C have none in older versions."""
    try:
        return inspect.signature(func)
    except ValueError:
        return inspect.signature(adapter)


def bound(func: Any, adapter: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any], Any]:
    """The arguments of a call as the adapter takes them, and `out`. An option that the adapter does not have is an error."""
    others = {name: value for name, value in kwargs.items() if name != "out"}
    signature = _signature(func, adapter)
    given = signature.bind(*args, **others).arguments
    out = given.pop("out", kwargs.get("out"))
    positional, named = _sorted_out(signature, given)
    known = _signature(adapter, adapter).parameters
    unknown = {name: value for name, value in named.items() if name not in known}
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in known.values()):
        _refuse(func, {name: value for name, value in unknown.items() if not _is_harmless(signature, name, value)})
        named = {name: value for name, value in named.items() if name in known}
    return positional, named, out


def _sorted_out(signature: inspect.Signature, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by their place, which are those without a default, and by their names, which are not their defaults."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in given.items():
        p = signature.parameters[name]
        if isinstance(value, np.integer) and name.startswith("axis"):
            value = int(value)
        if p.kind == p.VAR_POSITIONAL:
            positional.extend(value)
        elif p.kind == p.VAR_KEYWORD:
            named.update(value)
        elif p.kind == p.POSITIONAL_ONLY or p.default is p.empty:
            positional.append(value)
        elif value is not p.default:
            named[name] = value
    return positional, named


def _is_harmless(signature: inspect.Signature, name: str, value: Any) -> bool:
    default = signature.parameters[name].default if name in signature.parameters else "K"
    if isinstance(value, (str, int, float)) and value == default:
        return True
    names_fields = name == "order" and default is None  # of sort
    return isinstance(value, (str, bool)) and value in HARMLESS.get(name, ()) and not names_fields


def _refuse(func: Any, unknown: dict[str, Any]) -> None:
    if unknown:
        texts = (f"{name}={value!r}" if isinstance(value, (str, int, float, type)) else name for name, value in unknown.items())
        raise option(title(func), f"does not take {', '.join(texts)}")
