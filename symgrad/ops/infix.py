"""The operators, written once for Tensor and for graph values: a dunder is a row of the table or a function of rows."""

from __future__ import annotations

from typing import Any

BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}


def reflected(op: Any) -> Any:
    def reflect(self: Any, other: Any) -> Any:
        return op(other, self)

    return reflect


def power_operator(ops: Any) -> Any:
    """x ** y. A Python number as exponent is part of the operation: x ** 2 has the derivative 2 x, and no logarithm."""

    def power(self: Any, exponent: Any) -> Any:
        if exponent.__class__ is int or exponent.__class__ is float:
            return ops.power(self, exponent=exponent)
        return ops.pow(self, exponent)

    return power


def install(cls: Any, ops: Any) -> None:
    """Give `cls` every operator that the namespace `ops` has."""
    cls.__pow__, cls.__rpow__ = power_operator(ops), reflected(ops.pow)
    for word, name in {**BINARY, **COMPARE, **UNARY}.items():
        op = getattr(ops, name, None)
        if op is None:
            continue
        setattr(cls, f"__{word}__", op)
        if word in BINARY:
            setattr(cls, f"__r{word}__", reflected(op))
