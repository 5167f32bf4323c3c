"""Public functions that choose between numbers: clamping, and where, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from symgrad import dtypes
from symgrad.dispatch import tensors as ops
from symgrad.functional.elementwise import alias
from symgrad.functional.names import METHODS, method_inplace, public
from symgrad.ops.promotion import kind
from symgrad.ops.weak import is_weak
from symgrad.tensor import Tensor

__all__ = ["clamp", "clamp_max", "clamp_min", "clip", "where"]


@method_inplace
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """min(max(input, min), max); the bounds are numbers or tensors. The derivative is 1 at the bounds."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if not (isinstance(min, Tensor) or isinstance(max, Tensor) or is_weak(min) or is_weak(max)):
        return ops.clamp(input, min=min, max=max)  # type: ignore[no-any-return]
    if max is None:
        return ops.clamp_min(input, min)  # type: ignore[no-any-return]
    return ops.clamp_max(input, max) if min is None else ops.clamp_between(input, min, max)  # type: ignore[no-any-return]


clip = clamp


@method_inplace
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Elements below `min` become `min`."""
    return ops.clamp_min(input, min)  # type: ignore[no-any-return]


@method_inplace
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Elements above `max` become `max`."""
    return ops.clamp_max(input, max)  # type: ignore[no-any-return]


def _condition(condition: Any) -> Tensor:
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}")
    if kind(condition._array.dtype) != "b":
        word = dtypes.type_word(condition._array.dtype)
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {word}")
    return condition


@public
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, else other; with the condition alone, the indices where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return ops.where(_condition(condition), input, other)


METHODS["where"] = lambda self, condition, other: where(condition, self, other)
METHODS["where"].__doc__ = "The tensor where the condition holds, else other."
alias("clip", "clamp")
