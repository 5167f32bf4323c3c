"""Samples of the rows that fold, scan, sort and choose: elements are far apart, so that no tie is near."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf
from typing import Any

import numpy as np

from symgrad.ops.reduction import Everything

Sample = tuple[tuple[Any, ...], dict[str, Any]]
ALL = Everything((0, 1, 2))
_FOLDS = [{"axis": axis, "keepdims": keepdims} for axis, keepdims in (((1,), False), ((0, 2), True), (ALL, False))]
_ONE_FOLD = [{"axis": axis, "keepdims": keepdims} for axis, keepdims in (((1,), False), ((0,), True), (ALL, False))]
_WHOLE = [{"axis": ALL, "keepdims": False}]
_ALONG = [{"axis": axis, "keepdims": keepdims} for axis, keepdims in ((0, False), (2, True))]
_SPREADS = [
    {"axis": axis, "correction": correction, "keepdims": keepdims}
    for axis, correction, keepdims in (((1,), 1, False), ((0, 2), 0, True), (ALL, 0.5, False))
]
_SCANS = [{"axis": axis, "reverse": reverse} for axis, reverse in product((0, 1, 2), (False, True))]
_RUNS = [{"axis": axis} for axis in (0, 2)]
_ORDERS = [{"axis": 0, "descending": False}, {"axis": 1, "descending": True}]
_NORMS = [
    {"ord": ord, "axis": axis, "keepdims": keepdims}
    for ord, (axis, keepdims) in product((0, 1, 2, 3, 1.5, 0.5, -1, inf, -inf), (((1,), False), (ALL, True)))
]

CHOICES: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("sum", "mean", "amax", "amin", "nansum", "logsumexp", "aminmax", "all", "any", "count_nonzero"), _FOLDS),
    **dict.fromkeys(("prod", "argmax", "argmin"), _ONE_FOLD),
    **dict.fromkeys(("max_all", "min_all", "median_all", "nanmedian_all"), _WHOLE),
    **dict.fromkeys(("max_along", "min_along", "median_along", "nanmedian_along", "mode"), _ALONG),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), _SPREADS),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), _SCANS),
    **dict.fromkeys(("cummax", "cummin", "prod_rest"), _RUNS),
    **dict.fromkeys(("sort", "argsort"), _ORDERS),
    "shift": [{"axis": axis, "by": by, "fill": 1} for axis, by in ((0, 1), (1, -1), (2, 2), (2, -3))],
    "topk": [{"k": 2, "axis": 1, "largest": True}, {"k": 2, "axis": 2, "largest": False}],
    "kthvalue": [{"k": 2, "axis": 1, "keepdims": False}, {"k": 2, "axis": 2, "keepdims": True}],
    "vector_norm": _NORMS,
}


def spaced(*shape: int, seed: int = 0) -> Any:
    """Evenly spaced numbers in random order; none is 0."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.linspace(-1.7, 1.9, count)).reshape(shape)


def _of_one(choices: list[dict[str, Any]]) -> Callable[[], list[Sample]]:
    return lambda: [((spaced(2, 3, 4),), attrs) for attrs in choices]


def _along() -> tuple[Any, Any]:
    return spaced(2, 3), np.array([[0, 2, 2], [1, 0, 1]])


REDUCTIONS: dict[str, Callable[[], list[Sample]]] = {
    **{name: _of_one(choices) for name, choices in CHOICES.items()},
    "recurrence": lambda: [((spaced(4, 3), spaced(4, 3, seed=1)), {"axis": a, "reverse": r}) for a, r in product((0, 1), (False, True))],
    "take_along": lambda: [(_along(), {"axis": 1})],
    "scatter_along": lambda: [(_along(), {"axis": 1, "size": 5})],
}
