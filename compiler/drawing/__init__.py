"""Draw graphs as pictures, without any external program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from symgrad.compiler.drawing.boxes import sketch
from symgrad.compiler.drawing.mermaid import mermaid
from symgrad.compiler.drawing.svg import svg
from symgrad.compiler.ir.graph import Graph

_WRITERS = {"svg": svg, "mermaid": mermaid}
_LIMITS = {"svg": 1000, "mermaid": 300}
"""Mermaid itself refuses more than 500 edges."""
_SUFFIXES = {".mmd": "mermaid", ".mermaid": "mermaid"}


class Picture(str):
    """The text of a picture, which notebooks show as the picture."""

    kind: str

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        if self.kind == "svg":
            return {"image/svg+xml": str(self)}
        return {"text/vnd.mermaid": str(self), "text/plain": str(self)}


def draw(graph: Graph, path: str | os.PathLike[str] | None, format: str | None, limit: int | None) -> Picture:
    """Draw a graph: see `Graph.draw`."""
    if format is None:
        format = "svg" if path is None else _SUFFIXES.get(Path(path).suffix, "svg")
    if format not in _WRITERS:
        raise ValueError(f"a graph is drawn as {' or '.join(_WRITERS)}, not as {format!r}")
    picture = Picture(_WRITERS[format](sketch(graph, _LIMITS[format] if limit is None else limit)))
    picture.kind = format
    if path is not None:
        Path(path).write_text(picture, encoding="utf-8")
    return picture
