"""What layers ask of their tensors before they begin: numbers of one type, parameters of the right size."""

from __future__ import annotations

from typing import Any

from symgrad.ops.promotion import FLOAT32, kind, word
from symgrad.ops.variants import is_half
from symgrad.tensor import Tensor


def require_floats(name: str, input: Tensor) -> None:
    """PyTorch's error for integers, bools and complex numbers, which the layer has no kernel for."""
    if kind(input._array.dtype) != "f":
        raise NotImplementedError(f"\"{name}\" not implemented for '{word(input._array.dtype)}'")


def require_one_type(name: str, input: Tensor, **others: Tensor | None) -> None:
    """Parameters have the input's type; only with an input of half precision they may be single floats."""
    given = input._array.dtype
    for role, other in others.items():
        if other is None or other._array.dtype == given or (is_half(given) and other._array.dtype == FLOAT32):
            continue
        raise RuntimeError(f"{name}: expected scalar type {word(given)} but found {word(other._array.dtype)} for {role}")


def require_shape(name: str, shape: tuple[int, ...], **parameters: Any) -> None:
    """Parameters have the shape that is normalised over."""
    for role, parameter in parameters.items():
        if parameter is not None and parameter._array.shape != shape:
            raise RuntimeError(
                f"{name}: Expected {role} to be of same shape as normalized_shape, but got {role} of shape"
                f" {list(parameter._array.shape)} and normalized_shape = {list(shape)}"
            )
