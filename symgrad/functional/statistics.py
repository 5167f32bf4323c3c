"""Public rank statistics, differences and counts, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import return_types
from symgrad.coercion import tensors_of
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import type_word
from symgrad.functional.joining import cat
from symgrad.functional.names import method
from symgrad.functional.shaping import movedim, narrow
from symgrad.functional.sorting import along
from symgrad.ops.foreign import native, sympy_array
from symgrad.ops.promotion import INT64
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
        if keepdim:
            raise TypeError(f"{name}() received an invalid combination of arguments: keepdim needs a dim")
        return getattr(ops, f"{name}_all")(input, axis=axes_of(None, input.ndim), keepdims=False)
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
    ndim = input._array.ndim
    if dim is None:
        lines = ops.reshape(input, shape=(input._array.size,))
    else:
        lines = movedim(input, normalize_axis(dim, ndim), -1) if ndim else ops.reshape(input, shape=(1,))
    ordered = ops.sort(lines, axis=lines.ndim - 1, descending=False)[0]
    result = movedim(_at_ranks(ordered, _ranks(name, lines, levels), interpolation), -1, 0)
    shape = tuple(result.shape[1:])
    if keepdim and ndim:
        shape = (1,) * ndim if dim is None else _with_one(shape, normalize_axis(dim, ndim))
    return ops.reshape(result, shape=(*levels.shape, *shape))


def _levels(name: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    """The levels as a tensor of no or one dimension, after PyTorch's checks."""
    if input._array.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input._array.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
    if isinstance(q, (list, np.ndarray)) or native(q) is not None or sympy_array(q) is not None:
        q = tensors_of((q, input))[0]
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return wrap(np.asarray(q, input._array.dtype))
    if q._array.dtype != input._array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q._array.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if not ((q._array >= 0) & (q._array <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _ranks(name: str, lines: Tensor, levels: Tensor) -> Tensor:
    """Positions in the sorted lines, fractional: one for each line and level. NaNs are last, and are the answer unless skipped."""
    n, levels = lines._array.shape[-1], ops.reshape(levels, shape=(levels._array.size,))
    nans = ops.sum(ops.ne(lines, lines), axis=(lines.ndim - 1,), keepdims=True)
    if name == "nanquantile":
        return ops.mul(ops.maximum(n - 1 - nans, 0), levels)
    return ops.where(nans > 0, n - 1, ops.mul(levels, n - 1))


_TO_WHOLE = {"lower": "floor", "higher": "ceil", "nearest": "round"}


def _at_ranks(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    def at(place: Tensor) -> Tensor:
        return ops.take_along(ordered, ops.cast(place, dtype=INT64), axis=ordered.ndim - 1)

    if interpolation in _TO_WHOLE:
        return at(getattr(ops, _TO_WHOLE[interpolation])(ranks))
    below = ops.floor(ranks)
    weight = 0.5 if interpolation == "midpoint" else ops.sub(ranks, below)
    return ops.lerp(at(below), at(ops.ceil(ranks)), weight)


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
    if any(t.ndim != input.ndim for t in parts):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    if not n:
        return input.clone()
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
    return ops.bincount(input, weights, minlength=minlength)
