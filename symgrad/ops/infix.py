"""The operators, written once for Tensor and for graph values: a dunder is a row of the table or a function of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.ops.foreign import is_sympy_array

BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}
COMMUTATIVE = ("add", "mul", "and", "or", "xor")


def reflected(op: Any) -> Any:
    """The operator with its operands swapped: `other - self`."""
    def reflect(self: Any, other: Any) -> Any:
        return op(other, self)

    return reflect


def comparison(op: Any, name: str, ordered: bool) -> Any:
    """What is no number is left to Python: `x == None` is False, `x < None` a TypeError. A SymPy matrix or array is compared by elements,
    as `x.eq(matrix)` does; one with symbols, and a list in an ordered comparison, is a TypeError."""

    def compare(self: Any, other: Any) -> Any:
        try:
            return op(self, other)
        except TypeError:
            if ordered and isinstance(other, list):
                raise
            return getattr(self, name)(other) if is_sympy_array(other) else NotImplemented

    return compare


def power_operator(ops: Any) -> Any:
    """x ** y. A Python number as exponent is part of the operation: x ** 2 has the derivative 2 x, and no logarithm."""

    def power(self: Any, exponent: Any) -> Any:
        cls = type(exponent)  # not __class__: of a weak number a program must not depend
        if cls is int or cls is float:
            return ops.square(self) if exponent == 2 and cls is int else ops.power(self, exponent=exponent)
        if isinstance(exponent, (np.floating, np.integer)):
            return power(self, exponent.item())
        return ops.pow(self, exponent)

    return power


def install(cls: Any, ops: Any) -> None:
    """Give `cls` every operator that the namespace `ops` has."""
    for word, name in {**BINARY, **UNARY}.items():
        op = getattr(ops, name)
        setattr(cls, f"__{word}__", op)
        if word in BINARY:
            setattr(cls, f"__r{word}__", op if word in COMMUTATIVE else reflected(op))
    for word, name in COMPARE.items():
        setattr(cls, f"__{word}__", comparison(getattr(ops, name), name, word not in ("eq", "ne")))
    cls.__pow__, cls.__rpow__ = power_operator(ops), reflected(ops.pow)
    cls.__rsub__, cls.__rtruediv__ = ops.rsub, ops.rdiv
    cls.__pos__ = lambda self: self


def install_inplace(cls: Any, methods: Mapping[str, Any]) -> None:
    """`x += y` is `x.add_(y)`, but takes no list; `x @= y` stays `x = x @ y`, as in PyTorch."""
    for word, name in {**BINARY, "pow": "pow"}.items():
        if word != "matmul" and f"__i{word}__" not in methods:
            setattr(cls, f"__i{word}__", without_lists(methods[f"{name}_"]))


def without_lists(method: Any) -> Any:
    """The operator of an in-place method."""

    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, list):
            raise TypeError(f"{method.__name__}(): an operator takes no list; write sg.tensor(list)")
        return method(self, other)

    return operator
