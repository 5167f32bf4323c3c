"""Matrix expressions that SymPy lacks: a scalar function applied to every element, and sums that are scalars."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE


class Elementwise(sp.MatrixExpr):  # type: ignore[misc]
    """f(A, B, ...) element by element; the first argument is f as a Lambda."""

    def __new__(cls, function: Any, *matrices: Any) -> Any:
        return super().__new__(cls, function, *matrices)

    @property
    def function(self) -> Any:
        return self.args[0]

    @property
    def matrices(self) -> Any:
        return self.args[1:]

    @property
    def shape(self) -> Any:
        return self.args[1].shape

    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return self.function(*(m[i, j] for m in self.matrices))


class Total(sp.Expr):  # type: ignore[misc]
    """The sum of all elements of a matrix."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Entry(sp.Expr):  # type: ignore[misc]
    """The only element of a 1×1 matrix, such as xᵀy."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]  # as printers ask: (xᵀ y)² needs its brackets

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)
