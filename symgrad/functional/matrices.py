"""Matrices, with PyTorch's signatures: what `symgrad.linalg` holds, and what of it stands at top level too."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import return_types
from symgrad.dispatch import tensors as ops
from symgrad.errors import require
from symgrad.functional.names import method, public
from symgrad.ops.linalg import require_matrix, require_square
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import integer
from symgrad.tensor import Tensor

__all__ = ["cdist", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "matrix_power", "pinverse", "slogdet"]


# --- inverse and determinant


@public
def inv(A: Tensor) -> Tensor:
    """The inverses of square matrices."""
    return ops.inv(A, check=True)


@method
def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices."""
    return inv(input)


@method
def det(input: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return ops.det(input)


@method
def slogdet(input: Tensor) -> return_types.slogdet:
    """Signs, and logarithms of the absolute values, of determinants."""
    return return_types.slogdet(*ops.slogdet(input))


def linalg_slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """Signs, and logarithms of the absolute values, of determinants."""
    return return_types.linalg_slogdet(*slogdet(A))


@method
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants: NaN where one is negative, -inf where it is 0."""
    require_square("logdet", input)
    sign, logarithm = ops.slogdet(input)
    if sign._array.dtype.kind == "c":
        return ops.add(logarithm, ops.log(sign))
    return ops.where(ops.lt(sign, 0), float("nan"), logarithm)


@public
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The pseudo-inverses of matrices; singular values up to max(atol, rtol * the largest) count as 0. Each matrix may have bounds of its
    own, in tensors."""
    require_matrix("linalg.pinv", A)
    rtol = rcond if rtol is None else rtol
    usual = max(A.shape[-2:]) * _epsilon(A)
    if atol is None or (not isinstance(atol, Tensor) and atol == 0):
        return ops.pinv(A, usual if rtol is None else _bound(rtol))
    if 0 in A.shape:
        return ops.pinv(A, 0.0)
    atol, largest = _bound(atol), svdvals(A.detach())[..., 0]
    if rtol is None:
        rtol = ops.where(atol > 0, 0.0, usual) if isinstance(atol, Tensor) else 0.0
    relative = ops.where(largest > 0, atol / largest, 0.0)
    return ops.pinv(A, ops.maximum(relative, _bound(rtol)))


def _bound(x: Any) -> Any:
    return ops.detach(x) if isinstance(x, Tensor) else float(x)


@method
def pinverse(input: Tensor, rcond: Any = 1e-15) -> Tensor:
    """Another name for `linalg.pinv`."""
    return pinv(input, rcond)


def _epsilon(x: Tensor) -> float:
    return float(np.finfo(x._array.dtype).eps)


# --- linear systems


@public
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B with left=False. B is a vector if it has one dimension, or one less than A and the shape of its rows."""
    require_square("linalg.solve", A)
    if B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])):
        if not left:
            raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case"
                               " linalg.solve is equivalent to B / A.squeeze(-1)")  # fmt: skip
        x = ops.solve(A, ops.reshape(B, shape=(*B.shape, 1)))
        return ops.reshape(x, shape=tuple(x.shape[:-1]))
    if not left:
        return mT(ops.solve(mT(A), mT(B)))
    return ops.solve(A, B)


@public
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """As solve, for a triangular A; the other triangle is not read."""
    require_square("linalg.solve_triangular", A)
    require_matrix("linalg.solve_triangular", B, "B")
    if not left:
        return mT(ops.solve_triangular(mT(A), mT(B), upper=not upper, unitriangular=unitriangular))
    return ops.solve_triangular(A, B, upper=upper, unitriangular=unitriangular)


@public
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L of A = L Lᴴ, or Lᴴ with upper=True, for positive-definite matrices; the upper triangle is not read."""
    if upper:
        return mH(ops.cholesky(mH(A)))
    return ops.cholesky(A)


@method
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X of L Lᴴ X = input (Uᴴ U X = input with upper=True)."""
    require(input.ndim >= 2, f"b should have at least 2 dimensions, but has {input.ndim} dimensions instead")
    require(L.ndim >= 2, f"u should have at least 2 dimensions, but has {L.ndim} dimensions instead")
    factor = mH(L) if upper else L
    half = ops.solve_triangular(factor, input, upper=False, unitriangular=False)
    return ops.solve_triangular(mH(factor), half, upper=True, unitriangular=False)


@method
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L Lᴴ (of Uᴴ U with upper=True)."""
    n = L.shape[-1]
    return cholesky_solve(ops.expand(ops.eye(rows=n, columns=n, dtype=L._array.dtype), shape=tuple(L.shape)), L, upper)


# --- factorisations


@public
def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one triangle is read."""
    require(UPLO.upper() in ("L", "U"), f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return return_types.linalg_eigh(*ops.eigh(A, uplo=UPLO.upper()))


@public
def eig(A: Tensor) -> return_types.linalg_eig:
    """Eigenvalues and eigenvectors of square matrices: complex, and in no order."""
    require_square("linalg.eig", A)
    return return_types.linalg_eig(*ops.eig(A))


@public
def eigvals(A: Tensor) -> Tensor:
    """Eigenvalues of square matrices: complex, and in no order."""
    require_square("linalg.eigvals", A)
    return ops.eig(A)[0]


@public
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, ascending, of Hermitian matrices."""
    return eigh(A, UPLO).eigenvalues


@public
def svd(A: Tensor, full_matrices: bool = True) -> return_types.linalg_svd:
    """U, S and Vᴴ of A = U diag(S) Vᴴ."""
    return return_types.linalg_svd(*ops.svd(A, full_matrices=full_matrices))


@public
def svdvals(A: Tensor) -> Tensor:
    """Singular values, descending."""
    values: Tensor = ops.svd(A, full_matrices=False)[1]
    return values


@public
def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """Q with orthonormal columns and R, upper triangular, of A = Q R."""
    require_matrix("linalg.qr", A)
    modes = "'reduced' (default), 'r', or 'complete'"
    require(mode in ("reduced", "complete", "r"), f"qr received unrecognized mode '{mode}' but expected one of {modes}")
    return return_types.linalg_qr(*ops.qr(A, mode=mode))


# --- powers and distances


@method
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices by repeated squaring; of their inverses if n is negative."""
    n = integer("n", n, "linalg_matrix_power")
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        require_square("linalg.matrix_power", input)
    if n == 0:
        size = input.shape[-1]
        return ops.expand(ops.eye(rows=size, columns=size, dtype=input._array.dtype), shape=tuple(input.shape)).clone()
    square, result = inv(input) if n < 0 else input, None
    n = abs(n)
    while n:
        if n & 1:
            result = square if result is None else ops.matmul(result, square)
        n >>= 1
        if n:
            square = ops.matmul(square, square)
    assert result is not None
    return result


_COMPUTE_MODES = {"use_mm_for_euclid_dist": True, "donot_use_mm_for_euclid_dist": False, "use_mm_for_euclid_dist_if_necessary": None}
"""Whether 2-norms are computed by products; None: if there are more than 25 rows."""


@public
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances in the p-norm between every row of x1 and every row of x2."""
    for name, x in (("X1", x1), ("X2", x2)):
        require(x.ndim >= 2, f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        floating = kind(x._array.dtype) == "f"
        require(floating, f"cdist only supports floating-point dtypes, {name} got: {word(x._array.dtype)}")
    columns = x1.shape[-1], x2.shape[-1]
    require(columns[0] == columns[1], f"X1 and X2 must have the same number of columns. X1: {columns[0]} X2: {columns[1]}")
    types = word(x1._array.dtype), word(x2._array.dtype)
    require(types[0] == types[1], f"expected scalar type {types[0]} but found {types[1]}")
    require(p >= 0, "cdist only supports non-negative p values")
    if compute_mode is not None and compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if p == 2:
        products = None if compute_mode is None else _COMPUTE_MODES[compute_mode]
        if products is None:
            products = max(x1.shape[-2], x2.shape[-2]) > 25
        return ops.euclidean_distance(x1, x2, products=products)
    first = ops.reshape(x1, shape=(*x1.shape[:-1], 1, columns[0]))
    second = ops.reshape(x2, shape=(*x2.shape[:-2], 1, *x2.shape[-2:]))
    gap = ops.sub(first, second)
    return ops.vector_norm(gap, ord=p, axis=(gap.ndim - 1,), keepdims=False)


def mT(x: Tensor) -> Tensor:
    return x.mT


def mH(x: Tensor) -> Tensor:
    return x.mH
