"""The activations that are methods of Tensor, too; the others are in `symgrad.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import method
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor

__all__ = ["hardshrink", "log_softmax", "prelu", "softmax"]


def over_axis(op: Callable[..., Tensor], input: Tensor, dim: int, dtype: Any) -> Tensor:
    """A row along one dimension, after a cast if one is asked for."""
    x = input if dtype is None else input.to(dtype)
    axis = normalize_axis(dim, x.ndim)
    return op(x, axis=(axis,) if x.ndim else ())


@method
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(x) over its sum along `dim`."""
    return over_axis(ops.softmax, input, dim, dtype)


@method
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, computed without it."""
    return over_axis(ops.log_softmax, input, dim, dtype)


@method
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 in [-lambd, lambd], x elsewhere."""
    return ops.hardshrink(input, lambd=lambd)


@method
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, elsewhere x times `weight`, which has one element, or one for each channel (dimension 1)."""
    if input._array.dtype != weight._array.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {word(input._array.dtype)} and {word(weight._array.dtype)}")
    if kind(input._array.dtype) != "f":
        raise NotImplementedError(f"\"prelu_cpu\" not implemented for '{word(input._array.dtype)}'")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() not in (1, channels):
        raise RuntimeError(
            f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel size ="
            f" {channels}."
        )
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    shape = (1, -1, *(1,) * (input.ndim - 2)) if input.ndim > 1 and weight.numel() > 1 else (1,) * input.ndim
    return ops.prelu(input, ops.reshape(weight, shape=shape))
