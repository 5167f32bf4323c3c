"""Public reductions, with PyTorch's signatures."""

from __future__ import annotations

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import method
from symgrad.ops.shapes import normalize_axes
from symgrad.tensor import Tensor
from symgrad.typing import Dims

__all__ = ["sum"]


@method
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    """Sum over all elements, or over the dimensions `dim`."""
    return ops.sum(input, axis=normalize_axes(dim, input.ndim), keepdims=keepdim)  # type: ignore[no-any-return]
