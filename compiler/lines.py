"""Which line of the user's an error is about."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from symgrad import errors

_PACKAGE = str(Path(errors.__file__).parent)
_TRANSFORMING = str(Path("jax", "_src")), str(Path("torch", "_functorch"))
"""Parts of other libraries that call functions of ours for a user."""


@functools.cache
def _is_inner(file: str) -> bool:
    return file.startswith(_PACKAGE) or any(part in file for part in _TRANSFORMING)


@contextlib.contextmanager
def at_lines(lines: Mapping[Any, str]) -> Iterator[None]:
    """An error about a value of a graph names the line that it is from."""
    try:
        yield
    except errors.GraphError as error:
        about = error.value
        line = next((lines[v] for v in lines if v is about or any(a is about for a in v.args)), None) if about is not None else None
        if line is None:
            raise
        raise errors.GraphError(f"{line}: {error}") from None


def warn(message: str) -> None:
    """A warning that stands at the line of the user's."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def user_line() -> str:
    """Where the user's code is now: `model.py:12`."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
