"""Public functions that answer yes or no, and those of bits, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad import dtypes
from symgrad.coercion import tensor_argument
from symgrad.dispatch import tensors as ops
from symgrad.functional.elementwise import Unary, alias, binary
from symgrad.functional.names import METHODS, into, method
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor
from symgrad.views import inplace

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "eq", "equal", "ge",
    "greater", "greater_equal", "gt", "is_complex", "is_floating_point", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "le", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "not_equal", "signbit",
]  # fmt: skip

lt, le, gt, ge, eq, ne = map(binary, ("lt", "le", "gt", "ge", "eq", "ne"))
less, less_equal, greater, greater_equal, not_equal = lt, le, gt, ge, ne
logical_and, logical_or, logical_xor = map(binary, ("logical_and", "logical_or", "logical_xor"))
bitwise_and, bitwise_or, bitwise_xor = map(binary, ("bitwise_and", "bitwise_or", "bitwise_xor"))
bitwise_left_shift, bitwise_right_shift = map(binary, ("bitwise_left_shift", "bitwise_right_shift"))


def _unary(name: str) -> Unary:
    """As function and method; a yes or no is not written into the tensor itself."""
    op: Callable[..., Tensor] = getattr(ops, name)

    def function(input: Any, *, out: Tensor | None = None) -> Tensor:
        if input.__class__ is not Tensor and not isinstance(input, Tensor):
            input = tensor_argument(name, input)
        return op(input) if out is None else into(out, function, (input,), {})

    function.__name__ = name
    function.__doc__ = op.__doc__ = f"{name} of every element."
    METHODS[name] = op
    return function


isnan, isinf, isfinite, isposinf, isneginf, isreal, signbit = map(
    _unary, ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit")
)
logical_not, bitwise_not = (_unary(name) for name in ("logical_not", "bitwise_not"))


@method
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol |other|; infinities are close to themselves, NaN only with equal_nan."""
    if input._array.dtype != other._array.dtype:
        words = [dtypes.type_word(t._array.dtype) for t in (input, other)]
        raise RuntimeError(f"{words[0]} did not match {words[1]}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
    close: Any = ops.eq(input, other)
    if kind(input._array.dtype) in "bi":
        input, other = (ops.cast(t, dtype=dtypes.float64.dtype) for t in (input, other))
    elif equal_nan:
        close = ops.logical_or(close, ops.logical_and(ops.isnan(input), ops.isnan(other)))
    near = ops.le(ops.abs(ops.sub(input, other)), ops.add(ops.abs(ops.mul(other, rtol)), atol))
    return ops.logical_or(close, ops.logical_and(ops.isfinite(other), near))


@method
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` has it."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Same shape and same elements."""
    return input._array.shape == other._array.shape and bool(ops.eq(input, other).all())


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floats."""
    return kind(input._array.dtype) == "f"


@method
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input._array.dtype.kind == "c"


for _name in ("logical_not", "bitwise_not"):
    METHODS[f"{_name}_"] = inplace(getattr(ops, _name))
for _name, _of in {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne"}.items():
    alias(_name, _of)
