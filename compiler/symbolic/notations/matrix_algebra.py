"""Matrix expressions that SymPy lacks: functions of elements and of rows, scalars made from matrices; and their algebra."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE

from symgrad.compiler.symbolic.notations.binder import Binder


class SymmetricSymbol(sp.MatrixSymbol):
    """A matrix that the user says is symmetric."""

    def _eval_transpose(self) -> Any:
        return self


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


class Total(Binder, sp.Expr):
    """The sum of all elements of a matrix."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Entry(Binder, sp.Expr):
    """The only element of a 1×1 matrix, such as xᵀy."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]  # for printers: (xᵀ y)² needs its brackets

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Det(Binder, sp.Expr):
    """The determinant, a real number."""

    is_commutative = True
    is_real = True

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)


class Rows(sp.MatrixExpr):
    """A function of each row, or of a column as one vector: softmax, log_softmax, or logsumexp, which returns one element for each."""

    def __new__(cls, name: Any, matrix: Any) -> Any:
        return super().__new__(cls, name, matrix)

    @property
    def name(self) -> str:
        return str(self.args[0].name)

    @property
    def shape(self) -> Any:
        rows, columns = self.args[1].shape
        if self.name != "logsumexp":
            return rows, columns
        return (1 if columns == 1 else rows), 1


def added(matrices: list[Any]) -> Any:
    """Return the sum of like terms, with common factors at either end factored out: A x + B x + b = (A + B) x + b."""
    if len(matrices) == 1:
        return matrices[0]
    terms = _like([parted(m) for m in matrices])
    if len(terms) < 2:
        return scaled(terms[0][0], times(*terms[0][1])) if terms else sp.ZeroMatrix(*matrices[0].shape)
    shared = _shared_scale([scale for scale, _ in terms])
    if shared != 1:
        return scaled(shared, _factored([(scale / shared, factors) for scale, factors in terms]))
    return _factored(terms)


def _factored(terms: list[tuple[Any, list[Any]]]) -> Any:
    """Return the sum of products with the matrices that they share at either end factored out."""
    for end in (-1, 0):
        common = _common([factors for _, factors in terms], end)
        if common:
            rest = [scaled(scale, times(*_without(factors, len(common), end))) for scale, factors in terms]
            return times(added(rest), *common) if end else times(*common, added(rest))
    found = [scaled(scale, times(*factors)) for scale, factors in terms]
    for end in (-1, 0):
        some = _sharing(terms, end)
        if some:
            others = [m for i, m in enumerate(found) if i not in some]
            return added([added([found[i] for i in some]), *others])
    return sp.MatAdd(*found)


def _like(terms: list[tuple[Any, list[Any]]]) -> list[tuple[Any, list[Any]]]:
    """Return the terms with the scalars of equal matrices added: A + 2 A = 3 A."""
    scales: dict[tuple[Any, ...], Any] = {}
    for scale, factors in terms:
        scales[tuple(factors)] = scales.get(tuple(factors), sp.Integer(0)) + scale
    return [(scale, list(factors)) for factors, scale in scales.items() if scale != 0]


def _sharing(terms: list[tuple[Any, list[Any]]], end: int) -> list[int]:
    """Return the positions of most terms that have the same factor at one end, and others besides; empty if there are not two."""
    groups: dict[Any, list[int]] = {}
    for i, (_, factors) in enumerate(terms):
        if len(factors) > 1 and not isinstance(factors[end], sp.OneMatrix):
            groups.setdefault(factors[end], []).append(i)
    most = max(groups.values(), key=len, default=[])
    return most if len(most) > 1 else []


def turned(matrix: Any) -> Any:
    """Return (X B + B X)ᵀ for Bᵀ Xᵀ + Xᵀ Bᵀ, and the matrix itself unless that saves two transposes."""
    terms = [parted(m) for m in matrix.args] if isinstance(matrix, sp.MatAdd) else []
    if not all(isinstance(f, sp.Transpose) for _, factors in terms for f in factors) or sum(len(f) for _, f in terms) < 3:
        return matrix
    return sp.Transpose(sp.MatAdd(*(scaled(scale, times(*(f.arg for f in reversed(factors)))) for scale, factors in terms)))


def with_scalars(matrix: Any, change: Any) -> Any:
    """Return a matrix with the scalars of its products and sums changed."""
    if isinstance(matrix, sp.MatAdd):
        return added([with_scalars(m, change) for m in matrix.args])
    if not isinstance(matrix, sp.MatMul):
        return matrix
    scale, factors = parted(matrix)
    return scaled(change(scale), times(*(with_scalars(f, change) for f in factors)))


def _shared_scale(scales: list[Any]) -> Any:
    """Return the common factor of all scalars: a sign, a number, and powers such as 1/(xᵀ y)."""
    sign = sp.Integer(-1) if all([scale.could_extract_minus_sign() for scale in scales]) else sp.Integer(1)
    numbers = [scale.as_coeff_Mul()[0] for scale in scales]
    if all([n.is_Rational for n in numbers]) and len({n.q for n in numbers}) == 1:
        sign *= sp.Rational(sp.igcd(*[n.p for n in numbers]), numbers[0].q)
    if any([scale.is_number for scale in scales]):
        return sign
    factors = [[f for f in sp.Mul.make_args(scale) if not f.is_number and not isinstance(f, sp.Piecewise)] for scale in scales]
    powers = [dict([f.as_base_exp() for f in each]) for each in factors]
    return sign * sp.Mul(*[base ** _shared_exponent([p.get(base, sp.Integer(0)) for p in powers]) for base in powers[0]])


def _shared_exponent(exponents: list[Any]) -> Any:
    """Return the exponent that all powers of a base have in common, 0 if there is none."""
    if all(n.is_Rational and n > 0 for n in exponents):
        return min(exponents)
    if all(n.is_Rational and n < 0 for n in exponents):
        return max(exponents)
    return exponents[0] if len(set(exponents)) == 1 else sp.Integer(0)


def parted(matrix: Any) -> tuple[Any, list[Any]]:
    """Return the scalar and the matrix factors of a product."""
    if not isinstance(matrix, sp.MatMul):
        return sp.Integer(1), [matrix]
    parts = [parted(f) if f.is_Matrix else (f, []) for f in matrix.args]
    return sp.Mul(*[scale for scale, _ in parts]), [f for _, factors in parts for f in factors]


def _common(products: list[list[Any]], end: int) -> list[Any]:
    """Return the factors that all products share at one end, if every product has others besides."""
    shared: list[Any] = []
    for factors in zip(*[p[::-1] if end else p for p in products], strict=False):
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
    count, joined = _ones_joined([f for _, some in parts for f in some])
    factors = _joined(joined)
    useful = [f for f in factors if f != sp.OneMatrix(1, 1) and not isinstance(f, sp.Identity)]  # a 1×1 matrix of ones is an identity, too
    product = factors[0] if not useful else useful[0] if len(useful) == 1 else sp.MatMul(*useful)
    scale = sp.Mul(count, *[scale for scale, _ in parts])
    return product if scale == 1 else scaled(scale, product)


def _ones_joined(factors: list[Any]) -> tuple[Any, list[Any]]:
    """Multiply adjacent matrices of ones: 1ᵀ 1 is the number of elements."""
    count, result = sp.Integer(1), list[Any]()
    for f in factors:
        if isinstance(f, sp.OneMatrix) and result and isinstance(result[-1], sp.OneMatrix) and f.shape[0] != 1:
            count *= f.shape[0]
            result[-1] = sp.OneMatrix(result[-1].shape[0], f.shape[1])
        else:
            result.append(f)
    return count, result


def _joined(factors: list[Any]) -> list[Any]:
    """Simplify adjacent factors: diag(u) diag(v) = diag(u ∘ v), 1ᵀ diag(u) = uᵀ, diag(u) 1 = u."""
    result: list[Any] = []
    inverts = any([isinstance(f, sp.Inverse) or isinstance(getattr(f, "arg", None), sp.Inverse) for f in factors])
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
            if inverts:
                _cancel(result)
    return result


def _cancel(factors: list[Any]) -> None:
    """Cancel an inverse at the end with the factors beside it: A X (Xᵀ A X)⁻¹ = X⁻ᵀ, and (A X)⁻¹ A = X⁻¹."""
    for at in range(max(len(factors) - 3, 0), len(factors)):
        inner = _inverted_factors(factors[at])
        for count in range(len(inner), 0, -1):
            rest = inner[: len(inner) - count], inner[count:]
            if at == len(factors) - 1 and factors[at - count : at] == inner[len(inner) - count :] and count <= at and _is_square(rest[0]):
                factors[at - count :] = [inverse(times(*rest[0]))] if rest[0] else [sp.Identity(factors[at].shape[0])]
                return
            if factors[at + 1 :] == inner[:count] and _is_square(rest[1]):
                factors[at:] = [inverse(times(*rest[1]))] if rest[1] else [sp.Identity(factors[at].shape[0])]
                return


def _is_square(factors: list[Any]) -> bool:
    return not factors or factors[0].shape[0] == factors[-1].shape[1]


def _inverted_factors(matrix: Any) -> list[Any]:
    """Return the factors of M for M⁻¹, those of Mᵀ for M⁻ᵀ, and nothing for another matrix."""
    if isinstance(matrix, sp.Transpose) and isinstance(matrix.arg, sp.Inverse):
        scale, factors = parted(transposed(matrix.arg.arg))
    elif isinstance(matrix, sp.Inverse):
        scale, factors = parted(matrix.arg)
    else:
        return []
    return factors if scale == 1 else []


def inverse(matrix: Any) -> Any:
    """Return the inverse: (X⁻¹)⁻¹ = X, and (Xᵀ)⁻¹ = (X⁻¹)ᵀ."""
    if isinstance(matrix, (sp.Inverse, sp.Transpose)):
        inner = matrix.arg
        return inner if isinstance(matrix, sp.Inverse) else transposed(inverse(inner))
    return matrix if isinstance(matrix, sp.Identity) else sp.Inverse(matrix)


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
    if isinstance(matrix, (sp.Identity, sp.DiagMatrix, SymmetricSymbol)) or (isinstance(matrix, sp.Inverse) and is_symmetric(matrix.arg)):
        return matrix
    if isinstance(matrix, sp.MatAdd):
        terms = sp.MatAdd(*map(transposed, matrix.args))
        if _signs(terms) <= _signs(matrix):
            return terms
    return sp.Transpose(matrix)


def is_symmetric(matrix: Any) -> bool:
    """True if the form of a matrix says that it is symmetric: Xᵀ X, A + Aᵀ, and inverses of such."""
    if isinstance(matrix, SymmetricSymbol):
        return True
    if matrix.shape[0] != matrix.shape[1] or isinstance(matrix, (sp.MatrixSymbol, sp.Transpose)):
        return False
    if isinstance(matrix, sp.MatMul):
        return bool(parted(transposed(matrix)) == parted(matrix))
    if isinstance(matrix, sp.MatAdd):
        return set(map(transposed, matrix.args)) == set(matrix.args)
    return bool(transposed(matrix) == matrix)


def _signs(matrix: Any) -> int:
    """Return the number of transposes in an expression."""
    return sum(isinstance(e, sp.Transpose) for e in sp.preorder_traversal(matrix))
