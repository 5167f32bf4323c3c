"""Pausing Python's cyclic garbage collector while a kernel is built from a graph."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Context manager that pauses the cyclic garbage collector. Values, syntax trees and JAX objects are created by the thousand, and
    hardly any is garbage; a collection visits every object, which takes a tenth of a second, twice for a network of 100 layers."""
    searching = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if searching:
            gc.enable()
