"""Which calls return NumPy arrays instead of tensors.

The rule: a call with at least one NumPy array among its arguments, whose other data are NumPy arrays, NumPy scalars or Python numbers, and
in which nothing requires grad (captured tensors included), returns NumPy arrays. `compile(f, returns="tensor" | "numpy")` overrides it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from symgrad.pytree import flatten, unflatten
from symgrad.tensor import Tensor

ARRAYS = frozenset((np.ndarray,))
"""The kinds of arguments that make a call return arrays."""


def kinds_of(data: Iterable[Any]) -> frozenset[type]:
    """Return which of np.ndarray and Tensor occur among the arguments. Scalars do not count."""
    return frozenset(Tensor if isinstance(x, Tensor) else np.ndarray for x in data if isinstance(x, (Tensor, np.ndarray)))


def returns_arrays(returns: str | None, requires_grad: bool) -> bool | None:
    """True if a program returns arrays; None if its arguments decide."""
    return returns == "numpy" if returns is not None else False if requires_grad else None


def array_of(storage: Any) -> Any:
    """Return a kernel output (an array or a device buffer) as a writable, unaliased array."""
    if storage.__class__ is not np.ndarray:
        return np.array(storage)
    return storage if storage.flags.owndata and storage.flags.writeable else storage.copy()


def convert_results(result: Any, kinds: frozenset[type], returns: str | None, requires_grad: bool) -> Any:
    """Return the result of a call with data of these kinds, with arrays in place of its tensors if the rule says so."""
    chosen = returns_arrays(returns, requires_grad)
    if chosen is False or (chosen is None and kinds != ARRAYS):
        return result
    leaves, structure = flatten(result, lambda x: isinstance(x, (Tensor, np.generic)))
    if chosen is None and any(isinstance(x, Tensor) and x.requires_grad for x in leaves):
        return result
    return unflatten(structure, [np.array(x._array if isinstance(x, Tensor) else x) for x in leaves])
