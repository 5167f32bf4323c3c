"""The table: functions of NumPy, and what stands for each on tensors. One file for each family enters its functions here.

An adapter has NumPy's signature, without `out`, and is made of functions of ours, so it is recorded and has derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
