"""Python's search for garbage in cycles, while a kernel is made of a graph."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """No search in this block. Values, syntax trees and JAX's own objects are made by the thousand, and hardly any is garbage; a search
    goes through all that Python holds, which takes a tenth of a second, twice for a net of 100 layers."""
    searching = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if searching:
            gc.enable()
