"""Sums, means and maxima of rows of a table: embedding_bag, with PyTorch's signature."""

from __future__ import annotations

import math

from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.linear import embedding
from symgrad.tensor import Tensor

__all__ = ["embedding_bag"]


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows that each bag names: a row of `input`, or what stands between two offsets."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got"
            f" mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the same shape as the"
            f" input ({list(input.shape)})"
        )
    starts = _starts(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    counted = (flat != padding).unsqueeze(1)
    bags = _bag_numbers(starts, flat.numel())
    if mode == "max":
        return _largest(rows, counted, starts, bags)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    empty = weight.new_zeros(starts.numel(), weight.shape[1])
    total = empty.index_add(0, bags, ops.where(counted, rows, 0))
    if mode == "sum":
        return total
    sizes = starts.new_zeros(starts.numel(), 1).index_add(0, bags, counted.long())
    return total / sizes.clamp_min(1)


def _starts(input: Tensor, offsets: Tensor | None, include_last: bool) -> Tensor:
    """Where each bag starts in the flattened input."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However,"
                f" found offsets of type {offsets.__class__}"
            )
        return arange(input.shape[0]) * input.shape[1]  # type: ignore[no-any-return]
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if offsets.numel() and int(offsets[0]) != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got"
            f" {int(offsets[0])}"
        )
    if offsets.numel() and int(offsets[-1]) > input.numel():
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {input.numel()} but got offsets[-1] of {int(offsets[-1])}")
    return (offsets[:-1] if include_last else offsets).long()


def _bag_numbers(starts: Tensor, count: int) -> Tensor:
    """For each element the number of its bag: how many bags have started."""
    begun = starts.new_zeros(count + 1).index_add(0, starts, starts.new_full(starts.shape, 1))
    return begun.cumsum(0)[:count] - 1


def _largest(rows: Tensor, counted: Tensor, starts: Tensor, bags: Tensor) -> Tensor:
    """Bags as rows of equal length, and the largest element along them; 0 for a bag of nothing."""
    place = arange(rows.shape[0]) - starts[bags]
    longest = int(place.max()) + 1 if rows.shape[0] else 1
    table = rows.new_full((starts.numel() * longest, rows.shape[1]), -math.inf)
    filled = table.index_put((bags * longest + place,), ops.where(counted, rows, -math.inf))
    largest = filled.reshape(starts.numel(), longest, -1).max(1)[0]
    return ops.where(largest == -math.inf, 0, largest)
