"""Finish what has begun although Ctrl-C arrives: state is changed completely or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def run_to_completion(action: Callable[[], Any]) -> None:
    """Run an idempotent action to its end, even if it is interrupted: repeat it, then re-raise the interrupt."""
    try:
        action()
    except Exception:
        raise
    except BaseException:
        action()
        raise


def rewind_generators(marks: Sequence[tuple[Any, Any]]) -> None:
    """Rewind generators, so that a replay draws the same random numbers."""
    run_to_completion(lambda: [generator.rewind(mark) for generator, mark in marks])
