"""Public functions that order elements or run along a dimension, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import dtypes, return_types
from symgrad.dispatch import tensors as ops
from symgrad.functional.names import method, method_inplace, public
from symgrad.ops.promotion import INT32, kind
from symgrad.ops.shapes import integer, normalize_axis
from symgrad.tensor import Tensor, wrap

__all__ = [
    "argsort", "bucketize", "cummax", "cummin", "cumprod", "cumsum", "kthvalue", "logcumsumexp", "msort", "searchsorted", "sort", "topk",
]  # fmt: skip


def along(op: Any, input: Tensor, dim: int, **attrs: Any) -> Any:
    """A row that works along one dimension, on a tensor that may have none: then it is taken for a tensor of one element."""
    ndim = input._array.ndim
    axis = normalize_axis(integer("dim", dim, op.__name__.removesuffix("_along")), ndim)
    if ndim:
        return op(input, axis=axis, **attrs)
    results = op(ops.reshape(input, shape=(1,)), axis=0, **attrs)
    if isinstance(results, Tensor):
        return ops.reshape(results, shape=())
    return tuple(ops.reshape(t, shape=()) for t in results)


def in_type(input: Tensor, dtype: Any) -> Tensor:
    """The tensor in the type that a function is asked to compute in."""
    if dtype is None:
        return input
    wanted = dtypes.numpy_type(dtype)
    return input if input._array.dtype == wanted else ops.cast(input, dtype=wanted)


@method_inplace
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sum along `dim`."""
    return in_type(along(ops.cumsum, in_type(input, dtype), dim, reverse=False), dtype)


@method_inplace
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along `dim`."""
    return in_type(along(ops.cumprod, in_type(input, dtype), dim, reverse=False), dtype)


@method
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Logarithm of the running sum of exponentials."""
    if kind(input._array.dtype) in "bi":
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{dtypes.type_word(input._array.dtype)}'")
    return along(ops.logcumsumexp, input, dim, reverse=False)  # type: ignore[no-any-return]


@method
def cummax(input: Tensor, dim: int) -> return_types.cummax:
    """Running maximum, and where it was reached last."""
    return return_types.cummax(*along(ops.cummax, input, dim))


@method
def cummin(input: Tensor, dim: int) -> return_types.cummin:
    """Running minimum, and where it was reached last."""
    return return_types.cummin(*along(ops.cummin, input, dim))


def _refuse_complex(input: Tensor) -> None:
    if input._array.dtype.kind == "c":
        raise RuntimeError(" Sort does not support complex dtypes on CPU")


@method
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> return_types.sort:
    """Sorted values and where they came from; equal elements keep their order, whatever `stable` says."""
    _refuse_complex(input)
    return return_types.sort(*along(ops.sort, input, dim, descending=descending))


@method
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort along `dim`."""
    _refuse_complex(input)
    return along(ops.argsort, input, dim, descending=descending)  # type: ignore[no-any-return]


@method
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension."""
    return sort(input, 0).values


@method
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> return_types.topk:
    """The k largest (or smallest) elements along `dim`, in order, and their indices; of equal ones the first."""
    if input._array.dtype.kind in "bc":
        raise RuntimeError(f"topk does not support {'bool' if input._array.dtype.kind == 'b' else 'complex'} dtypes on CPU")
    k, axis = integer("k", k, "topk"), normalize_axis(integer("dim", dim, "topk"), input._array.ndim)
    if not 0 <= k <= (input._array.shape[axis] if input._array.ndim else 1):
        raise RuntimeError("selected index k out of range")
    return return_types.topk(*along(ops.topk, input, dim, k=k, largest=largest))


@public
def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None) -> Tensor:
    """Where numbers belong in sorted ones: before equal ones, or behind them with `right=True`."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"side can only be 'left' or 'right' but got {side}")
    if input is None or isinstance(input, str):
        raise TypeError(f"searchsorted(): argument 'input' must be Tensor or Number, not {input.__class__.__name__}")
    values = input if isinstance(input, Tensor) else wrap(np.asarray(input, sorted_sequence._array.dtype))
    found: Tensor = ops.searchsorted(sorted_sequence, values, right=right or side == "right")
    return ops.cast(found, dtype=INT32) if out_int32 else found


@public
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Which interval between sorted boundaries numbers are in."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@method
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue:
    """The k-th smallest element along `dim` and its index."""
    return return_types.kthvalue(*along(ops.kthvalue, input, dim, k=integer("k", k, "kthvalue"), keepdims=keepdim))

