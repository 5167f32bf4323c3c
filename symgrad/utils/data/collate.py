"""From a list of samples to one batch: tensors and numbers are stacked, containers are kept and filled with batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from symgrad.dtypes import float64
from symgrad.from_data import as_tensor, tensor
from symgrad.functional.joining import stack
from symgrad.tensor import Tensor

Kinds = type | tuple[type, ...]
REFUSED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars, also those inside containers, as tensors; everything else is left alone.

    This is the default `collate_fn` of a DataLoader that makes no batches.
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if _holds_no_numbers(data) else as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence_like(data, [default_convert(item) for item in data])
    return data


def default_collate(batch: Any) -> Any:
    """One batch of a list of samples that are alike.

    Tensors, arrays and numbers become one tensor with a new first dimension; strings and bytes stay a list; mappings, named tuples and
    sequences keep their type and hold batches. This is the default `collate_fn` of a DataLoader that makes batches.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: dict[Kinds, Callable[..., Any]] | None = None) -> Any:
    """`default_collate` with functions of one's own for some types: each is called with the batch and `collate_fn_map=`."""
    first = batch[0]
    function = _function_for(first, collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def joined(samples: Iterable[Any]) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _mapping_like(first, {key: joined([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(joined, zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [joined(samples) for samples in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _sequence_like(first, columns)
    raise TypeError(REFUSED.format(type(first)))


def _function_for(sample: Any, functions: dict[Kinds, Callable[..., Any]]) -> Callable[..., Any] | None:
    """That of the sample's own type, or else the first of a type that it is an instance of."""
    own = functions.get(type(sample))
    return own or next((function for kinds, function in functions.items() if isinstance(sample, kinds)), None)


def _holds_no_numbers(array: np.ndarray[Any, Any] | np.generic) -> bool:
    return array.dtype.kind in "SUO"


def _mapping_like(original: Any, values: dict[Any, Any]) -> Any:
    """A copy of the mapping, with what else it carries, holding `values`; a dict if it cannot be copied so."""
    try:
        if not isinstance(original, MutableMapping):
            return type(original)(values)
        clone = copy.copy(original)
        clone.update(values)
        return clone
    except TypeError:
        return values


def _sequence_like(original: Any, items: list[Any]) -> Any:
    """A copy of the sequence holding `items`; a list if it cannot be copied so."""
    try:
        if not isinstance(original, MutableSequence):
            return type(original)(items)
        clone = copy.copy(original)
        for i, item in enumerate(items):
            clone[i] = item
        return clone
    except TypeError:
        return items


def _arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if _holds_no_numbers(batch[0]):
        raise TypeError(REFUSED.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


default_collate_fn_map: dict[Kinds, Callable[..., Any]] = {
    Tensor: lambda batch, collate_fn_map=None: stack(batch),
    np.ndarray: _arrays,
    (np.bool_, np.number): lambda batch, collate_fn_map=None: as_tensor(batch),
    float: lambda batch, collate_fn_map=None: tensor(batch, dtype=float64),
    int: lambda batch, collate_fn_map=None: tensor(batch),
    str: lambda batch, collate_fn_map=None: batch,
    bytes: lambda batch, collate_fn_map=None: batch,
}
