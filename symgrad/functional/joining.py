"""Public functions that join tensors and cut them, with PyTorch's signatures."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from symgrad.coercion import tensor_list
from symgrad.dispatch import tensors as ops
from symgrad.functional.names import METHODS, method, public
from symgrad.functional.shaping import atleast_1d, atleast_2d, atleast_3d, reshape
from symgrad.ops.joining import region, split_type
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor

__all__ = [
    "cat", "chunk", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack", "row_stack", "split", "stack",
    "tensor_split", "unbind", "vsplit", "vstack",
]  # fmt: skip


def _listed(name: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {tensors.__class__.__name__}")
    if not tensors:
        raise (ValueError if name == "cat" else RuntimeError)(f"torch.{name}(): expected a non-empty list of Tensors")
    return tensor_list(name, tensors)


@public
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along an existing dimension. A tensor of shape (0,) is skipped, whatever the others' shapes."""
    given = _listed("cat", tensors)
    for i, t in enumerate(given):
        if not t._array.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [t for t in given if t._array.shape != (0,)] or given[:1]
    return ops.cat(*kept, axis=normalize_axis(dim, kept[0]._array.ndim))


@public
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along a new dimension."""
    given = _listed("stack", tensors)
    return ops.stack(*given, axis=normalize_axis(dim, given[0]._array.ndim + 1))


@public
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along dimension 1, vectors along dimension 0."""
    given = [atleast_1d(t) for t in _listed("hstack", tensors)]
    return cat(given, 0 if given[0].ndim == 1 else 1)


@public
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other, vectors as rows."""
    return cat([atleast_2d(t) for t in _listed("vstack", tensors)], 0)


@public
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other, along the third dimension."""
    return cat([atleast_3d(t) for t in _listed("dstack", tensors)], 2)


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Vectors become columns."""
    return hstack([t if t.ndim > 1 else reshape(t, t._array.size, 1) for t in _listed("column_stack", tensors)])


@method
def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of pieces of the given size (the last may be smaller) or sizes."""
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = normalize_axis(dim, len(shape))
    if isinstance(split_size_or_sections, (tuple, list)):
        pieces = tuple(split_size_or_sections)
        if any(size < 0 for size in pieces):
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(pieces)}")
        split_type(tensor._array, axis=axis, sizes=pieces)
        return ops.split_with_sizes(tensor, axis=axis, sizes=pieces)
    size, n = operator.index(split_size_or_sections), shape[axis]  # type: ignore[arg-type]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    pieces = (size,) * (n // size) + ((n % size,) if n % size else ()) if n else (0,)
    return ops.split(tensor, axis=axis, sizes=pieces)


@method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views, all but the last of equal size."""
    if not input._array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = normalize_axis(dim, input._array.ndim)
    n = input._array.shape[axis]
    if not n:
        return ops.split(input, axis=axis, sizes=(0,) * chunks)
    return split(input, -(-n // chunks), axis)


@method
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of `sections` nearly equal pieces, or of the pieces between indices."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = normalize_axis(dim, len(shape))
    given = indices_or_sections.tolist() if hasattr(indices_or_sections, "tolist") else indices_or_sections
    n = shape[axis]
    if isinstance(given, (tuple, list)):
        cuts = [0, *(slice(None, int(i)).indices(n)[1] for i in given), n]
    else:
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        cuts = [i * (n // given) + min(i, n % given) for i in range(given + 1)]
    return tuple(ops.getitem(input, index=region(shape, axis, (a, max(a, b), 1))) for a, b in pairwise(cuts))


def _splitter(name: str, rank: int, axis: int) -> Any:
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.ndim < rank:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with {input.ndim} dimensions!"
            )
        along = 0 if name == "hsplit" and input.ndim == 1 else axis
        if isinstance(indices_or_sections, int) and (not indices_or_sections or input.shape[along] % indices_or_sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {along}, but the size of the dimension {input.shape[along]} is not"
                f" divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, along)

    function.__name__ = name
    function.__doc__ = f"tensor_split along dimension {axis}."
    return method(function)


hsplit, vsplit, dsplit = (_splitter(*each) for each in (("hsplit", 1, 1), ("vsplit", 2, 0), ("dsplit", 3, 2)))


@method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all elements of a dimension."""
    if not input._array.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return ops.unbind(input, axis=normalize_axis(dim, input._array.ndim))


def iterate(input: Tensor) -> Any:
    if not input._array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(input, 0))


def length(input: Tensor) -> int:
    if not input._array.ndim:
        raise TypeError("len() of a 0-d tensor")
    return len(input._array)


concat = concatenate = cat
row_stack = vstack
METHODS.update(__iter__=iterate, __len__=length)
