"""numpy.linalg on tensors: adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional, linalg
from symgrad.interop.operands import floating, given, option, pair, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor

_RESULTS: dict[str, Any] = {name: type(getattr(np.linalg, name)(np.eye(1))) for name in ("eig", "eigh", "qr", "slogdet", "svd")}
"""NumPy's named tuples."""


def _plain(name: str) -> Callable[..., Any]:
    def adapter(a: Any) -> Any:
        return getattr(linalg, name)(floating(a))

    return adapter


for _name in ("det", "inv", "svdvals"):
    implements(getattr(np.linalg, _name))(_plain(_name))


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return _RESULTS["slogdet"](*linalg.slogdet(floating(a)))


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    return linalg.solve(*map(floating, pair(a, b)))


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    lower = linalg.cholesky(floating(a))
    return lower.mH if upper else lower


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
    return linalg.matrix_power(floating(a), n)


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return linalg.norm(floating(x), ord=ord, dim=axis, keepdim=keepdims)


@implements(np.linalg.vector_norm)
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    if axis == ():
        raise option("numpy.linalg.vector_norm", "does not take axis=()")
    return linalg.vector_norm(floating(x), ord, dim=axis, keepdim=keepdims)


@implements(np.linalg.matrix_norm)
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return linalg.matrix_norm(floating(x), ord, keepdim=keepdims)


@implements(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if hermitian:
        raise option("numpy.linalg.svd", "takes no hermitian=True: use numpy.linalg.eigh")
    if not compute_uv:
        return linalg.svdvals(floating(a))
    return _RESULTS["svd"](*linalg.svd(floating(a), full_matrices=full_matrices))


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "raw":
        raise option("numpy.linalg.qr", "takes no mode='raw'")
    found = linalg.qr(floating(a), mode=mode)
    return found[1] if mode == "r" else _RESULTS["qr"](*found)


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:
    return _RESULTS["eigh"](*linalg.eigh(floating(a), UPLO))


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return linalg.eigvalsh(floating(a), UPLO)


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    x = floating(a)
    values, vectors = linalg.eig(x)
    return _RESULTS["eig"](*((values.real, vectors.real) if _are_real(x, values) else (values, vectors)))


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Any:
    x = floating(a)
    values = linalg.eigvals(x)
    return values.real if _are_real(x, values) else values


def _are_real(x: Tensor, values: Tensor) -> bool:
    """Whether all eigenvalues of a real matrix are real: NumPy then gives real numbers. A guard."""
    return not x.is_complex() and bool((values.imag == 0).all())


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    x = floating(a)
    cutoff = rcond if rcond is not None else rtol if given(rtol) else None
    eps = np.finfo(x._array.dtype).eps
    if cutoff is None:
        cutoff = max(x.shape[-2:]) * eps if rtol is None else 1e-15
    return linalg.pinv(_hermitian(x) if hermitian else x, rtol=cutoff, hermitian=hermitian)


def _hermitian(x: Tensor) -> Any:
    """The matrix whose lower half is given, which is all that NumPy reads."""
    return functional.tril(x) + functional.tril(x, -1).mH


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    x = floating(x)
    if p is None or p in (2, -2):
        s = linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return _norm(x, p, (-2, -1)) * _norm(linalg.inv(x), p, (-2, -1))


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    x = floating(A)
    if x.ndim < 2:
        return functional.any(x != 0).long()
    s = linalg.eigvalsh(x).abs() if hermitian else linalg.svdvals(x)
    rtol = None if rtol is None else tensor(rtol).unsqueeze(-1)
    if tol is not None:
        tol = tensor(tol).unsqueeze(-1)
    else:
        tol = functional.amax(s, -1, True) * (max(x.shape[-2:]) * np.finfo(x._array.dtype).eps if rtol is None else rtol)
    return (s > tol).sum(-1)


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The pseudo-inverse gives the solution; whether there are residuals depends on the rank, which is a guard."""
    x, y = map(floating, pair(a, b))
    columns = y.unsqueeze(-1) if y.ndim == 1 else y
    rcond = np.finfo(x._array.dtype).eps * (max(x.shape) if rcond is None else 1) if rcond in (None, -1) else rcond
    s = linalg.svdvals(x)
    rank = (s > rcond * s[0]).sum()
    found = linalg.pinv(x, rtol=rcond) @ columns
    full = x.shape[0] > x.shape[1] and bool(rank == x.shape[1])
    residuals = (columns - x @ found).abs().square().sum(0) if full else s[:0]
    return found.squeeze(-1) if y.ndim == 1 else found, residuals, rank, s


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Any:
    return linalg.multi_dot([floating(x) for x in arrays])


@implements(np.outer)
def _flat_outer(a: Any, b: Any) -> Any:
    return functional.outer(*(t.reshape(-1) for t in pair(a, b)))


@implements(np.linalg.outer)
def _outer(x1: Any, x2: Any, /) -> Any:
    return functional.outer(*pair(x1, x2))


@implements(np.linalg.tensordot)
def _tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return functional.tensordot(*pair(x1, x2), dims=axes)


@implements(np.linalg.cross)
def _cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x, y = functional.broadcast_tensors(*pair(x1, x2))
    if x.shape[axis] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors")
    return linalg.cross(x, y, dim=axis)


@implements(np.linalg.matmul)
def _matmul(x1: Any, x2: Any, /) -> Any:
    x, y = pair(x1, x2)
    return x @ y


@implements(np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return linalg.vecdot(*map(floating, pair(x1, x2)), dim=axis)


@implements(np.linalg.diagonal)
def _diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return functional.diagonal(tensor(x), offset, -2, -1)


@implements(np.linalg.trace)
def _trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _plain_trace(x, offset, -2, -1, dtype)


@implements(np.trace)
def _plain_trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    found = functional.diagonal(tensor(a), offset, axis1, axis2)
    return np.add.reduce(found, axis=-1, dtype=dtype)


@implements(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Any:
    x = floating(a)
    front, behind = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    return linalg.inv(x.reshape(int(np.prod(front)), -1)).reshape(behind + front)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, y = map(floating, pair(a, b))
    if axes is not None:
        x = functional.movedim(x, tuple(axes), tuple(range(x.ndim - len(axes), x.ndim)))
    shape = tuple(x.shape[y.ndim :])
    return linalg.solve(x.reshape(-1, int(np.prod(shape))), y.reshape(-1)).reshape(shape)
