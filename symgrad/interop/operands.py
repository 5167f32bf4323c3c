"""What NumPy hands over, as operands of our functions; and results, where NumPy wants them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import dtypes, functional
from symgrad.from_data import array_of
from symgrad.tensor import Tensor, wrap
from symgrad.views import store, tracked


def public(name: str) -> Any:
    """Our function of this name, if there is one."""
    return getattr(functional, name, None)


def operand(x: Any) -> Any:
    """A tensor or a Python number for anything that NumPy would take as an array."""
    if isinstance(x, (Tensor, bool, int, float, complex)) and not isinstance(x, np.generic):
        return x
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, np.ndarray):
        dtypes.of(x.dtype)  # refuses what tensors cannot hold
        return wrap(x)
    return wrap(array_of(x, None))


def tensor(x: Any) -> Tensor:
    x = operand(x)
    return x if isinstance(x, Tensor) else wrap(array_of(x, None))


def deliver(name: str, result: Any, out: Any) -> Any:
    """The result itself, or written into NumPy's `out`: an array cannot keep a history, so it gets values without one only."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None:
        return result
    if isinstance(out, Tensor):
        tracked(out, result)
        return store(out, result)
    if result.requires_grad:
        raise TypeError(
            f"numpy.{name}: the result requires grad, and an array given as out= (or changed in place, as in `array += tensor`)"
            " cannot keep its history. Detach the tensor first, or do not give out=."
        )
    np.copyto(out, result._array, casting="same_kind")
    return out


def any_requires_grad(values: Any) -> bool:
    """Whether a tensor that requires grad is among the arguments, at any depth of lists and tuples."""
    if isinstance(values, Tensor):
        return values.requires_grad
    if isinstance(values, dict):
        return any_requires_grad(list(values.values()))
    return isinstance(values, (list, tuple)) and any(any_requires_grad(value) for value in values)


def as_arrays(values: Any) -> Any:
    """The arguments with arrays in the place of tensors."""
    if isinstance(values, Tensor):
        return values._array.view()
    if isinstance(values, dict):
        return {name: as_arrays(value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(as_arrays(value) for value in values)
    return values
