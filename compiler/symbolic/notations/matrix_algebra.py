"""Matrix expressions that SymPy lacks: functions of elements and of rows, scalars made from matrices; and their algebra."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE


class Elementwise(sp.MatrixExpr):
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


class Total(sp.Expr):
    """The sum of all elements of a matrix."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Entry(sp.Expr):
    """The only element of a 1×1 matrix, such as xᵀy."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]  # for printers: (xᵀ y)² needs its brackets

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Det(sp.Expr):
    """The determinant, a real number."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Rows(sp.MatrixExpr):
    """A function of each row: softmax, log_softmax, or logsumexp, which returns one element per row."""

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
    """Return the sum, with common factors at either end factored out: A x + B x = (A + B) x."""
    if len(matrices) == 1:
        return matrices[0]
    terms = [parted(m) for m in matrices]
    shared = _shared_scale([scale for scale, _ in terms])
    if shared != 1:
        return scaled(shared, added([scaled(scale / shared, times(*factors)) for scale, factors in terms]))
    for end in (-1, 0):
        common = _common([factors for _, factors in terms], end)
        if common:
            rest = [scaled(scale, times(*_without(factors, len(common), end))) for scale, factors in terms]
            return times(added(rest), *common) if end else times(*common, added(rest))
    return sp.MatAdd(*matrices)


def _shared_scale(scales: list[Any]) -> Any:
    """Return the common factor of all scalars without numbers: a sign, and factors such as (xᵀ y)."""
    sign = sp.Integer(-1) if all(scale.could_extract_minus_sign() for scale in scales) else sp.Integer(1)
    factors = [set(sp.Mul.make_args(scale)) for scale in scales]
    return sign * sp.Mul(*(f for f in set.intersection(*factors) if not f.is_number))


def parted(matrix: Any) -> tuple[Any, list[Any]]:
    """Return the scalar and the matrix factors of a product."""
    if not isinstance(matrix, sp.MatMul):
        return sp.Integer(1), [matrix]
    parts = [parted(f) if f.is_Matrix else (f, []) for f in matrix.args]
    return sp.Mul(*[scale for scale, _ in parts]), [f for _, factors in parts for f in factors]


def _common(products: list[list[Any]], end: int) -> list[Any]:
    """Return the factors that all products share at one end, if every product has others besides."""
    shared: list[Any] = []
    for factors in zip(*(p[::-1] if end else p for p in products), strict=False):
        if any([f != factors[0] for f in factors]):
            break
        shared.append(factors[0])
    return (shared[::-1] if end else shared) if len(shared) < min(map(len, products)) else []


def _without(factors: list[Any], count: int, end: int) -> list[Any]:
    return factors[: len(factors) - count] if end else factors[count:]


def scaled(scale: Any, matrix: Any) -> Any:
    inner, factors = parted(matrix)
    total = scale * inner
    return sp.MatMul(*([] if total == 1 else [total]), *factors) if len(factors) > 1 or total != 1 else factors[0]


def times(*matrices: Any) -> Any:
    """Return the product; scalars among the factors come first."""
    parts = [parted(m) for m in matrices]
    factors = _joined([f for _, some in parts for f in some])
    useful = [f for f in factors if f != sp.OneMatrix(1, 1) and not isinstance(f, sp.Identity)]  # a 1×1 matrix of ones is an identity, too
    product = factors[0] if not useful else useful[0] if len(useful) == 1 else sp.MatMul(*useful)
    scale = sp.Mul(*(scale for scale, _ in parts))
    return product if scale == 1 else scaled(scale, product)


def _joined(factors: list[Any]) -> list[Any]:
    """Simplify adjacent factors: diag(u) diag(v) = diag(u ∘ v), 1ᵀ diag(u) = uᵀ, diag(u) 1 = u."""
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
    """Simplify a Hadamard product: (u 1ᵀ) ∘ (1 vᵀ) = u vᵀ."""
    column = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[-1] == sp.OneMatrix(1, m.shape[1])), None)
    row = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[0] == sp.OneMatrix(m.shape[0], 1)), None)
    if column is None or row is None or column is row or 1 in column.shape:
        return matrices
    return [times(*column.args[:-1], *row.args[1:]), *(m for m in matrices if m is not column and m is not row)]


def transposed(matrix: Any) -> Any:
    """Return the transpose: (AB)ᵀ = BᵀAᵀ; a sum is transposed term by term unless that needs more transposes."""
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
    """Return the number of transposes in an expression."""
    return sum(isinstance(e, sp.Transpose) for e in sp.preorder_traversal(matrix))
