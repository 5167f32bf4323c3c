"""Stand-ins for tensor arguments: shape, dtype, and what the user knows of the values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import index
from typing import Any

from symgrad import dtypes
from symgrad.ops.assumptions import check_shape
from symgrad.ops.promotion import default_float


class Spec:
    """A tensor of which only shape and dtype are known, and what the user knows besides: `words`, see `symgrad.ops.assumptions`."""

    def __init__(self, shape: int | Iterable[int], dtype: Any = None, words: tuple[str, ...] = ()) -> None:
        self.shape = _shape(shape)
        self.dtype = default_float() if dtype is None else dtypes.numpy_type(dtype)
        self.words = words
        if words:
            check_shape(self.shape, words, "spec")

    def __repr__(self) -> str:
        return f"spec({self.shape}, dtype={self.dtype}{''.join(f', {word}=True' for word in self.words)})"


def _shape(shape: Any) -> tuple[int, ...]:
    """The sizes of a spec: integers, none of them negative."""
    try:
        found = tuple([index(n) for n in (shape if isinstance(shape, Iterable) else (shape,))])
    except TypeError:
        raise TypeError(f"a spec's shape is an integer or a tuple of integers, such as spec((3, 4)), got {shape!r}") from None
    if any([not 0 <= n <= sys.maxsize for n in found]):
        raise ValueError(f"a spec's sizes are known and not negative, got {found}: formulas and kernels are made for one shape")
    return found
