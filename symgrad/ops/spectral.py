"""Factorisations with orthogonal factors: eigenvalues of Hermitian matrices, singular values, QR; and the pseudo-inverse.

None of them is analytic, so the rules conjugate by themselves. Factors are unique up to a sign or phase only: as in PyTorch, a gradient
is right for functions that do not depend on it, and is infinite where values that must differ are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import LinAlgError
from symgrad.ops.complexes import complex_type_of, real_type_of
from symgrad.ops.linalg import adjoint, first_failure, require_matrix, require_square
from symgrad.ops.spec import Meta
from symgrad.ops.table import row
from symgrad.ops.variants import is_complex

# --- what the rules share


def _eye(xp: Any, like: Any, rows: int, columns: int) -> Any:
    return xp.eye(rows=rows, columns=columns, dtype=np.dtype(like.dtype))


def _in_columns(xp: Any, values: Any) -> Any:
    """Values that scale the columns of a matrix."""
    return xp.reshape(values, shape=(*values.shape[:-1], 1, values.shape[-1]))


def _in_rows(xp: Any, values: Any) -> Any:
    return xp.reshape(values, shape=(*values.shape, 1))


def _reciprocal_gaps(xp: Any, values: Any) -> Any:
    """1 / (values[j] - values[i]) at [i, j], 0 on the diagonal."""
    eye = _eye(xp, values, values.shape[-1], values.shape[-1])
    return (1 - eye) / (_in_columns(xp, values) - _in_rows(xp, values) + eye)


def _factors(name: str, factorise: Any, x: Any, **options: Any) -> tuple[Any, ...]:
    """What NumPy's algorithm gives, or PyTorch's error, which names the matrix of the batch."""

    def fails(matrix: Any) -> int:
        return int(not np.isfinite(matrix).all())

    try:
        return tuple(factorise(x, **options))
    except np.linalg.LinAlgError:
        where, _ = first_failure(x, fails)
        reason = "because the input matrix is ill-conditioned or not finite."
        raise LinAlgError(f"{name}: {where}The algorithm failed to converge {reason}") from None


# --- eigenvalues of Hermitian matrices


def eigh_type(x: Any, *, uplo: str) -> tuple[Meta, Meta]:
    require_square("linalg.eigh", x)
    return Meta(tuple(x.shape[:-1]), real_type_of(np.dtype(x.dtype))), Meta(tuple(x.shape), x.dtype)


def _eigh(x, *, uplo):
    require_square("linalg.eigh", x)
    return _factors("linalg.eigh", np.linalg.eigh, x, UPLO=uplo)


def _eigh_rule(xp, g, out, x, *, uplo):
    """V (diag(g of the values) + Vᴴ (g of the vectors) / gaps) Vᴴ"""
    values, vectors = out
    g_values, g_vectors = g
    back = adjoint(xp, vectors)
    total = None
    if g_values is not None:
        total = vectors * _in_columns(xp, g_values)
    if g_vectors is not None:
        part = xp.matmul(vectors, xp.matmul(back, g_vectors) * _reciprocal_gaps(xp, values))
        total = part if total is None else total + part
    return xp.matmul(total, back)


row(
    "eigh", "x / uplo", _eigh, (_eigh_rule,), saves="out", policy="each", type=eigh_type, outputs=2, complex="own",
    display="LinalgEighBackward0", jax=lambda x, *, uplo: f"jnp.linalg.eigh({x}, UPLO={uplo!r}, symmetrize_input=False)",
)  # fmt: skip

# --- eigenvalues of any square matrix: complex, also those of a real one


def eig_type(x: Any) -> tuple[Meta, Meta]:
    require_square("linalg.eig", x)
    dtype = complex_type_of(np.dtype(x.dtype))
    return Meta(tuple(x.shape[:-1]), dtype), Meta(tuple(x.shape), dtype)


def _eig(x):
    require_square("linalg.eig", x)
    dtype = complex_type_of(x.dtype)
    values, vectors = _factors("linalg.eig", np.linalg.eig, x)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def _eig_rule(xp, g, out, x):
    """V⁻ᴴ (diag(g of the values) + (W - Vᴴ V diag(Re diag W)) / conj(gaps)) Vᴴ with W = Vᴴ (g of the vectors)"""
    values, vectors = out
    g_values, g_vectors = g
    back, eye = adjoint(xp, vectors), _eye(xp, vectors, vectors.shape[-1], vectors.shape[-1])
    total = None if g_values is None else eye * _in_columns(xp, g_values)
    if g_vectors is not None:
        inner = xp.matmul(back, g_vectors)
        lengths = xp.real(xp.sum(inner * eye, axis=(inner.ndim - 2,), keepdims=True))
        turn = (inner - xp.matmul(back, vectors * lengths)) * xp.conj(_reciprocal_gaps(xp, values))
        total = turn if total is None else total + turn
    result = xp.solve(back, xp.matmul(total, back))
    return result if is_complex(x) else xp.real(result)


row(
    "eig", "x", _eig, (_eig_rule,), saves="out", policy="each", type=eig_type, outputs=2, complex="own", display="LinalgEigBackward0",
    jax=lambda x: f"tuple(jnp.linalg.eig({x}))",
)  # fmt: skip

# --- singular values


def svd_type(x: Any, *, full_matrices: bool) -> tuple[Meta, Meta, Meta]:
    require_matrix("linalg.svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    u = (m, m if full_matrices else k)
    v = (n if full_matrices else k, n)
    return Meta((*batch, *u), x.dtype), Meta((*batch, k), real_type_of(np.dtype(x.dtype))), Meta((*batch, *v), x.dtype)


def _svd(x, *, full_matrices):
    require_matrix("linalg.svd", x)
    return _factors("linalg.svd", np.linalg.svd, x, full_matrices=full_matrices)


def _skew(xp, x):
    return x - adjoint(xp, x)


def _svd_rule(xp, g, out, x, *, full_matrices):
    u, s, vh = out
    gu, gs, gvh = g
    m, n = x.shape[-2:]
    k = min(m, n)
    if full_matrices and m != n:  # as in PyTorch, only the first k vectors have a derivative
        first, last = _eye(xp, u, u.shape[-1], k), _eye(xp, u, k, vh.shape[-2])
        u, vh = xp.matmul(u, first), xp.matmul(last, vh)
        gu = None if gu is None else xp.matmul(gu, first)
        gvh = None if gvh is None else xp.matmul(last, gvh)
    uh, v = adjoint(xp, u), adjoint(xp, vh)
    total = None if gs is None else u * _in_columns(xp, gs)
    if gu is not None or gvh is not None:
        inner = _svd_inner(xp, uh, v, s, gu, gvh)
        total = xp.matmul(u, inner) if total is None else total + xp.matmul(u, inner)
    if gu is not None and m > k:
        total = total + (gu - xp.matmul(u, xp.matmul(uh, gu))) / _in_columns(xp, s)
    result = xp.matmul(total, vh)
    if gvh is not None and n > k:
        beyond = (gvh - xp.matmul(xp.matmul(gvh, v), vh)) / _in_rows(xp, s)
        result = result + xp.matmul(u, beyond)
    return result


def _svd_inner(xp, uh, v, s, gu, gvh):
    """What the singular vectors contribute between U and Vᴴ."""
    gaps = _reciprocal_gaps(xp, s * s)
    total = None
    if gu is not None:
        turn = _skew(xp, xp.matmul(uh, gu))
        total = turn * gaps * _in_columns(xp, s)
        if is_complex(uh):
            total = total + turn * _eye(xp, s, s.shape[-1], s.shape[-1]) / _in_columns(xp, 2 * s)
    if gvh is not None:
        part = _skew(xp, adjoint(xp, xp.matmul(gvh, v))) * gaps * _in_rows(xp, s)
        total = part if total is None else total + part
    return total


row(
    "svd", "x / full_matrices", _svd, (_svd_rule,), saves="out", policy="each", type=svd_type, outputs=3, complex="own",
    display="LinalgSvdBackward0", jax=lambda x, *, full_matrices: f"jnp.linalg.svd({x}, full_matrices={full_matrices})",
)  # fmt: skip

# --- QR


def qr_type(x: Any, *, mode: str) -> tuple[Meta, Meta]:
    require_matrix("linalg.qr", x)
    *batch, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    q = (0,) if mode == "r" else (*batch, m, k)
    return Meta(q, x.dtype), Meta((*batch, k, n), x.dtype)


def _qr(x, *, mode):
    require_matrix("linalg.qr", x)
    if mode == "r":
        return np.empty(0, x.dtype), np.linalg.qr(x, mode="r")
    return tuple(np.linalg.qr(x, mode=mode))


def _qr_rule(xp, g, out, x, *, mode):
    """(G + Q copyltu(M)) R⁻ᴴ with M = R (g of R)ᴴ - Gᴴ Q; a wide matrix [X | Y] is the QR of X, and Qᴴ Y."""
    m, n = x.shape[-2:]
    if mode == "r":
        raise RuntimeError("linalg_qr_backward: The derivative of linalg.qr depends on Q, which is not computed when mode='r'.")
    if mode == "complete" and m > n:
        raise RuntimeError("linalg_qr_backward: The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    q, r = out
    gq, gr = g
    gq = 0 * q if gq is None else gq
    gr = 0 * r if gr is None else gr
    first = _eye(xp, r, n, min(m, n))
    rest = None
    if m < n:
        outer, r, inner = r, xp.matmul(r, first), xp.matmul(gr, first)
        gq = gq + xp.matmul(q, xp.matmul(outer, adjoint(xp, gr)) - xp.matmul(r, adjoint(xp, inner)))
        rest = xp.matmul(q, gr - xp.matmul(inner, adjoint(xp, first)))
        gr = inner
    crossed = xp.matmul(r, adjoint(xp, gr)) - xp.matmul(adjoint(xp, gq), q)
    both = xp.tril(crossed, diagonal=0) + adjoint(xp, xp.tril(crossed, diagonal=-1))
    ga = adjoint(xp, xp.solve_triangular(r, adjoint(xp, gq + xp.matmul(q, both)), upper=True, unitriangular=False))
    return ga if rest is None else xp.matmul(ga, adjoint(xp, first)) + rest


def _qr_text(x, *, mode):
    text = f"jnp.linalg.qr({x}, mode={mode!r})"
    return text if mode != "r" else f"(jnp.zeros(0, {x}.dtype), {text})"  # JAX gives R alone


row(
    "qr", "x / mode", _qr, (_qr_rule,), saves="out", policy="each", type=qr_type, outputs=2, complex="own", display="LinalgQrBackward0",
    jax=_qr_text,
)  # fmt: skip

# --- pseudo-inverse


def pinv_type(x: Any, rtol: Any) -> Meta:
    require_matrix("linalg.pinv", x)
    return Meta((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv(x, rtol):
    require_matrix("linalg.pinv", x)
    return np.linalg.pinv(x, rcond=rtol)


def _pinv_rule(xp, g, out, x, rtol):
    """Golub and Pereyra, 1973, equation 4.12; in the order that keeps the products small."""
    product: Callable[..., Any] = xp.matmul
    gh, outh = adjoint(xp, g), adjoint(xp, out)
    if x.shape[-2] <= x.shape[-1]:
        k = product(gh, out)
        kp = product(k, outh)
        return kp - adjoint(xp, product(out, k)) - product(product(x, out), kp) + product(product(outh, out), gh - product(k, x))
    k = product(out, gh)
    pk = product(outh, k)
    return pk - adjoint(xp, product(k, out)) + product(product(gh - product(x, k), out), outh) - product(product(pk, out), x)


row(
    "pinv", "x rtol", _pinv, (_pinv_rule, None), saves="out x", policy="each", type=pinv_type, complex="own",
    display="LinalgPinvBackward0", jax=lambda x, rtol: f"jnp.linalg.pinv({x}, rtol={rtol})",
)  # fmt: skip
