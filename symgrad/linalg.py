"""torch.linalg: norms, and the functions of matrices. Everything takes batches: the last two dimensions are the matrix.

`solve`, `matmul`, `det`, `slogdet` and `diagonal` also take a structured matrix, and use its structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from symgrad.dispatch import tensors as ops
from symgrad.errors import LinAlgError as LinAlgError, require
from symgrad.functional.contraction import matmul as _matmul, multi_dot as _multi_dot, vector_product
from symgrad.functional.einsum import einsum
from symgrad.functional.matrices import (
    cholesky as cholesky,
    det as _det,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    inv as inv,
    linalg_slogdet,
    matrix_power as _matrix_power,
    pinv as pinv,
    qr as qr,
    solve as _solve,
    solve_triangular as solve_triangular,
    svd as svd,
    svdvals as svdvals,
)
from symgrad.functional.names import public
from symgrad.functional.norms import matrix_norm as matrix_norm, norm as norm, vector_norm as vector_norm
from symgrad.functional.shaping import broadcast_tensors, diagonal as _diagonal, movedim
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import broadcast_shapes, normalize_axis
from symgrad.return_types import linalg_slogdet as _SlogdetResult
from symgrad.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "vecdot", "vector_norm",
]  # fmt: skip


P = ParamSpec("P")
R = TypeVar("R")


def _or_structured(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, or for a structured matrix its method of the same name."""
    name = function.__name__

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and getattr(args[0].__class__, "is_structured_matrix", False):
            found: R = getattr(args[0], name)(*args[1:], **kwargs)
            return found
        return function(*args, **kwargs)

    return call


solve = _or_structured(_solve)
matmul = _or_structured(_matmul)


@_or_structured
@public
def det(A: Tensor) -> Tensor:
    """The determinants of square matrices; differentiable twice at singular ones, too."""
    return _det(A)


@_or_structured
@public
def slogdet(A: Tensor) -> _SlogdetResult:
    """Signs, and logarithms of the absolute values, of determinants."""
    return linalg_slogdet(A)


@public
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; of their inverses if n is negative."""
    return _matrix_power(A, n)


@public
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, in the order that costs least; the first and the last may be vectors."""
    return _multi_dot(tensors)


@_or_structured
@public
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices."""
    return _diagonal(A, offset, dim1, dim2)


@public
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along a dimension of size 3."""
    return vector_product(input, other, dim)


@public
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of conj(x) * y along a dimension."""
    types = word(x._array.dtype), word(y._array.dtype)
    found = f"found x of type {types[0]} and y of type {types[1]} instead"
    require(types[0] == types[1], f"linalg.vecdot: Expected x and y to have the same dtype, but {found}")
    floats = kind(x._array.dtype) in "fc"
    require(floats, f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {types[0]}")
    shape = broadcast_shapes("linalg.vecdot", tuple(x.shape), tuple(y.shape))
    if x.ndim != y.ndim:
        x, y = broadcast_tensors(x, y)
    axis = normalize_axis(dim, len(shape)) - len(shape)
    if x._array.dtype.kind == "c":
        x = ops.conj(x)
    return einsum("...i,...i->...", *(movedim(t, axis, -1) if axis != -1 else t for t in (x, y)))


def __dir__() -> list[str]:
    return __all__
