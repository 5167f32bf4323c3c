"""Rows of kernels for linear systems: LU decompositions that several rows share, and systems of positive definite matrices.

They are in no table: the pass `solve` makes them after differentiation, so they have no derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.complexes import real_type_of
from symgrad.ops.linalg import solve_type
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE
from symgrad.typing import Array

_INT32 = np.dtype(np.int32)
_ONE = "lambda l, p, r: jax.scipy.linalg.lu_solve((l, p), r, trans={trans})"


def _row(name: str, args: str, kernel: Any, type: Any, jax: Any, attrs: tuple[str, ...] = (), outputs: int = 1) -> Row:
    names = tuple(args.split())
    nothing = (None,) * len(names)
    return Row(name, names, kernel, nothing, (frozenset[str](),) * len(names), "each", type, jax=jax, attrs=attrs, outputs=outputs)


def _lu_factor(x: Array) -> tuple[Array, Array]:
    from scipy.linalg import lapack

    getrf = lapack.get_lapack_funcs("getrf", (x,))
    lu, pivots = np.empty_like(x), np.empty(x.shape[:-1], _INT32)
    for i in np.ndindex(*x.shape[:-2]):
        lu[i], pivots[i], _ = getrf(x[i])
    return lu, pivots


def _lu_solve(lu: Array, pivots: Array, b: Array, *, transposed: bool) -> Array:
    from scipy.linalg import lapack

    getrs = lapack.get_lapack_funcs("getrs", (lu, b))
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu, pivots = np.broadcast_to(lu, batch + lu.shape[-2:]), np.broadcast_to(pivots, batch + pivots.shape[-1:])
    out = np.array(np.broadcast_to(b, batch + b.shape[-2:]))
    for i in np.ndindex(*batch):
        out[i], _ = getrs(lu[i], pivots[i], out[i], trans=int(transposed))
    return out


def _lu_solve_in_jax(lu: str, pivots: str, b: str, *, transposed: bool) -> str:
    return f"jnp.vectorize({_ONE.format(trans=int(transposed))}, signature='(n,n),(n),(n,m)->(n,m)')({lu}, {pivots}, {b})"


def _signs(lu: Array, pivots: Array) -> tuple[Array, Array]:
    """Return the diagonal of U, and the sign of the row exchanges."""
    odd = (pivots != np.arange(pivots.shape[-1])).sum(-1) % 2
    return lu.diagonal(0, -2, -1), np.where(odd, -1, 1).astype(lu.dtype)


def _lu_det(lu: Array, pivots: Array) -> Array:
    diagonal, sign = _signs(lu, pivots)
    return np.asarray(sign * diagonal.prod(-1))


def _lu_slogdet(lu: Array, pivots: Array) -> tuple[Array, Array]:
    diagonal, sign = _signs(lu, pivots)
    return np.asarray(sign * np.sign(diagonal).prod(-1)), np.asarray(np.log(abs(diagonal)).sum(-1))


_DIAGONAL = "jnp.diagonal({lu}, axis1=-2, axis2=-1)"
_SIGN = "jnp.where(jnp.sum({pivots} != jnp.arange({pivots}.shape[-1]), -1) % 2 == 1, -1, 1).astype({lu}.dtype)"


def _lu_det_in_jax(lu: str, pivots: str) -> str:
    return f"{_SIGN} * jnp.prod({_DIAGONAL}, -1)".format(lu=lu, pivots=pivots)


def _lu_slogdet_in_jax(lu: str, pivots: str) -> str:
    sign = f"{_SIGN} * jnp.prod(jnp.sign({_DIAGONAL}), -1)"
    return f"({sign}, jnp.sum(jnp.log(jnp.abs({_DIAGONAL})), -1))".format(lu=lu, pivots=pivots)


def _solve_definite(a: Array, b: Array) -> Array:
    """By Cholesky, and by LU if rounding has made the matrix indefinite."""
    from scipy.linalg import lapack

    potrf, potrs = lapack.get_lapack_funcs(("potrf", "potrs"), (a, b))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, batch + b.shape[-2:]))
    for i in np.ndindex(*batch):
        factor, failed = potrf(np.broadcast_to(a, batch + a.shape[-2:])[i], lower=1)
        out[i] = TABLE["solve"].numpy(np.broadcast_to(a, batch + a.shape[-2:])[i], out[i]) if failed else potrs(factor, out[i], lower=1)[0]
    return out


def _solve_definite_in_jax(a: str, b: str) -> str:
    """By Cholesky, and by LU if rounding has made the matrix indefinite."""
    by_cholesky, by_lu = f"jax.scipy.linalg.cho_solve((l, True), {b})", f"jnp.linalg.solve({a}, {b})"
    factor = f"jnp.linalg.cholesky({a}, symmetrize_input=False)"
    return f"(lambda l: jax.lax.cond(jnp.isfinite(l).all(), lambda: {by_cholesky}, lambda: {by_lu}))({factor})"


LU_FACTOR = _row(
    "lu_factor", "x", _lu_factor, lambda x: (Meta(tuple(x.shape), x.dtype), Meta(tuple(x.shape[:-1]), _INT32)),
    "jax.scipy.linalg.lu_factor", outputs=2,
)  # fmt: skip
LU_SOLVE = _row(
    "lu_solve", "lu pivots b", _lu_solve, lambda lu, pivots, b, *, transposed: solve_type("linalg.solve")(lu, b), _lu_solve_in_jax,
    ("transposed",),
)  # fmt: skip
LU_DET = _row("lu_det", "lu pivots", _lu_det, lambda lu, pivots: Meta(tuple(lu.shape[:-2]), lu.dtype), _lu_det_in_jax)
LU_SLOGDET = _row(
    "lu_slogdet", "lu pivots", _lu_slogdet,
    lambda lu, pivots: (Meta(tuple(lu.shape[:-2]), lu.dtype), Meta(tuple(lu.shape[:-2]), real_type_of(np.dtype(lu.dtype)))),
    _lu_slogdet_in_jax, outputs=2,
)  # fmt: skip
SOLVE_DEFINITE = _row("solve_definite", "a b", _solve_definite, solve_type("linalg.solve"), _solve_definite_in_jax)
