"""Sequences of different lengths in one tensor: padded to one length, or packed without the padding.

A packed sequence holds the steps one after another: the first elements of all sequences, then the second ones of all that have one, and so
on. Sequences are sorted by length, longest first, so that those which go on are always the first ones of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from symgrad.creation import arange, empty_like, full
from symgrad.dtypes import int64
from symgrad.from_data import as_tensor, tensor
from symgrad.functional import cat, index_select, sort, stack
from symgrad.nn import functional as F
from symgrad.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Steps of sequences without padding: made by `pack_padded_sequence` and `pack_sequence`.

    `batch_sizes` tells how many sequences have each step; `sorted_indices` where each sorted sequence stood before.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
    ) -> PackedSequence:
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> PackedSequence:
        return self if data is self.data else type(self)(data, *self[1:])

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data in another type or on another device."""
        return self._with(self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        return self._with(self.data.cpu())

    def cuda(self, device: Any = None) -> PackedSequence:
        return self._with(self.data.cuda(device))

    def double(self) -> PackedSequence:
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        return self._with(self.data.int())

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each element went: the inverse of a permutation given by indices."""
    if permutation is None:
        return None
    return empty_like(permutation).scatter_(0, permutation, arange(permutation.numel()))


def _check_lengths(lengths: list[int], batch: int, steps: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})")
    if any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to"
            " pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    if lengths[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if lengths[0] > steps:
        raise RuntimeError(f"pack_padded_sequence: found a length of {lengths[0]} in 'lengths', but the input has {steps} steps")


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of padded sequences, (length, batch, ...) or with `batch_first` (batch, length, ...), without the padding.

    With `enforce_sorted` the sequences must stand longest first; without, they are sorted here.
    """
    counts = lengths.to(int64) if isinstance(lengths, Tensor) else as_tensor(lengths, dtype=int64)
    if counts.ndim != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {counts.ndim}D cpu Long tensor")
    if input.ndim < 2:
        raise IndexError(f"pack_padded_sequence: a batch of sequences has at least 2 dimensions, got an input of shape {list(input.shape)}")
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    order = None
    if not enforce_sorted:
        counts, order = sort(counts, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    steps, batch = input.shape[1 if batch_first else 0], input.shape[0 if batch_first else 1]
    ends: list[int] = counts.tolist()
    _check_lengths(ends, batch, steps)
    sizes = [sum(end > step for end in ends) for step in range(ends[0])]
    near, far = (steps, 1) if batch_first else (1, batch)  # how far apart sequences and steps stand in the flat input
    places = [step * far + i * near for step, size in enumerate(sizes) for i in range(size)]
    return PackedSequence(input.flatten(0, 1).index_select(0, tensor(places)), tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences padded to the longest, or to `total_length`, in their order before packing; and their lengths."""
    sizes: list[int] = sequence.batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got"
            f" total_length={total_length} and max sequence length being {len(sizes)}"
        )
    starts = [sum(sizes[:step]) for step in range(len(sizes))]
    lengths = [sum(size > i for size in sizes) for i in range(sizes[0])]
    order = range(sizes[0]) if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    data, padding = sequence.data, sequence.data.shape[0]  # the row after the last holds the padding

    def place(step: int, i: int) -> int:
        return starts[step] + i if step < lengths[i] else padding

    if batch_first:
        places = [place(step, i) for i in order for step in range(steps)]
    else:
        places = [place(step, i) for step in range(steps) for i in order]
    last = full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    shape = (sizes[0], steps) if batch_first else (steps, sizes[0])
    padded = index_select(cat([data, last]), 0, tensor(places)).unflatten(0, shape)
    return padded, tensor([lengths[i] for i in order])


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of different lengths in one tensor, (length, batch, ...) or with `batch_first` (batch, length, ...)."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {sequences.__class__}")
    many = tuple(sequences)
    if not many:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    length = max(s.shape[0] for s in many)

    def padded(s: Tensor) -> Tensor:
        gap = length - s.shape[0]
        pair = (gap, 0) if padding_side == "left" else (0, gap)
        return F.pad(s, (*(0, 0) * (s.ndim - 1), *pair), value=padding_value) if gap else s

    return stack([padded(s) for s in many], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, each in its own length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths, packed."""
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one, each in its own length."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
