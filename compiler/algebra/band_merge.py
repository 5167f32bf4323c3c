"""Bands with the same rows and columns become one band, whose value is their sum: there is one evaluation for each diagonal.

Numbers are added to values only where they meet: what is constant stays constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from symgrad.compiler.algebra.band import Band, plus, reshaped
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Value, literal


def merged(bands: Sequence[Band]) -> list[Band]:
    """Return bands with the same sum."""
    if len(bands) < 2:
        return list(bands)
    found: list[Band] = []
    for band in bands:
        for k, other in enumerate(found):
            if _same_grid(band, other):
                found[k] = replace(other, value=plus(other.value, band.value))
                break
        else:
            found.append(band)
    return _united(found)


def _same_grid(a: Band, b: Band) -> bool:
    if a.view != b.view or a.box != b.box or a.sizes != b.sizes or a.cols.shape != b.cols.shape:
        return False
    if a.cols is not b.cols and (a.cols.flat[0] != b.cols.flat[0] or not np.array_equal(a.cols, b.cols)):
        return False
    return a.rows is b.rows or (a.rows is not None and b.rows is not None and np.array_equal(a.rows, b.rows))


def _united(bands: list[Band]) -> list[Band]:
    """Unite bands of one diagonal on boxes that together are a box."""
    found: list[Band] = []
    for band in bands:
        k = 0
        while k < len(found):
            union = _union(found[k], band)
            if union is None:
                k += 1
            else:
                band = union
                del found[k]
                k = 0
        found.append(band)
    return found


def _union(a: Band, b: Band) -> Band | None:
    if not _comparable(a, b):
        return None
    box = tuple((min(r[0], s[0]), max(r[1], s[1]), 1) for r, s in zip(a.box, b.box, strict=True))
    common = [max(min(r[1], s[1]) - max(r[0], s[0]), 0) for r, s in zip(a.box, b.box, strict=True)]
    sizes = tuple(stop - start for start, stop, _ in box)
    if a.count + b.count - prod(common) != prod(sizes):
        return None
    numbers = [isinstance(x.value, (int, float)) for x in (a, b)]
    if all(numbers) or (any(numbers) and not prod(common)):
        return None
    cols = np.full(sizes, -1, np.int64)
    cols[_region(a, box)] = a.cols
    if prod(common):
        shared = cols[_region(b, box)]
        if not np.array_equal(np.where(shared < 0, b.cols, shared), np.broadcast_to(b.cols, b.sizes)):
            return None
    cols[_region(b, box)] = b.cols
    dtype = next((x.value.dtype for x in (a, b) if isinstance(x.value, Value)), None)
    value = None if dtype is None else _spread(a, box, sizes, dtype) + _spread(b, box, sizes, dtype)
    return Band(a.view, box, sizes, cols, value)


def _comparable(a: Band, b: Band) -> bool:
    """True if the bands may be parts of one diagonal."""
    if a.rows is not None or b.rows is not None or a.view != b.view or a.extra or b.extra:
        return False
    if (a.value is None) != (b.value is None):
        return False
    if any(r[2] != 1 for r in (*a.box, *b.box)):
        return False
    return bool(_offset(a) == _offset(b))


def _offset(band: Band) -> Any:
    """Return how far the first nonzero is from the main diagonal."""
    inner = [prod(band.view[d + 1 :]) for d in range(len(band.view))]
    return band.cols.flat[0] - sum(r[0] * n for r, n in zip(band.box, inner, strict=True))


def _region(band: Band, box: Sequence[tuple[int, int, int]]) -> tuple[slice, ...]:
    return tuple(slice(r[0] - o[0], r[1] - o[0]) for r, o in zip(band.box, box, strict=True))


def _spread(band: Band, box: Sequence[tuple[int, int, int]], sizes: tuple[int, ...], dtype: Any) -> Value:
    """Return the value of a band in a larger box, with zeros beside it."""
    value = band.value if isinstance(band.value, Value) else literal(band.value, dtype)
    value = xp.expand(value, shape=band.sizes) if value.shape != band.sizes else value
    if band.sizes == sizes:
        return value
    widths = tuple((r[0] - o[0], o[1] - r[1]) for r, o in zip(band.box, box, strict=True))
    return xp.pad(reshaped(value, band.sizes), widths=widths, value=0)
