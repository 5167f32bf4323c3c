"""Public functions that copy elements into another order or among zeros, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.dispatch import tensors as ops
from symgrad.escapes import REPEATS, before_escape
from symgrad.functional.names import METHODS, method, method_inplace
from symgrad.functional.shaping import diagonal, expand, flatten, reshape, sizes, transpose, unsqueeze
from symgrad.mode import local
from symgrad.ops.shapes import integer, normalize_axis
from symgrad.tensor import Tensor, wrap

__all__ = [
    "clone", "diag", "diag_embed", "diagflat", "flip", "fliplr", "flipud", "repeat_interleave", "roll", "rot90", "tile", "tril", "triu",
]  # fmt: skip


@method
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy, recorded."""
    return ops.clone(input)


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself if its elements lie in C order, else a copy of it that does."""
    return input if input._array.flags.c_contiguous else clone(input)


@method
def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The elements in reverse order along the dimensions `dims`."""
    axes = tuple(normalize_axis(d, input._array.ndim) for d in sizes(dims, named, "dims"))
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"dim {next(a for a in axes if axes.count(a) > 1)} appears multiple times in the list of dims")
    return ops.flip(input, axes=axes if input._array.ndim else ())


@method
def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@method
def flipud(input: Tensor) -> Tensor:
    """The rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@method
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k times 90 degrees, from the first of `dims` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (normalize_axis(d, input.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = integer("k", k, "rot90") % 4
    if turns == 0:
        return clone(input)
    if turns == 2:
        return flip(input, first, second)
    return transpose(flip(input, second), first, second) if turns == 1 else flip(transpose(input, first, second), second)


@method
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved on, those that leave at the end enter at the start; without `dims` as if the tensor were flat."""
    moves = tuple(integer("shifts", shift, "roll") for shift in (shifts if isinstance(shifts, (tuple, list)) else (shifts,)))
    given = () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if given and len(moves) != len(given):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(given)}")
    if not given and len(moves) != 1:
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:0")
    if given and not input._array.ndim:
        raise IndexError(f"roll: Dimension specified as {given[0]} but tensor has no dimensions")
    axes = tuple(normalize_axis(d, input._array.ndim) for d in given)
    return ops.roll(input, shifts=moves, axes=axes)


def repeat(input: Tensor, *repeats: Any, **named: Any) -> Tensor:
    """Copies side by side along each dimension."""
    reps = tuple(int(r) for r in sizes(repeats, named, "repeats"))
    if len(reps) < input._array.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(r < 0 for r in reps):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(reps)}: {list(reps)}")
    return ops.tile(input, reps=reps)


@method
def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """As repeat, but dimensions may be left out on the left."""
    reps = tuple(sizes(dims, named, "dims"))
    return repeat(input, (1,) * (input._array.ndim - len(reps)) + reps)


@method
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element of a dimension repeated, by one number or by a number of its own."""
    result = _interleaved(input, repeats, dim)
    axis = 0 if dim is None else normalize_axis(dim, input._array.ndim)
    if output_size is not None and integer("output_size", output_size, "repeat_interleave") != result._array.shape[axis]:
        raise RuntimeError(f"repeat_interleave: output_size is {output_size}, but the repeats add up to {result._array.shape[axis]}")
    return result


def _interleaved(input: Tensor, repeats: Any, dim: int | None) -> Tensor:
    if dim is None:
        input, dim = flatten(input), 0
    axis = normalize_axis(dim, input._array.ndim)
    n = input._array.shape[axis]
    if isinstance(repeats, Tensor) and local.mode.capture is not None and repeats._array.ndim == 1 and repeats._array.size == n > 1:
        return _repeated(input, repeats, axis)
    if isinstance(repeats, Tensor):
        before_escape(repeats, REPEATS)
    counts = repeats._array if isinstance(repeats, Tensor) else np.asarray(repeats)
    if counts.dtype.kind not in "iu":
        error = RuntimeError if isinstance(repeats, Tensor) else TypeError
        raise error(f"repeat_interleave(): repeats must be integers, got {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if counts.ndim == 0 or counts.size == 1:
        shape, times = input._array.shape, int(counts.reshape(()))
        copies = expand(unsqueeze(input, axis + 1), (*shape[: axis + 1], times, *shape[axis + 1 :]))
        return reshape(copies, (*shape[:axis], n * times, *shape[axis + 1 :]))
    if counts.ndim > 1 or counts.size != n:
        raise RuntimeError("repeats must have the same size as input along dim, but got repeats.size(0) ="
                           f" {counts.size} and input.size({axis}) = {n}")  # fmt: skip
    index = wrap(np.repeat(np.arange(n), counts))
    return ops.index_select(input, index, axis=axis)


def _repeated(input: Tensor, repeats: Tensor, axis: int) -> Tensor:
    """Each element as often as its own number says, with the total as the only thing that Python learns: for programs."""
    if bool(ops.any(ops.lt(repeats, 0), axis=(0,), keepdims=False)):
        raise RuntimeError("repeats can not be negative")
    whole, n = np.dtype(np.int64), repeats._array.size
    ends = ops.cumsum(repeats, axis=0, reverse=False)
    total = int(ops.sum(repeats, axis=(0,), keepdims=False))
    ones = ops.cast(ops.eq(repeats, repeats), dtype=whole)
    ended = ops.scatter_along(ones, ops.minimum(ops.cast(ends, dtype=whole), total), axis=0, size=total + 1)
    ended = ops.cumsum(ended, axis=0, reverse=False)
    index = ops.minimum(ops.getitem(ended, index=((0, total, 1),)), n - 1)
    return ops.index_select(input, index, axis=axis)


@method_inplace
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros above a diagonal."""
    if input._array.ndim < 2:
        raise RuntimeError("tril: input tensor must have at least 2 dimensions")
    return ops.tril(input, diagonal=integer("diagonal", diagonal, "tril"))


@method_inplace
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Zeros below a diagonal."""
    if input._array.ndim < 2:
        raise RuntimeError("triu: input tensor must have at least 2 dimensions")
    return ops.triu(input, diagonal=integer("diagonal", diagonal, "triu"))


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of `input` as diagonals, in dimensions `dim1` and `dim2` of the result."""
    shape = input._array.shape
    axis1, axis2 = normalize_axis(dim1, len(shape) + 1), normalize_axis(dim2, len(shape) + 1)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side, rest = shape[-1] + abs(offset), iter(shape[:-1])
    full = tuple(side if i in (axis1, axis2) else next(rest) for i in range(len(shape) + 1))
    return ops.diag_embed(input, shape=full, offset=offset, axis1=axis1, axis2=axis2)


@method
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or a copy of a matrix' diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return clone(_diagonal(input, diagonal))


_diagonal = diagonal


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the elements of the input, flattened, on a diagonal."""
    return diag_embed(flatten(input), offset)


def reverse(input: Tensor) -> Tensor:
    """reversed(x): the last element of dimension 0 first."""
    return flip(input, 0) if input._array.ndim else input


METHODS.update(contiguous=contiguous, repeat=repeat, __reversed__=reverse)
