"""Reductions and running sums of NumPy: adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import as_dtype, floating, given, lines, operand, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor


def _keep(keepdims: Any) -> bool:
    return bool(keepdims) if given(keepdims) else False


@implements(np.prod)
def _prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return np.multiply.reduce(tensor(a), axis=axis, dtype=dtype, keepdims=_keep(keepdims))  # type: ignore[call-overload]


def _running(name: str, a: Any, axis: int | None, dtype: Any) -> Any:
    x = tensor(a) if dtype is None else tensor(a).to(as_dtype(dtype))
    return getattr(functional, name)(x.reshape(-1) if axis is None else x, dim=axis or 0)


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
        result = _running(name, x, axis or 0, dtype)
        if not include_initial:
            return result
        start = functional.narrow(result, axis or 0, 0, 1) * 0 + first
        return functional.cat([start, result], dim=axis or 0)

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


@implements(np.var)
def _var(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: Any = False) -> Any:
    return functional.var(floating(a), dim=axis, correction=ddof, keepdim=_keep(keepdims))


@implements(np.std)
def _std(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: Any = False) -> Any:
    return functional.std(floating(a), dim=axis, correction=ddof, keepdim=_keep(keepdims))


@implements(np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    x = tensor(a)
    axis = tuple(range(x.ndim)) if axis is None else axis
    return functional.amax(x, axis, _keep(keepdims)) - functional.amin(x, axis, _keep(keepdims))


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
    def adapter(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
        x = tensor(a)
        axis = tuple(range(x.ndim)) if axis is None else axis
        function = functional.amax if largest else functional.amin
        nowhere = functional.all(functional.isnan(x), axis, _keep(keepdims))
        return functional.where(nowhere, np.nan, function(_beyond(x, largest), axis, _keep(keepdims)))

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


@implements(np.nanprod)
def _nanprod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Any:
    return _prod(_without_nan(tensor(a), 1), axis, dtype, keepdims=keepdims)


@implements(np.nanvar)
def _nanvar(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: Any = False) -> Any:
    x = floating(a)
    row, kept = lines(x, axis)
    there = functional.logical_not(functional.isnan(row))
    count = there.sum(-1)
    mean = _without_nan(row, 0).sum(-1) / count
    apart = functional.where(there, row - mean.unsqueeze(-1), 0)
    result = (apart.abs().square() if row.is_complex() else apart.square()).sum(-1) / (count - ddof)
    return result.reshape(kept) if _keep(keepdims) else result


@implements(np.nanstd)
def _nanstd(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: Any = False) -> Any:
    return _nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims).sqrt()
