"""Reductions and running sums of NumPy: adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import as_dtype, floating, given, inexact, lines, operand, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor


def _keep(keepdims: Any) -> bool:
    return bool(keepdims) if given(keepdims) else False


def _reduction(ufunc: np.ufunc) -> Callable[..., Any]:
    """The function that is a reduction by a universal function."""

    def adapter(
        a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
    ) -> Any:
        return ufunc.reduce(tensor(a), axis=axis, dtype=dtype, keepdims=_keep(keepdims), initial=initial, where=where)

    return adapter


_sum, _prod = _reduction(np.add), _reduction(np.multiply)
implements(np.sum)(_sum)
implements(np.prod)(_prod)


def _of_one_type(ufunc: np.ufunc) -> Callable[..., Any]:
    def adapter(a: Any, axis: Any = None, *, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True) -> Any:
        return ufunc.reduce(tensor(a), axis=axis, keepdims=_keep(keepdims), initial=initial, where=where)

    return adapter


_largest, _smallest = _of_one_type(np.maximum), _of_one_type(np.minimum)
implements(np.max, np.amax)(_largest)
implements(np.min, np.amin)(_smallest)


def _logical(ufunc: np.ufunc) -> Callable[..., Any]:
    def adapter(a: Any, axis: Any = None, *, keepdims: Any = False, where: Any = True) -> Any:
        return ufunc.reduce(tensor(a), axis=axis, keepdims=_keep(keepdims), where=where)

    return adapter


_all = _logical(np.logical_and)
implements(np.all)(_all)
implements(np.any)(_logical(np.logical_or))


@implements(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _sum(tensor(a) != 0, axis, keepdims=keepdims)


@implements(np.mean)
def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, where: Any = True) -> Any:
    x = inexact("numpy.mean", floating(a), dtype)
    if where is True and axis != ():
        return functional.mean(x, dim=tuple(range(x.ndim)) if axis is None else axis, keepdim=_keep(keepdims))
    count = _sum(functional.broadcast_to(tensor(where), x.shape), axis, keepdims=keepdims)
    return _sum(x, axis, keepdims=keepdims, where=where) / count


def _running(name: str, a: Any, axis: int | None, dtype: Any) -> Any:
    x = tensor(a) if dtype is None else tensor(a).to(as_dtype(dtype))
    return getattr(functional, name)(x.reshape(-1) if axis is None else x, dim=0 if axis is None else axis)


def _cumulative(name: str, fill: float | None) -> Callable[..., Any]:
    def adapter(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        return _running(name, tensor(a) if fill is None else _without_nan(tensor(a), fill), axis, dtype)

    return adapter


def _without_nan(x: Tensor, fill: float) -> Tensor:
    return functional.where(functional.isnan(x), fill, x)  # type: ignore[no-any-return]


implements(np.cumsum)(_cumulative("cumsum", None))
implements(np.cumprod)(_cumulative("cumprod", None))
implements(np.nancumsum)(_cumulative("cumsum", 0))
implements(np.nancumprod)(_cumulative("cumprod", 1))


def _accumulated(name: str, first: int) -> Callable[..., Any]:
    def adapter(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
        x = tensor(x)
        if axis is None and x.ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0 if axis is None else axis
        result = _running(name, x, axis, dtype)
        if not include_initial:
            return result
        start = functional.narrow(result, axis, 0, 1) * 0 + first
        return functional.cat([start, result], dim=axis)

    return adapter


implements(np.cumulative_sum)(_accumulated("cumsum", 0))
implements(np.cumulative_prod)(_accumulated("cumprod", 1))


@implements(np.clip)
def _clip(
    a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, *, min: Any = np._NoValue, max: Any = np._NoValue
) -> Any:
    bounds = (second if given(second) else first for first, second in ((a_min, min), (a_max, max)))
    low, high = (operand(bound) if given(bound) else None for bound in bounds)
    if low is None and high is None:
        return functional.clone(tensor(a))
    tensors = any(isinstance(bound, Tensor) for bound in (low, high))
    low, high = (tensor(bound) if tensors and bound is not None else bound for bound in (low, high))
    return functional.clamp(tensor(a), low, high)


def _correction(ddof: Any, correction: Any) -> Any:
    """Two names for one number."""
    if given(correction) and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction if given(correction) else ddof


def _spread(x: Tensor, there: Any, axis: Any, correction: Any, keepdims: Any) -> Any:
    """The variance of the elements that are there."""
    row, kept = lines(x, axis)
    there, _ = lines(functional.broadcast_to(there, x.shape), axis)
    count = there.sum(-1)
    mean = functional.where(there, row, 0).sum(-1) / count
    apart = functional.where(there, row - mean.unsqueeze(-1), 0)
    result = (apart.abs().square() if row.is_complex() else apart.square()).sum(-1) / (count - correction)
    return result.reshape(kept) if _keep(keepdims) else result


@implements(np.var)
def _var(
    a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, correction: Any = np._NoValue
) -> Any:
    x, correction = inexact("numpy.var", floating(a), dtype), _correction(ddof, correction)
    if where is not True or axis == ():
        return _spread(x, tensor(where), axis, correction, keepdims)
    return functional.var(x, dim=axis, correction=correction, keepdim=_keep(keepdims))


@implements(np.std)
def _std(
    a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, correction: Any = np._NoValue
) -> Any:
    x, correction = inexact("numpy.std", floating(a), dtype), _correction(ddof, correction)
    if where is not True or axis == ():
        return _spread(x, tensor(where), axis, correction, keepdims).sqrt()
    return functional.std(x, dim=axis, correction=correction, keepdim=_keep(keepdims))


@implements(np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _largest(a, axis, keepdims=keepdims) - _smallest(a, axis, keepdims=keepdims)


@implements(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    x, keep = floating(a), _keep(keepdims)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    w = functional.real(x) * 0 + 1 if weights is None else floating(weights)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        w = w.reshape([n if i in [a % x.ndim for a in axes] else 1 for i, n in enumerate(x.shape)])
    total = (w * (x * 0 + 1) if w.shape != x.shape else w).sum(axes, keep) if axes else w
    mean = (x * w).sum(axes, keep) / total if axes else x
    return (mean, total) if returned else mean


def _beyond(x: Tensor, largest: bool) -> Tensor:
    return _without_nan(x, -np.inf if largest else np.inf)


def _nan_extreme(largest: bool) -> Callable[..., Any]:
    function, choose = (_largest, functional.fmax) if largest else (_smallest, functional.fmin)

    def adapter(a: Any, axis: Any = None, *, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True) -> Any:
        x = tensor(a)
        nowhere = _all(functional.isnan(x), axis, keepdims=keepdims, where=where)
        found = function(_beyond(x, largest), axis, keepdims=keepdims, initial=initial, where=where)
        found = functional.where(nowhere, np.nan, found)
        return choose(found, tensor(initial).to(found.dtype)) if given(initial) else found

    return adapter


implements(np.nanmax)(_nan_extreme(True))
implements(np.nanmin)(_nan_extreme(False))


def _nan_place(largest: bool) -> Callable[..., Any]:
    def adapter(a: Any, axis: int | None = None, *, keepdims: Any = False) -> Any:
        function = functional.argmax if largest else functional.argmin
        return function(_beyond(tensor(a), largest), dim=axis, keepdim=_keep(keepdims))

    return adapter


implements(np.nanargmax)(_nan_place(True))
implements(np.nanargmin)(_nan_place(False))


def _nan_reduction(reduction: Callable[..., Any], fill: int) -> Callable[..., Any]:
    def adapter(
        a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
    ) -> Any:
        return reduction(_without_nan(tensor(a), fill), axis, dtype, keepdims=keepdims, initial=initial, where=where)

    return adapter


implements(np.nansum)(_nan_reduction(_sum, 0))
implements(np.nanprod)(_nan_reduction(_prod, 1))


def _numbers(x: Tensor, where: Any) -> Any:
    """Where numbers are that count."""
    there = functional.logical_not(functional.isnan(x))
    return there if where is True else there & tensor(where)


@implements(np.nanmean)
def _nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, where: Any = True) -> Any:
    x = inexact("numpy.nanmean", floating(a), dtype)
    there = _numbers(x, where)
    return _sum(x, axis, keepdims=keepdims, where=there) / _sum(there, axis, keepdims=keepdims)


@implements(np.nanvar)
def _nanvar(
    a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, correction: Any = np._NoValue
) -> Any:
    x = inexact("numpy.nanvar", floating(a), dtype)
    return _spread(x, _numbers(x, where), axis, _correction(ddof, correction), keepdims)


@implements(np.nanstd)
def _nanstd(
    a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, correction: Any = np._NoValue
) -> Any:
    x = inexact("numpy.nanstd", floating(a), dtype)
    return _spread(x, _numbers(x, where), axis, _correction(ddof, correction), keepdims).sqrt()
