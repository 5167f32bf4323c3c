"""Public products of vectors and matrices, with PyTorch's signatures."""

from __future__ import annotations

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import method
from symgrad.tensor import Tensor

__all__ = ["matmul", "mm"]


@method
def matmul(input: Tensor, other: Tensor) -> Tensor:
    return ops.matmul(input, other)  # type: ignore[no-any-return]


@method
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    return ops.matmul(input, mat2)  # type: ignore[no-any-return]
