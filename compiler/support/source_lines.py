"""Which line of the user's an error is about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from symgrad import errors
from symgrad.lines import user_line as user_line, warn as warn


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
