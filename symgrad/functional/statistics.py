"""Public rank statistics, differences and counts, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import return_types
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import type_word
from symgrad.functional.joining import cat
from symgrad.functional.names import method
from symgrad.functional.shaping import movedim, narrow
from symgrad.functional.sorting import along
from symgrad.ops.reduction import axes_of
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor, wrap

__all__ = [
    "bincount", "diff", "median", "mode", "nanmedian", "nanquantile", "quantile", "unique", "unique_consecutive",
]  # fmt: skip


def _median(name: str, pair: Any, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    if input._array.dtype.kind in "bc":
        raise NotImplementedError(f"\"median_cpu\" not implemented for '{type_word(input._array.dtype)}'")
    if dim is None:
        return getattr(ops, f"{name}_all")(input, axis=axes_of(None, input.ndim), keepdims=False)
    if not hasattr(dim, "__index__"):
        raise TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}")
    return pair(*along(getattr(ops, f"{name}_along"), input, dim, keepdims=keepdim))


@method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower middle element; with `dim` values and indices along it. NaN if there is one."""
    return _median("median", return_types.median, input, dim, keepdim)


@method
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower middle element of those that are not NaN."""
    return _median("nanmedian", return_types.nanmedian, input, dim, keepdim)


@method
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """The most frequent element along `dim` (the smallest of several), and the last index where it stands."""
    return return_types.mode(*along(ops.mode, input, dim, keepdims=keepdim))


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@method
def quantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of the elements, or along `dim`; NaN where there is one."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@method
def nanquantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    levels = _levels(name, input, q, interpolation)
    rank_of_all = input.ndim
    if dim is None:
        lines = ops.reshape(input, shape=(input._array.size,))
    else:
        lines = movedim(input, normalize_axis(dim, input.ndim), -1) if input.ndim else ops.reshape(input, shape=(1,))
    ranks = _ranks(name, lines._array, levels)
    result = _at_ranks(ops.sort(lines, axis=lines.ndim - 1, descending=False)[0], ranks, interpolation)
    result = movedim(result, -1, 0)
    shape = tuple(result.shape[1:])
    if keepdim:
        shape = (1,) * rank_of_all if dim is None else _with_one(shape, normalize_axis(dim, rank_of_all))
    return ops.reshape(result, shape=(*levels.shape, *shape))  # type: ignore[no-any-return]


def _levels(name: str, input: Tensor, q: Any, interpolation: str) -> Any:
    """The levels as an array of no or one dimension, after PyTorch's checks."""
    if input._array.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input._array.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, Tensor) and q._array.dtype != input._array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
    levels = q._array if isinstance(q, Tensor) else np.asarray(q, np.float64)
    if levels.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if not ((levels >= 0) & (levels <= 1)).all():
        given = q if not isinstance(q, Tensor) else "values outside"
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {given}")
    return levels


def _ranks(name: str, lines: Any, levels: Any) -> Any:
    """Positions in the sorted lines, fractional: one for each line and level. A NaN is last, and is the answer unless it is skipped."""
    n, nans = lines.shape[-1], np.isnan(lines).sum(-1, keepdims=True)
    if name == "nanquantile":
        return np.maximum(n - nans - 1, 0) * levels.reshape(-1).astype(lines.dtype)
    return np.where(nans > 0, n - 1, (n - 1) * levels.reshape(-1).astype(lines.dtype))


def _at_ranks(ordered: Tensor, ranks: Any, interpolation: str) -> Tensor:
    if interpolation == "lower":
        ranks = np.floor(ranks)
    elif interpolation == "higher":
        ranks = np.ceil(ranks)
    elif interpolation == "nearest":
        ranks = np.rint(ranks)
    below = np.floor(ranks).astype(np.int64)
    low = ops.take_along(ordered, wrap(below), axis=ordered.ndim - 1)
    if interpolation in ("lower", "higher", "nearest"):
        return low  # type: ignore[no-any-return]
    above = np.ceil(ranks).astype(np.int64)
    weight = np.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
    return ops.lerp(low, ops.take_along(ordered, wrap(above), axis=ordered.ndim - 1), wrap(weight.astype(ordered._array.dtype)))  # type: ignore[no-any-return]


def _with_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis:])


@method
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, n times; `prepend` and `append` are joined on first."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [t for t in (prepend, input, append) if t is not None]
    x = input if len(parts) == 1 else cat(parts, dim)
    boolean = x._array.dtype.kind == "b"
    for _ in range(n):
        length = max(x._array.shape[dim] - 1, 0)
        later, earlier = narrow(x, dim, min(1, x._array.shape[dim]), length), narrow(x, dim, 0, length)
        x = ops.ne(later, earlier) if boolean else ops.sub(later, earlier)
    return x


@method
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements in order, or the distinct slices along `dim`; where each came from and how often, if asked."""
    axis = None if dim is None else normalize_axis(dim, input.ndim)
    return _chosen(ops.unique(input, axis=axis), return_inverse, return_counts)


@method
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The first of each run of equal elements."""
    axis = None if dim is None else normalize_axis(dim, input.ndim)
    return _chosen(ops.unique_consecutive(input, axis=axis), return_inverse, return_counts)


def _chosen(found: tuple[Tensor, Tensor, Tensor], inverse: bool, counts: bool) -> Any:
    wanted = (found[0], *((found[1],) if inverse else ()), *((found[2],) if counts else ()))
    return wanted if len(wanted) > 1 else found[0]


@method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights."""
    if input._array.dtype.kind not in "iu":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{type_word(input._array.dtype)}'")
    if input.ndim != 1 or (input._array < 0).any():
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0 (bincount: got {minlength})")
    if weights is not None and weights._array.shape != input._array.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input (bincount: {list(weights.shape)} for {list(input.shape)})"
        )
    return ops.bincount(input, weights, minlength=minlength)  # type: ignore[no-any-return]
