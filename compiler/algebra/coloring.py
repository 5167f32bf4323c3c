"""Colors of columns: tangents along the sum of all unit vectors of one color give the nonzeros of its columns.

    column coloring   columns of one color have no row in common
    star coloring     for symmetric matrices, of which one of two mirrored nonzeros is enough: no path of four columns has only two colors
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.typing import Array


def column_coloring(rows: Array, cols: Array, m: int, n: int) -> Array:
    """Return the color of each column of a matrix with nonzeros at these places. Greedy, columns with many nonzeros first."""
    by_row, by_col = _lists(rows, cols, m), _lists(cols, rows, n)
    colors = [-1] * n
    for j in sorted(range(n), key=lambda j: -len(by_col[j])):
        taken = {colors[k] for i in by_col[j] for k in by_row[i]}
        colors[j] = _first_free(taken)
    return np.array(colors, np.int64)


def star_coloring(rows: Array, cols: Array, n: int) -> Array:
    """Return the color of each column of a symmetric matrix with nonzeros at these places.

    Greedy (Gebremedhin, Tarafdar, Manne and Pothen 2007): a column differs from its neighbors, and from the neighbors of these where a path
    of four columns in two colors could arise.
    """
    neighbors = [[j for j in found if j != i] for i, found in enumerate(_lists(rows, cols, n))]
    colors = [-1] * n
    for v in sorted(range(n), key=lambda v: -len(neighbors[v])):
        colors[v] = _first_free(set(_forbidden(v, neighbors, colors)))
    return np.array(colors, np.int64)


def _forbidden(v: int, neighbors: list[list[int]], colors: list[int]) -> Iterator[int]:
    for w in neighbors[v]:
        if colors[w] < 0:  # v will lie between w and others: these must differ
            yield from (colors[x] for x in neighbors[w])
            continue
        yield colors[w]
        for x in neighbors[w]:
            if x != v and colors[x] >= 0 and (colors[x] < colors[w] or _is_center(w, x, neighbors, colors)):
                yield colors[x]


def _is_center(w: int, x: int, neighbors: list[list[int]], colors: list[int]) -> bool:
    """True if x, a neighbor of w, has another neighbor of the color of w."""
    return any(y != w and colors[y] == colors[w] for y in neighbors[x])


def recovered(rows: Array, cols: Array, colors: Array, n: int) -> Array:
    """Return where each nonzero of a symmetric matrix stands among the tangents of all colors, (colors, n) row by row."""
    keys = rows * (int(colors.max(initial=0)) + 1) + colors[cols]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alone = counts[inverse.reshape(-1)] == 1  # no other column of that color in the row
    return np.where(alone, colors[cols] * n + rows, colors[rows] * n + cols)


def _lists(keys: Array, values: Array, n: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(n)]
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        found[key].append(value)
    return found


def _first_free(taken: set[int]) -> int:
    color = 0
    while color in taken:
        color += 1
    return color
