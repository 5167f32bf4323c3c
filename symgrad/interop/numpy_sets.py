"""Sorting, sets and choices of NumPy: adapters. Where numbers decide how large a result is, its size is a guard."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import option, pair, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor


@implements(np.nonzero)
def _nonzero(a: Any) -> Any:
    return functional.nonzero(tensor(a), as_tuple=True)


@implements(np.argwhere)
def _argwhere(a: Any) -> Any:
    return functional.nonzero(tensor(a))


@implements(np.flatnonzero)
def _flatnonzero(a: Any) -> Any:
    return functional.nonzero(tensor(a).reshape(-1), as_tuple=True)[0]


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    return tensor(arr).reshape(-1)[tensor(condition).reshape(-1) != 0]


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    x, mask = tensor(a), tensor(condition) != 0
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    places = functional.nonzero(mask, as_tuple=True)[0]
    return functional.index_select(x, axis, places)


@implements(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    _check_kind(kind, stable)
    x = tensor(a)
    return functional.sort(x.reshape(-1) if axis is None else x, dim=-1 if axis is None else axis)[0]


@implements(np.argsort)
def _argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    _check_kind(kind, stable)
    x = tensor(a)
    return functional.argsort(x.reshape(-1) if axis is None else x, dim=-1 if axis is None else axis)


def _check_kind(kind: Any, stable: bool | None) -> None:
    """Ours keeps the order of equal elements, so it is of any kind."""
    if kind is not None and stable is not None:
        raise ValueError("`kind` and `stable` parameters can't be provided at the same time.")
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")


@implements(np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1) -> Any:
    return _sort(a, axis)


@implements(np.argpartition)
def _argpartition(a: Any, kth: Any, axis: int | None = -1) -> Any:
    return _argsort(a, axis)


@implements(np.lexsort)
def _lexsort(keys: Any, axis: int = -1) -> Any:
    """Sorting keeps the order of equal elements, so the least important key goes first."""
    rows = [tensor(key) for key in keys]
    if not rows[0].ndim:
        return tensor(0)  # keys of one element each
    order = functional.argsort(rows[0], dim=axis)
    for key in rows[1:]:
        order = functional.take_along_dim(order, functional.argsort(functional.take_along_dim(key, order, axis), dim=axis), axis)
    return order


@implements(np.sort_complex)
def _sort_complex(a: Any) -> Any:
    x = tensor(a)
    if not x.is_complex():
        return functional.complex(_sort(x), x * 0)
    return functional.take_along_dim(x, _lexsort([x.imag, x.real]), -1)


# sets


def _distinct(ar: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements, in order; where each comes first, which each element is, and how often there is one."""
    x = tensor(ar).reshape(-1)
    values, order = functional.sort(x)
    changes = values[1:] != values[:-1]
    if x._array.dtype.kind == "f":
        changes = changes & ((values[1:] == values[1:]) | (values[:-1] == values[:-1]))  # all NaN are one
    starts = functional.cat([functional.eq(values[:1], values[:1]) | True, changes])
    places = functional.nonzero(starts, as_tuple=True)[0]
    which = functional.cumsum(starts.long(), 0) - 1
    inverse = functional.scatter(which * 0, 0, order, which)
    counts = functional.diff(functional.cat([places, functional.cumsum(starts.long() * 0 + 1, 0)[-1:]]))
    return functional.index_select(values, 0, places), functional.index_select(order, 0, places), inverse, counts


@implements(np.unique)
def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    if axis is not None or not equal_nan:
        raise option("numpy.unique", "takes no axis, and no equal_nan=False")
    values, index, inverse, counts = _distinct(ar)
    inverse = inverse.reshape(tensor(ar).shape)
    wanted = zip((True, return_index, return_inverse, return_counts), (values, index, inverse, counts), strict=True)
    found = tuple(x for asked, x in wanted if asked)
    return found[0] if len(found) == 1 else found


_RESULTS: dict[str, Any] = {
    name: type(getattr(np, name)(np.zeros(1))) for name in ("unique_all", "unique_counts", "unique_inverse")
}  # NumPy's named tuples


@implements(np.unique_all)
def _unique_all(x: Any) -> Any:
    values, index, inverse, counts = _distinct(x)
    return _RESULTS["unique_all"](values, index, inverse.reshape(tensor(x).shape), counts)


@implements(np.unique_counts)
def _unique_counts(x: Any) -> Any:
    values, _, _, counts = _distinct(x)
    return _RESULTS["unique_counts"](values, counts)


@implements(np.unique_inverse)
def _unique_inverse(x: Any) -> Any:
    values, _, inverse, _ = _distinct(x)
    return _RESULTS["unique_inverse"](values, inverse.reshape(tensor(x).shape))


@implements(np.unique_values)
def _unique_values(x: Any) -> Any:
    return _distinct(x)[0]


@implements(np.isin)
def _isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    x, y = pair(element, test_elements)
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    if kind == "table" and x._array.dtype.kind not in "biu":
        raise ValueError("The 'table' method is only supported for boolean or integer arrays.")
    found = functional.any(x.unsqueeze(-1) == y.reshape(-1), -1)
    return functional.logical_not(found) if invert else found


@implements(np.union1d)
def _union1d(ar1: Any, ar2: Any) -> Any:
    x, y = pair(ar1, ar2)
    return _distinct(functional.cat([x.reshape(-1), y.reshape(-1)]))[0]


@implements(np.intersect1d)
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    x, y = pair(ar1, ar2)
    values = _distinct(x)[0]
    return values[_isin(values, y)]


@implements(np.setdiff1d)
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    x, y = pair(ar1, ar2)
    values = x.reshape(-1) if assume_unique else _distinct(x)[0]
    return values[_isin(values, y, invert=True)]


@implements(np.setxor1d)
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    x, y = (_distinct(t)[0] for t in pair(ar1, ar2))
    values, _, _, counts = _distinct(functional.cat([x, y]))
    return values[counts == 1]


@implements(np.trim_zeros)
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    x = tensor(filt)
    for dim in range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis:
        others = tuple(i for i in range(x.ndim) if i != dim % x.ndim)
        there = ((x != 0).any(others) if others else x != 0).long()
        if not bool((there > 0).any()):
            return functional.narrow(x, dim, 0, 0)
        first = int(there.argmax()) if "f" in trim.lower() else 0
        last = int(functional.flip(there, [0]).argmax()) if "b" in trim.lower() else 0
        x = functional.narrow(x, dim, first, x.shape[dim] - first - last)
    return x
