"""Public functions that read and write at places given by tensors, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.coercion import stored
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import of, type_word
from symgrad.functional.names import METHODS, checked, method, method_inplace
from symgrad.functional.shaping import broadcast_tensors, expand
from symgrad.functional.subscript import masked_fill_, parse, put_
from symgrad.ops.indexing import check_range
from symgrad.ops.joining import region
from symgrad.ops.promotion import kind
from symgrad.ops.scattering import corner, scatter_type
from symgrad.ops.shapes import broadcast_shapes, normalize_axis
from symgrad.tensor import Tensor, wrap

__all__ = [
    "argwhere", "diagonal_scatter", "gather", "index_add", "index_copy", "index_fill", "index_put", "index_select", "masked_fill",
    "masked_scatter", "masked_select", "nonzero", "scatter", "scatter_add", "select_scatter", "slice_scatter", "take", "take_along_dim",
]  # fmt: skip


def _integers(name: str, index: Any) -> Tensor:
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}(): argument 'index' must be Tensor, not {index.__class__.__name__}")
    if index._array.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    return index


def _raised(x: Tensor) -> Tensor:
    """A tensor without dimensions as a vector of one element."""
    return x if x._array.ndim else ops.reshape(x, shape=(1,))


def _as_given(result: Tensor, like: Tensor) -> Tensor:
    return result if result._array.ndim == like._array.ndim else ops.reshape(result, shape=like._array.shape)


def _none_of(x: Tensor, dim: int, shape: tuple[int, ...]) -> Tensor:
    """No element of `x`, in a shape of size 0."""
    normalize_axis(dim, max(x._array.ndim, 1))
    empty = ops.getitem(ops.reshape(x, shape=(x._array.size,)), index=((0, 0, 1),))
    return ops.reshape(empty, shape=shape)


# --- along a dimension, with an index of the same rank --------------------------------------------------------------------


@method
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Elements of dimension `dim` at the places `index`, which may be smaller than `input` in the other dimensions."""
    _integers("gather", index)
    if not index._array.size:
        return _none_of(input, dim, index._array.shape)
    x, places = _raised(input), _raised(index)
    if x._array.ndim != places._array.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    axis = normalize_axis(dim, x._array.ndim)
    shape, wanted = x._array.shape, places._array.shape
    for d, (n, m) in enumerate(zip(shape, wanted, strict=True)):
        if d != axis and m > n:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(wanted)} to be no larger than self {list(shape)} apart from"
                f" dimension {axis}"
            )
    check_range(places._array, shape[axis], axis, RuntimeError)
    part = corner(places._array, x._array, axis)
    if any(stop != n for (_, stop, _), n in zip(part, shape, strict=True)):
        x = ops.getitem(x, index=part)
    return _as_given(ops.take_along(x, places, axis=axis), index)


def _scatter(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    _integers(name, index)
    if isinstance(src, Tensor) and src._array.dtype != input._array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    x, places = _raised(input), _raised(index)
    axis = normalize_axis(dim, x._array.ndim)
    if isinstance(src, Tensor):
        src = _raised(src)
        fits = src._array.ndim == places._array.ndim
        if fits and src._array.shape != places._array.shape and all(n >= m for n, m in zip(src.shape, places.shape, strict=True)):
            src = ops.getitem(src, index=tuple((0, n, 1) for n in places._array.shape))
    if not places._array.size and {places._array.ndim, *([src.ndim] if isinstance(src, Tensor) else [])} != {x._array.ndim}:
        return input.clone()
    scatter_type(x._array, src._array if isinstance(src, Tensor) else src, places._array, axis=axis)
    return _as_given(getattr(ops, name)(x, src, places, axis=axis), input)


@method_inplace
def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """`input` with the elements of `src` (or one value) at the places `index` of dimension `dim`."""
    if src is None and value is None:
        raise TypeError("scatter() received an invalid combination of arguments: src or value must be given")
    if reduce not in (None, "add"):
        raise NotImplementedError(f"scatter: reduce={reduce!r} is not supported, only 'add'")
    if isinstance(src, list):
        src = wrap(np.asarray(src, input._array.dtype))
    given = stored(value, input._array.dtype) if src is None else src if isinstance(src, Tensor) else stored(src, input._array.dtype)
    if reduce == "add" and not isinstance(given, Tensor):
        given = wrap(np.full(index._array.shape, given, input._array.dtype))
    return _scatter("scatter_add" if reduce else "scatter", input, dim, index, given)


@method_inplace
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with the elements of `src` added at the places `index` of dimension `dim`."""
    return _scatter("scatter_add", input, dim, index, src)


@method
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As gather, with `input` and `indices` broadcast in the other dimensions; without `dim` from the flat tensor."""
    _integers("take_along_dim", indices)
    if indices._array.dtype != np.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {type_word(indices._array.dtype)}")
    if dim is None:
        return gather(ops.reshape(input, shape=(input._array.size,)), 0, ops.reshape(indices, shape=(indices._array.size,)))
    if input._array.ndim != indices._array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got"
            f" {input._array.ndim} dimensions for input, and {indices._array.ndim} dimensions for indices"
        )
    axis = normalize_axis(dim, input._array.ndim)
    shape, places = list(input._array.shape), list(indices._array.shape)
    n, m = shape[axis], places[axis]
    shape[axis] = places[axis] = 1
    common = broadcast_shapes("take_along_dim", tuple(shape), tuple(places))
    x = expand(input, (*common[:axis], n, *common[axis + 1 :]))
    wrapped = ops.remainder(indices, n) if n else indices  # PyTorch counts modulo the size here
    return gather(x, axis, expand(wrapped, (*common[:axis], m, *common[axis + 1 :])))


# --- along a dimension, with a vector of places ---------------------------------------------------------------------------


def _vector(name: str, index: Tensor) -> Tensor:
    _integers(name, index)
    if index._array.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    return _raised(index)


@method
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements `index` of dimension `dim`."""
    places, x = _vector("index_select", index), _raised(input)
    axis = normalize_axis(dim, x._array.ndim)
    array = places._array
    if array.size and (array.min() < 0 or array.max() >= x._array.shape[axis]):
        raise IndexError(
            f"index out of range in self: index_select() of size {x._array.shape[axis]} at dimension {axis}, given indices from"
            f" {array.min()} to {array.max()}"
        )
    return _as_given(ops.index_select(x, places, axis=axis), input)


def _check_source(name: str, shape: tuple[int, ...], given: tuple[int, ...], count: int, axis: int) -> None:
    """`count` slices of the target's shape, no others: nothing is broadcast."""
    copies = name == "index_copy"
    if len(given) != len(shape) and copies:
        raise IndexError(
            f"{name}_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality"
            f" ({len(given)}), destination dimensionality ({len(shape)})"
        )
    if len(given) != len(shape) or (*given[:axis], *given[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
        raise RuntimeError(
            f"{name}_(): source tensor shape must match self tensor shape, excluding the specified dimension {axis}. Got self.shape ="
            f" {list(shape)} source.shape = {list(given)}"
        )
    if given[axis] != count:
        error = IndexError if copies else RuntimeError
        raise error(f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({given[axis]}), for dim: {axis}")


def _along(name: str, input: Tensor, dim: int, index: Tensor, source: Any) -> Tensor:
    if source is None:
        raise TypeError(f"{name}(): argument '{'value' if name == 'index_fill' else 'source'}' must not be None")
    places, x = _vector(name, index), _raised(input)
    axis = normalize_axis(dim, x._array.ndim)
    if isinstance(source, Tensor) and name != "index_fill":
        if source._array.dtype != input._array.dtype:
            raise RuntimeError(
                f"{name}_(): self and source expected to have the same dtype, but got (self) {input.dtype} and (source) {source.dtype}"
            )
        source = _raised(source)
        _check_source(name, x._array.shape, source._array.shape, len(places._array), axis)
    check_range(places._array, x._array.shape[axis], axis, RuntimeError)
    return _as_given(getattr(ops, name)(x, source, places, axis=axis), input)


@method_inplace
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with alpha * source added at the elements `index` of dimension `dim`."""
    return _along("index_add", input, dim, index, source if alpha == 1 else ops.mul(source, alpha))


@method_inplace
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with `source` at the elements `index` of dimension `dim`."""
    return _along("index_copy", input, dim, index, source)


@method_inplace
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with one value at the elements `index` of dimension `dim`."""
    if isinstance(value, Tensor) and value._array.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim} dimension(s)."
        )
    if isinstance(value, complex) and kind(input._array.dtype) != "c":
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if value is None:
        raise TypeError("index_fill(): argument 'value' must be Number or Tensor, not NoneType")
    return _along("index_fill", input, dim, index, stored(value, input._array.dtype))


# --- any places -----------------------------------------------------------------------------------------------------------


def _match(input: Tensor, values: Tensor) -> None:
    if values._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {type_word(input._array.dtype)} for the destination and"
            f" {type_word(values._array.dtype)} for the source."
        )


@method
def index_put(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `values` at (or added at) `input[indices]`."""
    _match(input, values)
    parsed = parse(tuple(indices), input._array.shape)
    return ops.index_put(input, values, *parsed.arrays, dims=parsed.dims, accumulate=accumulate)


@checked
def index_put_(self: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """In-place form of `index_put`."""
    _match(self, values)
    parsed = parse(tuple(indices), self._array.shape)
    return put_(self, parsed.arrays, parsed.dims, values, accumulate)


@method
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flat tensor, in the shape of `index`."""
    if index._array.dtype.kind not in "iu":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {type_word(index._array.dtype)}")
    size, array = input._array.size, index._array
    if array.size and (array.min() < -size or array.max() >= size):
        bad = int(array.max() if array.max() >= size else array.min())
        raise IndexError(f"out of range: tried to access index {bad} on a tensor of {size} elements.")
    return ops.index(ops.reshape(input, shape=(size,)), index, dims=(0,))


# --- masks ----------------------------------------------------------------------------------------------------------------


def _check_fill(mask: Tensor, value: Any) -> None:
    if mask._array.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {of(mask._array.dtype)}")
    if isinstance(value, Tensor) and value._array.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim} dimension(s)."
        )
    if value is None:
        raise TypeError("masked_fill(): argument 'value' must be Number or Tensor, not NoneType")


@method
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with one value where the mask is true."""
    _check_fill(mask, value)
    return ops.masked_fill(input, mask, stored(value, input._array.dtype))


@checked
def masked_fill_in_place(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """In-place form of `masked_fill`."""
    _check_fill(mask, value)
    if broadcast_shapes("masked_fill_", self._array.shape, mask._array.shape) != self._array.shape:
        raise RuntimeError(
            f"output with shape {list(self._array.shape)} doesn't match the broadcast shape {list(mask._array.shape)}"
        )
    return masked_fill_(self, mask, stored(value, self._array.dtype))


@method
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask is true, as a vector."""
    if mask._array.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    x, where = broadcast_tensors(input, mask)
    parsed = parse(where, x._array.shape)
    if not x._array.ndim:
        x = ops.reshape(x, shape=(1,))
    return ops.index(x, *parsed.arrays, dims=parsed.dims)


@method_inplace
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the first elements of `source`, one after the other, where the mask is true."""
    if mask._array.dtype.kind != "b":
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {of(mask._array.dtype)}")
    if source._array.dtype != input._array.dtype:
        raise RuntimeError("masked_scatter_: expected self and source to have same dtypes")
    x, where = broadcast_tensors(input, mask)
    parsed = parse(where, x._array.shape)
    count = parsed.arrays[0]._array.size
    if source._array.size < count:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    values = ops.getitem(ops.reshape(source, shape=(source._array.size,)), index=((0, count, 1),))
    result = ops.index_put(_raised(x), values, *parsed.arrays, dims=parsed.dims, accumulate=False)
    return _as_given(result, x)


@method
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Places of the elements that are not zero: one row each, or with `as_tuple` one vector for each dimension."""
    if as_tuple and not input._array.ndim:
        input = ops.reshape(input, shape=(1,))
    found = ops.nonzero(input)
    if not as_tuple:
        return found
    return tuple(ops.getitem(found, index=((0, len(found._array), 1), i)) for i in range(input._array.ndim))


@method
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not 0, one row for each."""
    return ops.nonzero(input)


# --- a region replaced ----------------------------------------------------------------------------------------------------


def _replaced(input: Tensor, src: Tensor, row: str, **attrs: Any) -> Tensor:
    place = ((row, tuple(attrs.items())),)
    wanted = getattr(ops, row)(input, **attrs)._array.shape
    if src._array.shape != wanted:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(wanted)}"
        )
    source = src if src._array.dtype == input._array.dtype else ops.cast(src, dtype=input._array.dtype)
    return ops.view_write(input, source, path=place)


@method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """`input` with `src` as element `index` of dimension `dim`."""
    axis = normalize_axis(dim, input._array.ndim)
    place = range(input._array.shape[axis])[index]
    return _replaced(input, src, "getitem", index=region(input._array.shape, axis, place))


@method
def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """`input` with `src` in place of a slice of dimension `dim`."""
    axis = normalize_axis(dim, input._array.ndim)
    places = slice(start, end, step).indices(input._array.shape[axis])
    return _replaced(input, src, "getitem", index=region(input._array.shape, axis, places))


@method
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`input` with `src` as a diagonal."""
    axis1, axis2 = (normalize_axis(d, input._array.ndim) for d in (dim1, dim2))
    return _replaced(input, src, "diagonal", offset=offset, axis1=axis1, axis2=axis2)


METHODS.update(index_put_=index_put_, masked_fill_=masked_fill_in_place)
