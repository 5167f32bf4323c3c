"""Matrix expressions that SymPy lacks: functions of elements and of rows, numbers that are made of matrices; and their algebra."""

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


class Det(sp.Expr):  # type: ignore[misc]
    """The determinant, a real number."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Rows(sp.MatrixExpr):  # type: ignore[misc]
    """A function of each row: softmax, log_softmax, or logsumexp, which gives one number for each."""

    def __new__(cls, name: Any, matrix: Any) -> Any:
        return super().__new__(cls, name, matrix)

    @property
    def name(self) -> str:
        return str(self.args[0].name)

    @property
    def shape(self) -> Any:
        rows, columns = self.args[1].shape
        return (rows, 1) if self.name == "logsumexp" else (rows, columns)

    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return sp.MatrixElement(self, i, j)


def added(matrices: list[Any]) -> Any:
    return matrices[0] if len(matrices) == 1 else sp.MatAdd(*matrices)


def scaled(scale: Any, matrix: Any) -> Any:
    return matrix if scale == 1 else sp.MatMul(scale, matrix)


def times(*matrices: Any) -> Any:
    factors: list[Any] = []
    for m in matrices:
        factors.extend(m.args if isinstance(m, sp.MatMul) else [m])
    factors = _joined(factors)
    useful = [f for f in factors if f != sp.OneMatrix(1, 1) and not isinstance(f, sp.Identity)]  # a 1×1 one is an identity, too
    return factors[0] if not useful else useful[0] if len(useful) == 1 else sp.MatMul(*useful)


def _joined(factors: list[Any]) -> list[Any]:
    """diag(u) diag(v) = diag(u ∘ v), 1ᵀ diag(u) = uᵀ, diag(u) 1 = u"""
    result: list[Any] = []
    for f in factors:
        last = result[-1] if result else None
        if isinstance(f, sp.DiagMatrix) and isinstance(last, sp.DiagMatrix):
            result[-1] = sp.DiagMatrix(sp.HadamardProduct(last.args[0], f.args[0]))
        elif isinstance(f, sp.DiagMatrix) and isinstance(last, sp.OneMatrix) and last.shape[0] == 1:
            result[-1] = transposed(f.args[0])
        elif isinstance(f, sp.OneMatrix) and f.shape[1] == 1 and isinstance(last, sp.DiagMatrix):
            result[-1] = last.args[0]
        else:
            result.append(f)
    return result


def outer(matrices: list[Any]) -> list[Any]:
    """(u 1ᵀ) ∘ (1 vᵀ) = u vᵀ"""
    column = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[-1] == sp.OneMatrix(1, m.shape[1])), None)
    row = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[0] == sp.OneMatrix(m.shape[0], 1)), None)
    if column is None or row is None or column is row or 1 in column.shape:
        return matrices
    return [times(*column.args[:-1], *row.args[1:]), *(m for m in matrices if m is not column and m is not row)]


def transposed(matrix: Any) -> Any:
    """(AB)ᵀ = BᵀAᵀ; a sum is transposed term by term if that takes fewer signs."""
    if isinstance(matrix, sp.Transpose):
        return matrix.arg
    if isinstance(matrix, sp.MatMul):
        scalars = [f for f in matrix.args if not f.is_Matrix]
        return sp.MatMul(*scalars, *(transposed(f) for f in reversed(matrix.args) if f.is_Matrix))
    if isinstance(matrix, (sp.OneMatrix, sp.ZeroMatrix)):
        return type(matrix)(*reversed(matrix.shape))
    if isinstance(matrix, (sp.Identity, sp.DiagMatrix)):
        return matrix
    if isinstance(matrix, sp.MatAdd):
        terms = sp.MatAdd(*map(transposed, matrix.args))
        if _signs(terms) <= _signs(matrix):
            return terms
    return sp.Transpose(matrix)


def _signs(matrix: Any) -> int:
    """How many times something is transposed in it."""
    return sum(isinstance(e, sp.Transpose) for e in sp.preorder_traversal(matrix))
