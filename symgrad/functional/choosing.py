"""Public functions that choose between numbers: clamping, and where, with PyTorch's signatures."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.dispatch import tensors as ops
from symgrad.functional.elementwise import alias
from symgrad.functional.names import METHODS, method_inplace, public
from symgrad.ops.foreign import python_number
from symgrad.ops.promotion import kind, result_type, written
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.tensor import Tensor
from symgrad.typing import Operand

_NUMBERS = (bool, int, float, complex, np.generic, NoneType)
__all__ = ["clamp", "clamp_max", "clamp_min", "clip", "where"]


def _bound(input: Tensor, bound: Any) -> Any:
    """A whole number has to fit into the type of the tensor, and a complex one is none; a float changes the type of the result."""
    bound = python_number(bound)
    return written(bound, input._array.dtype) if isinstance(bound, (int, complex)) else bound


@method_inplace
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """min(max(input, min), max); the bounds are numbers or tensors. The derivative is 1 at the bounds."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    min, max = _bound(input, min), _bound(input, max)
    if isinstance(min, _NUMBERS) and isinstance(max, _NUMBERS) and not is_symbolic_scalar(min) and not is_symbolic_scalar(max):
        return ops.clamp(input, min=min, max=max)
    if max is None:
        return ops.clamp_min(input, min)
    return ops.clamp_max(input, max) if min is None else ops.clamp_between(input, min, max)


clip = clamp


@method_inplace
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """Elements below `min` become `min`."""
    return ops.clamp_min(input, _bound(input, min))


@method_inplace
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """Elements above `max` become `max`."""
    return ops.clamp_max(input, _bound(input, max))


def _condition(condition: Any) -> Tensor:
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {condition.__class__.__name__}")
    if kind(condition._array.dtype) != "b":
        word = dtypes.type_word(condition._array.dtype)
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {word}")
    return condition


@public
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """input where the condition holds, else other; with the condition alone, the indices where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if isinstance(input, int) or isinstance(other, int):
        operands = tuple(x._array if isinstance(x, Tensor) else x for x in (input, other))
        dtype = result_type(*operands)
        input, other = (written(x, dtype) if isinstance(x, int) else x for x in (input, other))
    return ops.where(_condition(condition), input, other)


METHODS["where"] = lambda self, condition, other: where(condition, self, other)
METHODS["where"].__doc__ = "The tensor where the condition holds, else other."
alias("clip", "clamp")
