"""SparsityPattern: where the nonzeros of a derivative are, as text, as a picture, and as a matrix of SciPy."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from symgrad.compiler.algebra.sparse_values import SparseBlock
from symgrad.typing import Array

_MOST_CELLS = 24
"""The largest number of rows and columns that are written one by one."""
_MOST_DOTS = 80, 96
"""The largest numbers of rows and columns of dots, of which each is several elements."""
_SIDE = 240
"""The largest number of pixels of a picture in a notebook."""
_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


class SparsityPattern:
    """The places at which a Jacobian or Hessian may be nonzero, for results and inputs that are flattened in row-major order."""

    shape: tuple[int, int]
    rows: Array
    cols: Array
    """The places, ordered by row, then by column."""
    what: str
    """ "jacobian" or "hessian"."""
    method: str
    """How sparse derivatives compute the values: "closed form", "coloring" with the number of colors, or "dense"."""

    def __init__(self, block: SparseBlock, what: str) -> None:
        order = np.argsort(block.rows * block.shape[1] + block.cols, kind="stable")
        self.shape, self.what, self.method = block.shape, what, block.method
        self.rows, self.cols = block.rows[order], block.cols[order]

    @property
    def nnz(self) -> int:
        """The number of places."""
        return len(self.rows)

    @property
    def density(self) -> float:
        """The share of places among all elements; 0 for an empty matrix."""
        return self.nnz / max(self.shape[0] * self.shape[1], 1)

    def to_scipy(self) -> Any:
        """Return a scipy.sparse.csr_array with True at each place; `jac_sparsity` of SciPy's solvers takes it."""
        from scipy.sparse import csr_array

        return csr_array((np.ones(self.nnz, bool), (self.rows, self.cols)), shape=self.shape)

    def plot(self, axes: Any = None) -> Any:
        """Draw the pattern with Matplotlib, and return the axes: those given, or new ones."""
        from matplotlib import pyplot

        axes = pyplot.subplots(layout="constrained")[1] if axes is None else axes
        m, n = self.shape
        height, width = min(m, 600), min(n, 600)
        if height and width:
            share = self._binned(height, width) / (m / height * n / width)
            extent = (-0.5, n - 0.5, m - 0.5, -0.5)
            axes.imshow(share**0.25, cmap="Blues", vmin=0, vmax=1, extent=extent, interpolation="nearest")
        axes.set_title(self._title())
        return axes

    def _title(self) -> str:
        m, n = self.shape
        return f"{self.what} {m:,} × {n:,}: {self.nnz:,} nonzeros, {self.density:.3g} of all"

    def _binned(self, height: int, width: int) -> Array:
        """Return the numbers of places in a grid of cells."""
        m, n = self.shape
        places = self.rows * height // m * width + self.cols * width // n
        return np.bincount(places, minlength=height * width).reshape(height, width)

    def __repr__(self) -> str:
        """The numbers, and a picture: of a large matrix, each dot is a part in which there are nonzeros."""
        lines = [f"sparsity of the {self._title()} ({self.method})"]
        m, n = self.shape
        if not m or not n:
            return lines[0]
        if m <= _MOST_CELLS and n <= _MOST_CELLS:
            cells = self._binned(m, n)
            return "\n".join(lines + ["  " + " ".join("●" if cell else "·" for cell in row) for row in cells])
        height, width = -(-min(m, _MOST_DOTS[0]) // 4) * 4, -(-min(n, _MOST_DOTS[1]) // 2) * 2
        dots = np.zeros((height, width), bool)
        shown = min(m, height), min(n, width)
        dots[: shown[0], : shown[1]] = self._binned(*shown) > 0
        codes = (dots.reshape(height // 4, 4, width // 2, 2) * _BRAILLE[:, None, :]).sum((1, 3))
        return "\n".join(lines + ["  " + "".join(chr(0x2800 + code) for code in row) for row in codes.tolist()])

    def _repr_html_(self) -> str:
        """The title and a picture as SVG, for notebooks."""
        m, n = self.shape
        side = max(m, n, 1)
        height, width = (max(min(k, k * _SIDE // side), 1) for k in (m, n))
        cells = self._binned(height, width) if m and n else np.zeros((1, 1))
        path = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(cells).tolist())
        scale = max(_SIDE // max(height, width), 1)
        return (
            f"<figure><figcaption>{escape(self._title())} ({escape(self.method)})</figcaption>"
            f'<svg width="{width * scale}" height="{height * scale}" viewBox="0 0 {width} {height}" shape-rendering="crispEdges">'
            f'<rect width="{width}" height="{height}" fill="#eee"/><path d="{path}" fill="#1f4e9c"/></svg></figure>'
        )
