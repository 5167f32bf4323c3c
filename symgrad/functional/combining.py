"""Public functions that combine tensors: products and choices of elements, blocks, Vandermonde matrices, distances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.coercion import tensor_list
from symgrad.dispatch import tensors as ops
from symgrad.functional.joining import split, stack
from symgrad.functional.names import method, public
from symgrad.functional.reduction import norm
from symgrad.functional.shaping import atleast_2d, meshgrid
from symgrad.tensor import Tensor, wrap

__all__ = ["block_diag", "cartesian_prod", "combinations", "dist", "split_with_sizes", "vander"]


@method
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(ops.sub(input, other), p)


@method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of pieces of the given sizes."""
    return split(input, list(split_sizes), dim)


def _vector(x: Tensor, message: str) -> Tensor:
    if x.ndim != 1:
        raise RuntimeError(message.format(list(x.shape)))
    return x


def cartesian_prod(*tensors: Any) -> Tensor:
    """All choices of one element of each vector, as rows."""
    vectors = [_vector(t, "Expect a 1D vector, but got shape {}") for t in tensor_list("cartesian_prod", tensors)]
    grids = meshgrid(*vectors, indexing="ij")
    return vectors[0] if len(vectors) == 1 else stack([grid.reshape(grid.numel()) for grid in grids], 1)


@public
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector, in order, as rows."""
    _vector(input, "Expect a 1D vector, but got shape {}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return input.new_zeros(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input.numel()), r)), np.int64).reshape(-1, r)
    return ops.index(input, wrap(places), dims=(0,))


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one matrix, zeros elsewhere; vectors are rows."""
    given = tensor_list("block_diag", tensors)
    for i, t in enumerate(given):
        if t.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions")
    blocks = [atleast_2d(t) for t in given] or [wrap(np.zeros((1, 0), np.float32))]
    width, start, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        end = start + block.shape[1]
        rows.append(ops.pad(block, widths=((0, 0), (start, width - end)), value=0))
        start = end
    return ops.cat(*rows, axis=0)


@public
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers 0 to N - 1 of a vector as columns, the highest first unless `increasing`."""
    _vector(x, "x must be a one-dimensional tensor.")
    count = x.numel() if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    ones = x.new_ones(x.numel(), 1)
    factors = ops.cat(ones, x.unsqueeze(1).expand(x.numel(), max(count - 1, 0)), axis=1)[:, :count]
    powers = ops.cumprod(factors, axis=1, reverse=False) if count else factors
    return powers if increasing else powers.flip(1)
