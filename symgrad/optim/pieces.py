"""Large tensors piece by piece, so that what an update touches is still in the cache when it is touched again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.mode import local
from symgrad.views import mark_written, rows_of

ELEMENTS = 65536  # half as many are slower by a tenth, for the calls; more are slower on machines with small caches


def pieces(param: Any, grad: Any, *state: Any) -> Iterable[tuple[Any, ...]]:
    """The tensors, which have one shape, or the same rows of each of them in turn. What is recorded or traced stays whole.

    All but the gradient count as written to.
    """
    size, mode = param.numel(), local.mode
    if size <= ELEMENTS or mode.recording or mode.capture is not None:
        return ((param, grad, *state),)
    for tensor in (param, *state):
        mark_written(tensor)
    rows = max(1, ELEMENTS * len(param) // size)
    return zip(*(rows_of(tensor, rows) for tensor in (param, grad, *state)), strict=True)
