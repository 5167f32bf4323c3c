"""Public functions that rearrange elements, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import method
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor

__all__ = ["reshape", "t", "transpose"]


def sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)


@method
def reshape(input: Tensor, *shape: Any) -> Tensor:
    return ops.reshape(input, shape=sizes(shape))  # type: ignore[no-any-return]


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    dim0, dim1 = normalize_axis(dim0, input.ndim), normalize_axis(dim1, input.ndim)
    return ops.transpose(input, dim0=dim0, dim1=dim1)  # type: ignore[no-any-return]


@method
def t(input: Tensor) -> Tensor:
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input if input.ndim < 2 else transpose(input, 0, 1)
