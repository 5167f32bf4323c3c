"""Datasets: by index (`Dataset`) or as a stream (`IterableDataset`), and those that are made of tensors or of other datasets."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from symgrad.coercion import stands_for_tensor
from symgrad.from_data import as_tensor
from symgrad.lines import warn
from symgrad.ops.foreign import class_name, hint
from symgrad.random import Generator, default_generator, randperm
from symgrad.tensor import Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples by index. A subclass gives `__getitem__`, most give `__len__`; with `__getitems__(indices)` a batch takes one call."""

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample], Iterable[Sample]):
    """Samples as a stream. A subclass gives `__iter__`.

    Every worker process iterates over a copy of its own: `get_worker_info()` tells it which part of the stream is its share.
    """

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of the i-th elements of all tensors."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Any) -> None:
        tensors = tuple(_rows(i, t) for i, t in enumerate(tensors))
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError(f"Size mismatch between tensors: their first dimensions are {[t.size(0) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)  # type: ignore[no-any-return]


def _rows(position: int, data: Any) -> Tensor:
    """A tensor whose first dimension counts the samples, for anything that stands for it; arrays share their memory with it."""
    if not isinstance(data, Tensor):
        if not stands_for_tensor(data):
            got = f"{class_name(data)}{hint(data)}"
            raise TypeError(f"TensorDataset: argument {position} must be a tensor, array or nested list, got {got}")
        data = as_tensor(data)
    if not data.ndim:
        raise TypeError(f"TensorDataset: argument {position} has no dimensions, and the first one counts the samples")
    assert isinstance(data, Tensor)
    return data


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample i is a tuple (or, of datasets given by name, a dict) of their samples i."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [samples_of(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(samples_of(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Sample]):
    """Datasets one after the other."""

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Sample:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - start]  # type: ignore[no-any-return]


class ChainDataset(IterableDataset[Sample]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(f"ChainDataset only supports IterableDataset, got {dataset.__class__.__name__}")
            yield dataset

    def __iter__(self) -> Iterator[Sample]:
        return itertools.chain.from_iterable(self._streams())

    def __len__(self) -> int:
        return sum(len(stream) for stream in self._streams())


SUBSET_NEEDS_BOTH = """{name} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding __getitem__, you must \
also override __getitems__ to ensure DataLoader works correctly with your custom logic. A simple implementation:

def __getitems__(self, indices):
    return [self.__getitem__(idx) for idx in indices]"""


class Subset(Dataset[Sample]):
    """The samples of a dataset that a sequence of indices names, in that order."""

    dataset: Dataset[Sample]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        own = type(self)
        if own.__getitem__ is not Subset.__getitem__ and own.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(SUBSET_NEEDS_BOTH.format(name=own.__name__))
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Sample:
        return self.dataset[[self.indices[i] for i in idx] if isinstance(idx, list) else self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Sample]:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def samples_of(dataset: Any, indices: list[Any]) -> list[Any]:
    """The samples at these indices: in one call if the dataset has `__getitems__`."""
    fetch = getattr(dataset, "__getitems__", None)
    if not callable(fetch):
        return [dataset[index] for index in indices]
    samples: list[Any] = fetch(indices)
    return samples


def random_split(
    dataset: Dataset[Any], lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Random subsets that share no sample: of these lengths, or of these fractions of the whole (which add up to 1)."""
    size = len(dataset)  # type: ignore[arg-type]
    total = sum(lengths)
    counts = _counts(size, lengths) if math.isclose(total, 1) and total <= 1 else [int(n) for n in lengths]
    if sum(counts) != size:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! The lengths add up to {total}, the dataset has {size}"
            " samples; fractions have to add up to 1."
        )
    indices = randperm(size, generator=generator).tolist()
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(itertools.accumulate(counts), counts, strict=True)]


def _counts(size: int, fractions: Sequence[float]) -> list[int]:
    """How many samples each fraction is; those that rounding leaves over go one each to the first."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(size * fraction) for fraction in fractions]
    for i in range(size - sum(counts)):
        counts[i % len(counts)] += 1
    for i, n in enumerate(counts):
        if n == 0:
            warn(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return counts
