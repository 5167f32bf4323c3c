"""Norms of vectors and matrices, as torch.linalg has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.dtypes import numpy_type
from symgrad.errors import require
from symgrad.functional.matrices import svdvals
from symgrad.functional.names import public
from symgrad.functional.shaping import movedim
from symgrad.ops.foreign import python_number
from symgrad.ops.linalg import require_matrix
from symgrad.ops.promotion import kind, word
from symgrad.ops.shapes import normalize_axes, normalize_axis, reduced_shape
from symgrad.tensor import Tensor
from symgrad.typing import Dims


@public
def vector_norm(x: Tensor, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(sum of abs(x)**ord) ** (1/ord) over the dimensions `dim`, by default over all elements."""
    ord = python_number(ord)
    if not isinstance(ord, (int, float)):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' (position 2) must be Number, not {ord.__class__.__name__}")
    x = _floating("linalg.vector_norm", x, dtype)
    return ops.vector_norm(x, ord=ord, axis=normalize_axes(dim, x.ndim), keepdims=keepdim)


@public
def matrix_norm(A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A norm of matrices: 'fro' (Frobenius), 'nuc' (sum of singular values), inf, -inf, 1, -1, 2 or -2."""
    A = _floating("linalg.matrix_norm", A, dtype)
    require_matrix("linalg.matrix_norm", A)
    require(len(dim) == 2, f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    rows, columns = (normalize_axis(d, A.ndim) for d in dim)
    require(rows != columns, f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return ops.vector_norm(A, ord=2, axis=(rows, columns), keepdims=keepdim)
    if ord == "nuc" or ord in (2, -2):
        return _spectral_norm(A, ord, rows, columns, keepdim)
    inf = float("inf")
    require(ord in (1, -1, inf, -inf), f"linalg.matrix_norm: Order {ord} not supported.")
    summed, compared = (columns, rows) if abs(ord) == inf else (rows, columns)
    sums = ops.sum(ops.abs(A), axis=(summed,), keepdims=keepdim)
    compared -= summed < compared and not keepdim
    return (ops.amax if ord > 0 else ops.amin)(sums, axis=(compared,), keepdims=keepdim)


def _spectral_norm(A: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    values = svdvals(movedim(A, (rows, columns), (-2, -1)))
    last = (values.ndim - 1,)
    if ord == "nuc":
        result = ops.sum(values, axis=last, keepdims=False)
    else:
        result = (ops.amax if ord > 0 else ops.amin)(values, axis=last, keepdims=False)
    shape = reduced_shape(tuple(A.shape), (rows, columns), True)
    return ops.reshape(result, shape=shape) if keepdim else result


@public
def norm(A: Tensor, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """vector_norm or matrix_norm, by the number of dimensions: without `ord`, the 2-norm of all elements as one vector."""
    if dim is not None:
        dims = [dim] if isinstance(dim, int) else list(dim)
        require(len(dims) in (1, 2), f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
        as_matrix = ord is not None and len(dims) == 2
    else:
        dims = list(range(A.ndim))
        fits = ord is None or A.ndim in (1, 2)
        require(fits, f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
        as_matrix = ord is not None and A.ndim == 2
    if as_matrix or isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if len(dims) != 2 else tuple(dims), keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


def _floating(name: str, x: Tensor, dtype: Any) -> Tensor:
    if dtype is not None:
        x = ops.cast(x, dtype=numpy_type(dtype))
    fits = kind(x._array.dtype) in "fc"
    require(fits, f"{name}: Expected a floating point or complex tensor as input. Got {word(x._array.dtype)}")
    return x
