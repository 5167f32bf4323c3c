"""Making tensors from data and from sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.ops.promotion import default_float
from symgrad.tensor import Tensor, wrap

__all__ = ["tensor"]


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A copy of `data` as a tensor. Python floats take the default dtype."""
    if isinstance(data, Tensor):
        data = data._array
    array = np.array(data, dtype=None if dtype is None else dtypes.numpy_type(dtype))
    if dtype is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        array = array.astype(default_float())
    result = wrap(array)
    if requires_grad:
        result._requires_grad = True
    return result
