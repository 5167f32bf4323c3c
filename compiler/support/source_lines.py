"""The user's source line that an error is about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from symgrad import errors
from symgrad.lines import user_line as user_line, warn as warn


@contextlib.contextmanager
def at_lines(lines: Mapping[Any, str]) -> Iterator[None]:
    """Context manager: prefix errors about a graph value with the user's line that the value comes from."""
    try:
        yield
    except errors.GraphError as error:
        about = error.value
        line = next((lines[v] for v in lines if v is about or any(a is about for a in v.args)), None) if about is not None else None
        if line is None:
            raise
        raise errors.GraphError(f"{line}: {error}") from None
