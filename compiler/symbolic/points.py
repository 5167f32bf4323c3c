"""Random points at which formulas are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.symbolic.certify import _definite, _is_square

_Region = Callable[[np.random.Generator, Any], Any]
_REGIONS: tuple[_Region, ...] = (
    lambda rng, x: x,
    lambda rng, x: rng.uniform(0.02, 0.98, x.shape),
    lambda rng, x: np.abs(x),
    lambda rng, x: rng.uniform(-4, 4, x.shape),
    lambda rng, x: -np.abs(x),
    lambda rng, x: rng.uniform(2, 5, x.shape),
    lambda rng, x: rng.uniform(-5, -2, x.shape),
)
"""From normally distributed numbers to those of a region: small and large ones of both signs, and those between 0 and 1."""


def points(given: Sequence[Any], fixed: frozenset[int], single: bool, rng: np.random.Generator) -> Iterator[list[Any]]:
    """Iterate over random points without end. Each argument goes through all regions of `_REGIONS`, in a random order of its own, since
    functions are defined on some only, and wrong answers are right on some; every third point has all arguments in the same one. Inputs in
    `fixed` and integers keep their values."""
    base = [_wide(a, rng, single) for a in given]
    own = [_regions(a, isinstance(g, np.ndarray)) for a, g in zip(base, given, strict=True)]
    orders: list[list[int]] = [[] for _ in base]
    for n in itertools.count():
        chosen = []
        for order, regions in zip(orders, own, strict=True):
            if not order:
                order += rng.permutation(len(regions)).tolist()
            chosen.append(regions[order.pop() if n % 3 < 2 else n // 3 % len(_REGIONS)])
        yield [
            a if i in fixed or a.dtype.kind != "f" else np.asarray(region(rng, rng.normal(size=a.shape))).astype(a.dtype)
            for i, (a, region) in enumerate(zip(base, chosen, strict=True))
        ]


def _regions(a: Any, known: bool) -> list[_Region]:
    """Return the regions of one argument: also the neighbourhood of a given value, and definite matrices."""
    regions = list(_REGIONS)
    if known and a.dtype.kind == "f" and np.all(np.isfinite(a)):
        regions += [lambda rng, x: a * (1 + 0.1 * x)] * 2
    if _is_square(a):
        regions += [lambda rng, x: _definite(np.asarray(x))] * 4
    return regions


def _wide(a: Any, rng: np.random.Generator, single: bool) -> Any:
    """Return an array, or random numbers for a spec, in double precision unless `single`."""
    array = a if isinstance(a, np.ndarray) else rng.normal(size=a.shape).astype(a.dtype)
    return array.astype(np.float64) if array.dtype.kind == "f" and not single else array
