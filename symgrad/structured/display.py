"""Structured matrices as text, HTML and pictures."""

from __future__ import annotations

from html import escape
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from symgrad.structured.matrix import StructuredMatrix

_SHOWN = 60
"""The pattern in a notebook has at most this many cells in each direction."""
_PLOTTED = 1000


def text(matrix: StructuredMatrix) -> str:
    """Return one line: shape, structure, memory."""
    rows, columns = matrix.shape
    stored, dense = matrix.nbytes, rows * columns * matrix.dtype.itemsize
    saved = f" of {_bytes(dense)} if dense" if stored < dense else ""
    why = f"; {matrix.layout.reason}" if matrix.layout.reason else ""
    return f"StructuredMatrix({rows} x {columns}, {matrix.dtype}, {matrix.structure}: {_bytes(stored)}{saved}{why})"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def html(matrix: StructuredMatrix) -> str:
    """Return the line of `text`, and the pattern as a small picture."""
    cells = pattern(matrix, _SHOWN)
    height, width = cells.shape
    squares = "".join(f'<rect x="{j}" y="{i}" width="1" height="1"/>' for i, j in zip(*np.nonzero(cells), strict=True))
    picture = (
        f'<svg width="{3 * width + 2}" height="{3 * height + 2}" viewBox="-0.5 -0.5 {width + 1} {height + 1}" fill="#1f77b4">{squares}'
        f'<rect x="-0.3" y="-0.3" width="{width + 0.6}" height="{height + 0.6}" fill="none" stroke="#888" stroke-width="0.3"/></svg>'
    )
    return f"<div><code>{escape(text(matrix))}</code><br>{picture}</div>"


def pattern(matrix: StructuredMatrix, limit: int) -> Any:
    """Return which elements some part writes to, as booleans; cells of several elements above `limit` rows or columns."""
    rows, columns = matrix.shape
    shape = min(rows, limit), min(columns, limit)
    cells = np.zeros(shape, bool)
    for p in matrix._parts:
        if p.is_zero or not cells.size:
            continue
        labels = p.placed
        sizes = [p.sizes[i] for i in labels]
        if prod(sizes) >= 0.5 * rows * columns:
            cells[...] = True
            continue
        row, column = (np.broadcast_to(p.numbers(place, labels), sizes) for place in (p.row, p.column))
        cells[row * shape[0] // max(rows, 1), column * shape[1] // max(columns, 1)] = True
    return cells


def plot(matrix: StructuredMatrix, ax: Any = None) -> Any:
    """Draw the pattern on matplotlib axes; return them."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots()
    rows, columns = matrix.shape
    ax.imshow(pattern(matrix, _PLOTTED), cmap="Blues", vmin=0, vmax=1, extent=(0, columns, rows, 0), interpolation="nearest", aspect="auto")
    ax.set_title(matrix.structure)
    return ax
