"""Public elementwise functions, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import METHODS, method, method_inplace
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor
from symgrad.views import inplace_ufunc

__all__ = ["add", "cos", "div", "exp", "log", "mul", "neg", "pow", "relu", "sin", "sub", "tanh", "where"]


def _unary(name: str) -> Any:
    op = getattr(ops, name)

    def function(input: Tensor) -> Tensor:
        return op(input)  # type: ignore[no-any-return]

    function.__name__ = name
    function.__doc__ = f"{name} of every element."
    return method_inplace(function)


exp, log, sin, cos, tanh, relu, neg = (_unary(name) for name in ("exp", "log", "sin", "cos", "tanh", "relu", "neg"))


@method
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other"""
    return ops.add(input, other if alpha == 1 else ops.mul(other, alpha))  # type: ignore[no-any-return]


@method
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other"""
    return ops.sub(input, other if alpha == 1 else ops.mul(other, alpha))  # type: ignore[no-any-return]


@method
def mul(input: Any, other: Any) -> Tensor:
    return ops.mul(input, other)  # type: ignore[no-any-return]


@method
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    return ops.div(input, other)  # type: ignore[no-any-return]


@method_inplace
def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent; a Python number as exponent is part of the operation, so x ** 2 has the derivative 2 x."""
    if isinstance(exponent, (int, float)) and isinstance(input, Tensor):
        return ops.power(input, exponent=exponent)  # type: ignore[no-any-return]
    return ops.pow(input, exponent)  # type: ignore[no-any-return]


@method
def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    return ops.where(condition, input, other)  # type: ignore[no-any-return]


for _name in ("add", "sub", "mul", "div"):
    METHODS[f"{_name}_"] = inplace_ufunc(TABLE[_name])
