"""Public reductions, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from symgrad import dtypes, return_types
from symgrad.dispatch import tensors as ops
from symgrad.escapes import before_escape, option
from symgrad.functional.names import method, public
from symgrad.functional.norms import matrix_norm
from symgrad.functional.sorting import along, in_type
from symgrad.ops.foreign import class_name
from symgrad.ops.promotion import kind
from symgrad.ops.reduction import axes_of
from symgrad.tensor import Tensor
from symgrad.typing import Dims

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "nanmean", "nansum",
    "norm", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip


def axes(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions as a sorted tuple; PyTorch's error for what is no dimension."""
    if dim is None or dim.__class__ is int:
        return axes_of(dim, ndim)
    if isinstance(dim, (tuple, list)):
        if not _integers(dim):
            raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, but found element of type {_odd(dim)}")
    elif isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: argument 'dim' must be int or tuple of ints, not {class_name(dim)}"
        )
    else:
        dim = dim.__index__()
    return axes_of(dim, ndim)


def _integers(dims: Any) -> bool:
    return not [d for d in dims if not hasattr(d, "__index__")]


def _odd(dims: Any) -> str:
    return str(next(d.__class__.__name__ for d in dims if not hasattr(d, "__index__")))


def one_axis(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """All dimensions (None) or a single one, for functions that take no more."""
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"{name}() received an invalid combination of arguments: argument 'dim' must be int, not {dim.__class__.__name__}")
    return axes(name, dim, ndim)


def _require_inexact(input: Tensor, message: str) -> None:
    if input._array.dtype.kind in "biu":
        raise RuntimeError(message.format(dtypes.type_word(input._array.dtype)))


@method
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over all elements, or over the dimensions `dim`; booleans and integers are summed in int64."""
    if dtype is None:
        return ops.sum(input, axis=axes("sum", dim, input._array.ndim), keepdims=keepdim)
    return in_type(ops.sum(in_type(input, dtype), axis=axes("sum", dim, input._array.ndim), keepdims=keepdim), dtype)


@method
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Average over all elements, or over the dimensions `dim`."""
    input = in_type(input, dtype)
    _require_inexact(
        input, "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}"
    )
    return ops.mean(input, axis=axes("mean", dim, input._array.ndim), keepdims=keepdim)


@method
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product of all elements, or along one dimension."""
    result = ops.prod(in_type(input, dtype), axis=one_axis("prod", dim, input._array.ndim), keepdims=keepdim)
    return in_type(result, dtype)


@method
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum in which NaN counts as zero."""
    _refuse_complex("nansum", input)
    result = ops.nansum(in_type(input, dtype), axis=axes("nansum", dim, input._array.ndim), keepdims=keepdim)
    return in_type(result, dtype)


@method
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Average of what is not NaN."""
    _require_inexact(input, "nanmean(): expected input to have floating point or complex dtype but got {}")
    if dtype is not None and kind(dtypes.numpy_type(dtype)) not in "fc":
        raise RuntimeError(f"nanmean(): expected dtype to be a floating point or complex type, got {dtype}")
    axis = axes("nanmean", dim, input._array.ndim)
    return nansum(input, dim, keepdim, dtype=dtype) / ops.sum(ops.eq(input, input), axis=axis, keepdims=keepdim)


def _refuse_complex(name: str, input: Tensor) -> None:
    if input._array.dtype.kind == "c":
        raise NotImplementedError(f"{name}(): does not support complex input")


@method
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Largest value; equal ones share the gradient."""
    _refuse_complex("amax", input)
    return ops.amax(input, axis=axes("amax", dim or None if dim.__class__ is tuple else dim, input._array.ndim), keepdims=keepdim)


@method
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Smallest value; equal ones share the gradient."""
    _refuse_complex("amin", input)
    return ops.amin(input, axis=axes("amin", dim or None if dim.__class__ is tuple else dim, input._array.ndim), keepdims=keepdim)


@method
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> return_types.aminmax:
    """Smallest and largest value."""
    return return_types.aminmax(*ops.aminmax(input, axis=one_axis("aminmax", dim, input._array.ndim), keepdims=keepdim))


@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = ...) -> return_types.max: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
@method
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Largest of all elements; with `dim` values and indices along it; of two tensors, the larger at each place."""
    return _extreme("max", return_types.max, input, dim, keepdim, other)


@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = ...) -> return_types.min: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
@method
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Smallest of all elements; with `dim` values and indices along it; of two tensors, the smaller at each place."""
    return _extreme("min", return_types.min, input, dim, keepdim, other)


def _extreme(name: str, pair: Any, input: Tensor, dim: Any, keepdim: bool, other: Any) -> Any:
    if isinstance(dim, Tensor):
        dim, other = None, dim
    if keepdim and dim is None:
        raise TypeError(f"{name}() received an invalid combination of arguments: keepdim needs a dim")
    if other is not None:
        return getattr(ops, f"{name}imum")(input, other)
    _refuse_complex(name, input)
    if dim is None:
        return getattr(ops, f"{name}_all")(input, axis=axes_of(None, input._array.ndim), keepdims=False)
    one_axis(name, dim, input._array.ndim)
    return pair(*along(getattr(ops, f"{name}_along"), input, dim, keepdims=keepdim))


@method
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element: along `dim`, or in the flattened tensor."""
    return _index("argmax", input, dim, keepdim)


@method
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element: along `dim`, or in the flattened tensor."""
    return _index("argmin", input, dim, keepdim)


def _index(name: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if input._array.dtype.kind in "bc":
        raise RuntimeError(f"{name}(): does not support {'bool' if input._array.dtype.kind == 'b' else 'complex'} input")
    return getattr(ops, name)(input, axis=one_axis(name, dim, input._array.ndim), keepdims=keepdim)  # type: ignore[no-any-return]


@method
def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether every element is true (not zero)."""
    return ops.all(input, axis=axes("all", dim, input._array.ndim), keepdims=keepdim)


@method
def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether some element is true (not zero)."""
    return ops.any(input, axis=axes("any", dim, input._array.ndim), keepdims=keepdim)


@method
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not zero."""
    return ops.count_nonzero(input, axis=axes("count_nonzero", dim, input._array.ndim), keepdims=False)


@method
def logsumexp(input: Tensor, dim: int | tuple[int, ...] | list[int], keepdim: bool = False) -> Tensor:
    """log(sum(exp(input))), without overflow."""
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' must be tuple of ints, not NoneType")
    return ops.logsumexp(input, axis=axes("logsumexp", dim, input._array.ndim), keepdims=keepdim)


def _spread(
    name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Any:
    """var, std and their pairs with the mean, called as (unbiased), (dim, unbiased, keepdim) or (dim, *, correction, keepdim)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: give `unbiased` or `correction`, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif not isinstance(correction, (int, float, np.integer, np.floating)):
        given = correction.__class__.__name__
        raise TypeError(f"{name}() received an invalid combination of arguments: 'correction' must be Number, not {given}")
    subject = "std and var" if name in ("std", "var") else name
    _require_inexact(input, f"{subject} only support floating point and complex dtypes")
    return getattr(ops, name)(input, axis=axes(name, dim, input._array.ndim), correction=correction, keepdims=keepdim)


@method
def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Variance: squared distances from the mean, summed, over (count - correction)."""
    return _spread("var", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


@method
def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """Standard deviation, the square root of `var`."""
    return _spread("std", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


@public
def var_mean(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    return _spread("var_mean", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


@public
def std_mean(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    return _spread("std_mean", input, dim, unbiased, keepdim, correction)  # type: ignore[no-any-return]


def vector_norm(input: Tensor, ord: float, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    input = in_type(input, dtype)
    _require_inexact(input, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}")
    return ops.vector_norm(input, ord=ord, axis=axes("norm", dim, input._array.ndim), keepdims=keepdim)


def _check_order(p: Any) -> None:
    if isinstance(p, Tensor):
        before_escape(p, option("p", "norm"))
    if p is not None and not isinstance(p, (int, float)):
        raise TypeError(f"norm(): argument 'p' must be Number, not {p.__class__.__name__}")


@method
def norm(input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Vector norm of order `p` over `dim` ("fro" is 2), or with "nuc" the nuclear norm of matrices."""
    if not isinstance(p, str):
        _check_order(p)
        return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype)
    if p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    dims = (dim,) if isinstance(dim, int) else dim
    if dims is not None and (len(dims) > 2 or (p == "nuc" and len(dims) != 2)):
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(input, 2, dim, keepdim, dtype)
