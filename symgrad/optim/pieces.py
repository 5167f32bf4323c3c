"""Large tensors piece by piece, so that what an update touches is still in the cache when it is touched again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.mode import local

ELEMENTS = 32768  # five such pieces of float32 are 640 KiB


def pieces(*tensors: Any) -> Iterable[tuple[Any, ...]]:
    """The tensors, which have one shape, or the same rows of each of them in turn. What is recorded or traced stays whole."""
    first = tensors[0]
    size = first.numel()
    if size <= ELEMENTS or local.mode.recording or local.mode.capture is not None:
        return (tensors,)
    rows = max(1, ELEMENTS * len(first) // size)
    return zip(*(t.split(rows) for t in tensors), strict=True)
