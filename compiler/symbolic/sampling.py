"""Arguments for numerical comparisons: random numbers for specs, and random points inside the domain of a formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

SYMMETRIC_ROWS = ("eigh", "cholesky")
"""Rows that read one triangle of a matrix that they assume to be symmetric: their derivatives hold along symmetric directions."""


def drawn(a: Any, rng: np.random.Generator, single: bool) -> Any:
    """Return an array, or random numbers for a spec: in double precision, or in its own with `single`."""
    if not isinstance(a, np.ndarray):
        a = rng.normal(size=a.shape).astype(a.dtype)
    return a.astype(np.float64) if a.dtype.kind == "f" and not single else a


def is_single(graph: Any) -> bool:
    """True if a function calls a JAX function that was traced for single precision."""
    return any(v.row is not None and v.row.foreign is not None and not v.row.foreign.wide for v in graph.values)


def is_square(a: Any) -> bool:
    return bool(a.dtype.kind == "f" and a.ndim > 1 and a.shape[-1] == a.shape[-2] > 1)


def symmetric(a: Any) -> Any:
    return ((a + a.swapaxes(-1, -2)) / 2).astype(a.dtype)


def definite(a: Any) -> Any:
    """Return A Aᵀ + I."""
    return (a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1])).astype(a.dtype)


def points(given: Sequence[Any], fixed: frozenset[int], single: bool, rng: np.random.Generator) -> Iterator[list[Any]]:
    """Iterate over random points without end. Each argument is drawn from one of several regions, since functions are defined on some only:
    small and large numbers of both signs, positive ones, those between 0 and 1, the neighbourhood of given values; definite matrices.
    Inputs in `fixed` and integers keep their values."""
    base = [drawn(a, rng, single) for a in given]
    known = [isinstance(a, np.ndarray) for a in given]
    while True:
        yield [a if i in fixed or a.dtype.kind != "f" else _point(a, known[i], rng) for i, a in enumerate(base)]


def _point(a: Any, known: bool, rng: np.random.Generator) -> Any:
    signed: list[Callable[[Any], Any]] = [lambda x: x, lambda x: rng.uniform(-4, 4, a.shape)] * 3
    regions: list[Callable[[Any], Any]] = [*signed, np.abs, lambda x: np.abs(x) * 4, lambda x: rng.uniform(0.02, 0.98, a.shape)]
    if known and np.all(np.isfinite(a)):
        regions.append(lambda x: a * (1 + 0.1 * x))
    if is_square(a):
        regions += [definite] * 4
    return np.asarray(regions[rng.integers(len(regions))](np.asarray(rng.normal(size=a.shape)))).astype(a.dtype)
