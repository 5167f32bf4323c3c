"""Matrices and batches of them: inverse, determinant, linear systems, Cholesky. The last two dimensions are the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import LinAlgError
from symgrad.ops.complexes import real_type_of
from symgrad.ops.contraction import transposed
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import row
from symgrad.ops.variants import is_complex

# --- what rules share


def adjoint(xp: Any, x: Any) -> Any:
    """The matrices of `x` transposed, and conjugated if they are complex."""
    x = transposed(xp, x)
    return xp.conj(x) if is_complex(x) else x


# --- what the rows accept


def require_matrix(name: str, x: Any, argument: str = "A") -> None:
    """PyTorch's errors for what is no matrix of floats."""
    if len(x.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if kind(np.dtype(x.dtype)) not in "fc":
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {word(x.dtype)}")
    if np.dtype(x.dtype).itemsize == 2:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {word(x.dtype)}")


def require_square(name: str, x: Any) -> None:
    """PyTorch's errors for what is no square matrix of floats."""
    require_matrix(name, x)
    rows, columns = x.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices")


def square_type(name: str) -> Callable[..., Meta]:
    def rule(x: Any, **attrs: Any) -> Meta:
        require_square(name, x)
        return Meta(tuple(x.shape), x.dtype)

    return rule


def number_type(name: str) -> Callable[..., Meta]:
    def rule(x: Any) -> Meta:
        require_square(name, x)
        return Meta(tuple(x.shape[:-2]), x.dtype)

    return rule


def first_failure(x: Any, fails: Callable[[Any], int]) -> tuple[str, int]:
    """The first matrix of a batch for which LAPACK's `info` is not 0, as a message names it, and that `info`."""
    for i, matrix in enumerate(x.reshape(-1, *x.shape[-2:])):
        info = fails(matrix)
        if info:
            return (f"(Batch element {i}): " if x.ndim > 2 else ""), info
    return "", 1


def _zero_pivot(matrix: Any) -> int:
    from scipy.linalg import lapack

    return int(getattr(lapack, f"{_prefix(matrix)}getrf")(matrix)[2])


def _bad_minor(matrix: Any) -> int:
    from scipy.linalg import lapack

    return int(getattr(lapack, f"{_prefix(matrix)}potrf")(matrix, lower=1)[1])


def _prefix(matrix: Any) -> str:
    return {"f": "s", "d": "d", "F": "c", "D": "z"}[matrix.dtype.char]


# --- inverse


def _inv(x, *, check):
    require_square("linalg.inv", x)
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        if not check:
            return _inverse_or_infinite(x)
        where, pivot = first_failure(x, _zero_pivot)
        raise LinAlgError(
            f"linalg.inv: {where}The diagonal element {pivot} is zero, the inversion could not be completed because the input"
            " matrix is singular."
        ) from None


def _inverse_or_infinite(x):
    """What a rule wants: the derivative of the logarithm of a determinant is infinite at a singular matrix, and no error."""
    out = np.empty_like(x)
    for i in np.ndindex(*x.shape[:-2]):
        try:
            out[i] = np.linalg.inv(x[i])
        except np.linalg.LinAlgError:
            out[i] = _cofactor(x[i]).T / 0.0
    return out


def _inv_rule(xp, g, out, x, *, check):
    out = transposed(xp, out)
    return -xp.matmul(xp.matmul(out, g), out)


row(
    "inv", "x / check", _inv, (_inv_rule,), saves="out", policy="each", type=square_type("linalg.inv"), display="LinalgInvExBackward0",
    sympy=lambda sp, x, check: sp.Inverse(x), jax=lambda x, *, check: f"jnp.linalg.inv({x})",
)  # fmt: skip

# --- determinant. Its derivative is the cofactor matrix, which exists at singular matrices too: there it comes from the SVD,
#     A = U S Vᴴ, as det(U Vᴴ) · conj(U) diag(products of the other singular values) conj(Vᴴ); and likewise the second derivative.


def _others(s):
    """For each element along the last dimension the product of all others."""
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after


def _factors(x):
    """conj(U), S, conj(Vᴴ) and det(U Vᴴ). For a matrix that is not finite S is NaN, where LAPACK would fail."""
    finite = np.isfinite(x).all((-2, -1))
    u, s, vh = np.linalg.svd(x if finite.all() else np.where(finite[..., None, None], x, 0))
    s = np.where(finite[..., None], s, np.nan).astype(s.dtype)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return u.conj(), s, vh.conj(), sign[..., None, None]


def _cofactor(x):
    """det · (inverse, transposed): both come from the same LU, so that what small pivots do to one cancels in the other (checked against
    exact minors down to singular values of 1e-300). Where a pivot is 0, by SVD."""
    require_square("linalg.det", x)
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return _cofactor_by_svd(x)
    out = np.linalg.det(x)[..., None, None] * inverse.swapaxes(-1, -2)
    if not np.isfinite(out).all():
        bad = ~np.isfinite(out).all((-2, -1))
        out[bad] = _cofactor_by_svd(x[bad])
    return out


def _cofactor_by_svd(x):
    u, s, vh, sign = _factors(x)
    return (sign * (u * _others(s)[..., None, :])) @ vh


def _cofactor_derivative(x, y):
    """The derivative of the cofactor matrix in direction y, a symmetric bilinear form: with Y = Uᴴ y V and the products p[i, j] of all
    singular values but two, it has sum_i p[i, j] Y[i, i] on the diagonal and -p[i, j] Y[i, j] at [j, i], between conj(U) and conj(Vᴴ)."""
    u, s, vh, sign = _factors(x)
    n = s.shape[-1]
    eye = np.eye(n, dtype=bool)
    pairs = np.where(eye, 0, _others(np.where(eye, 1, s[..., None, :])))
    inner = u.swapaxes(-1, -2) @ y @ vh.swapaxes(-1, -2)
    middle = -(pairs * inner).swapaxes(-1, -2)
    diagonal = (pairs * inner.diagonal(0, -2, -1)[..., :, None]).sum(-2)
    middle = np.where(eye, diagonal[..., None], middle)
    return (sign * (u @ middle @ vh)).astype(x.dtype)


def _as_matrix(xp, x):
    return xp.reshape(x, shape=(*x.shape, 1, 1))


def _inner(xp, x, y):
    rank = len(x.shape)
    return xp.sum(x * y, axis=(rank - 2, rank - 1), keepdims=True)


def _third_derivative(xp, g, out, x, y):
    """For invertible matrices, where with B the transposed inverse the form is det · (<B, Y> B - B Yᵀ B)."""
    b = transposed(xp, xp.inv(x, check=False))
    det = _as_matrix(xp, xp.det(x))
    byb = xp.matmul(xp.matmul(b, transposed(xp, y)), b)
    bgb = xp.matmul(xp.matmul(b, transposed(xp, g)), b)
    by, bg = _inner(xp, b, y), _inner(xp, b, g)
    mixed = xp.matmul(xp.matmul(byb, transposed(xp, g)), b) + xp.matmul(xp.matmul(bgb, transposed(xp, y)), b)
    return det * ((by * bg - _inner(xp, byb, g)) * b - bg * byb - by * bgb + mixed)


def _cofactor_derivative_compose(xp, x, y):
    b = transposed(xp, xp.inv(x, check=True))
    return _as_matrix(xp, xp.det(x)) * (_inner(xp, b, y) * b - xp.matmul(xp.matmul(b, transposed(xp, y)), b))


def _cofactor_in_jax(x):
    """As a VJP, which complex numbers have, too."""
    return f"jax.vjp(jnp.linalg.det, {x})[1](jnp.ones({x}.shape[:-2], {x}.dtype))[0]"


def _det(x):
    require_square("linalg.det", x)
    return np.linalg.det(x)


row(
    "det", "x", _det, (lambda xp, g, out, x: _as_matrix(xp, g) * xp.cofactor(x),), saves="x", policy="each",
    type=number_type("linalg.det"), display="LinalgDetBackward0", jax="jax.numpy.linalg.det",
)  # fmt: skip
row(
    "cofactor", "x", _cofactor, (lambda xp, g, out, x: xp.cofactor_derivative(x, g),), saves="x", policy="each",
    type=square_type("linalg.det"), jax=_cofactor_in_jax,
    compose=lambda xp, x: _as_matrix(xp, xp.det(x)) * transposed(xp, xp.inv(x, check=True)),
)  # fmt: skip
row(
    "cofactor_derivative", "x y", _cofactor_derivative,
    (_third_derivative, lambda xp, g, out, x, y: xp.cofactor_derivative(x, g)), saves=("x y", "x"), policy="same",
    type=lambda x, y: Meta(tuple(x.shape), x.dtype),
    compose=_cofactor_derivative_compose,
    jax=lambda x, y: f"jax.jvp(lambda a: {_cofactor_in_jax('a')}, ({x},), ({y},))[1]",
)  # fmt: skip


def slogdet_type(x: Any) -> tuple[Meta, Meta]:
    require_square("linalg.slogdet", x)
    shape = tuple(x.shape[:-2])
    return Meta(shape, x.dtype), Meta(shape, real_type_of(np.dtype(x.dtype)))


def _slogdet(x):
    require_square("linalg.slogdet", x)
    return tuple(np.linalg.slogdet(x))


def _slogdet_rule(xp, g, out, x):
    """The sign of a real determinant has no derivative; that of a complex one turns."""
    factor = g[1]
    if g[0] is not None and is_complex(x):
        turn = xp.real(xp.conj(g[0]) * out[0] * 1j) * 1j  # a NumPy scalar on the left, or Python multiplies
        factor = turn if factor is None else factor + turn
    if factor is None:
        return xp.zero(x)
    return _as_matrix(xp, factor) * adjoint(xp, xp.inv(x, check=False))


row(
    "slogdet", "x", _slogdet, (_slogdet_rule,), saves="x out0", policy="each", type=slogdet_type, outputs=2,
    complex="own", display="LinalgSlogdetBackward0", jax="jax.numpy.linalg.slogdet",
)  # fmt: skip

# --- linear systems


def solve_type(name: str) -> Callable[..., Meta]:
    def rule(a: Any, b: Any, **attrs: Any) -> Meta:
        require_square(name, a)
        require_matrix(name, b, "B")
        if a.dtype != b.dtype:
            types = f"found A of type {word(a.dtype)} and B of type {word(b.dtype)} instead"
            raise RuntimeError(f"{name}: Expected A and B to have the same dtype, but {types}")
        if a.shape[-1] != b.shape[-2]:
            (n, m), (rows, columns) = a.shape[-2:], b.shape[-2:]
            raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation AX = B ({n}x{m} and {rows}x{columns})")
        batch = broadcast_shapes(name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        return Meta((*batch, *b.shape[-2:]), a.dtype)

    return rule


_solve_type = solve_type("linalg.solve")
_solve_triangular_type = solve_type("linalg.solve_triangular")


def _solve(a, b):
    _solve_type(a, b)
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        where, _ = first_failure(a, _zero_pivot)
        raise LinAlgError(f"torch.linalg.solve: {where}The solver failed because the input matrix is singular.") from None


def _solve_a(xp, g, out, a, b):
    return -xp.matmul(xp.solve(transposed(xp, a), g), transposed(xp, out))


row(
    "solve", "a b", _solve, (_solve_a, lambda xp, g, out, a, b: xp.solve(transposed(xp, a), g)), saves=("a out", "a"), policy="same",
    type=_solve_type, display="LinalgSolveExBackward0", jax="jax.numpy.linalg.solve",
    compose=lambda xp, a, b: xp.matmul(xp.inv(a, check=True), b),
)  # fmt: skip


def _solve_triangular(a, b, *, upper, unitriangular):
    shape = _solve_triangular_type(a, b).shape
    if len(shape) > 2 and shape[-2] <= _SMALL:
        try:
            return _solve_small_triangular(a, b, upper, unitriangular)
        except np.linalg.LinAlgError:
            pass  # infinite, as in PyTorch: as BLAS has it
    from scipy.linalg import blas

    trsm = getattr(blas, f"{_prefix(a)}trsm")
    batch = shape[:-2]
    a, out = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.array(np.broadcast_to(b, shape), order="C")
    if out.size:
        for i in np.ndindex(*batch):  # trsm reads Fortran's order: a matrix in C's order is its transpose
            out[i] = trsm(1, a[i].T, out[i], lower=upper, trans_a=1, diag=unitriangular)
    return out


_SMALL = 32
"""Up to this size one LU call for a whole batch is faster than one call of trsm for each matrix."""


def _solve_small_triangular(a, b, upper, unitriangular):
    """LU of an upper triangle is itself, without exchanges; a lower one is an upper one read backwards."""
    if not upper:
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    a = np.triu(a)
    if unitriangular:
        a[..., *np.diag_indices(a.shape[-1])] = 1
    out = np.linalg.solve(a, b)
    return out if upper else np.ascontiguousarray(out[..., ::-1, :])


def _triangle(xp, x, upper, unitriangular):
    if upper:
        return xp.triu(x, diagonal=1 if unitriangular else 0)
    return xp.tril(x, diagonal=-1 if unitriangular else 0)


def _solve_triangular_b(xp, g, out, a, b, *, upper, unitriangular):
    return xp.solve_triangular(transposed(xp, a), g, upper=not upper, unitriangular=unitriangular)


def _solve_triangular_a(xp, g, out, a, b, *, upper, unitriangular):
    gb = _solve_triangular_b(xp, g, out, a, b, upper=upper, unitriangular=unitriangular)
    return -_triangle(xp, xp.matmul(gb, transposed(xp, out)), upper, unitriangular)


def _solve_triangular_compose(xp, a, b, *, upper, unitriangular):
    whole = _triangle(xp, a, upper, unitriangular)
    if unitriangular:
        whole = whole + xp.eye(rows=a.shape[-1], columns=a.shape[-1], dtype=np.dtype(a.dtype))
    return xp.matmul(xp.inv(whole, check=True), b)


def _solve_triangular_text(a, b, *, upper, unitriangular):
    """JAX's own does not broadcast batches of different rank."""
    one = f"lambda l, r: jax.scipy.linalg.solve_triangular(l, r, lower={not upper}, unit_diagonal={unitriangular})"
    return f"jnp.vectorize({one}, signature='(n,n),(n,m)->(n,m)')({a}, {b})"


row(
    "solve_triangular", "a b / upper unitriangular", _solve_triangular, (_solve_triangular_a, _solve_triangular_b), saves=("a out", "a"),
    policy="same", type=_solve_triangular_type, display="LinalgSolveTriangularBackward0",
    jax=_solve_triangular_text, compose=_solve_triangular_compose,
)  # fmt: skip

# --- Cholesky


def _cholesky(x):
    require_square("linalg.cholesky", x)
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        where, minor = first_failure(x, _bad_minor)
        raise LinAlgError(
            f"linalg.cholesky: {where}The factorization could not be completed because the input is not positive-definite (the leading"
            f" minor of order {minor} is not positive-definite)."
        ) from None


def _cholesky_rule(xp, g, out, x):
    """L⁻ᴴ Φ(Lᴴ G) L⁻¹, symmetrised, where Φ takes the lower triangle with half the diagonal."""
    upper = adjoint(xp, out)
    inner = xp.tril(xp.matmul(upper, g), diagonal=0)
    inner = (inner + adjoint(xp, xp.tril(inner, diagonal=-1))) / 2  # Hermitian, so that the result is
    half = xp.solve_triangular(upper, inner, upper=True, unitriangular=False)
    return adjoint(xp, xp.solve_triangular(upper, adjoint(xp, half), upper=True, unitriangular=False))


row(
    "cholesky", "x", _cholesky, (_cholesky_rule,), saves="out", policy="each", type=square_type("linalg.cholesky"),
    complex="own", display="LinalgCholeskyExBackward0", jax=lambda x: f"jnp.linalg.cholesky({x}, symmetrize_input=False)",
)  # fmt: skip
