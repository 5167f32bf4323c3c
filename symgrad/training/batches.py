"""Where batches come from: arrays that are cut up, loaders, or anything that gives (x, y), as one kind of feed."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from symgrad.dtypes import int64
from symgrad.errors import describe
from symgrad.from_data import tensor
from symgrad.lines import warn
from symgrad.ops.foreign import class_name
from symgrad.pytree import flatten, is_container, leaves, map_leaves, unflatten
from symgrad.tensor import Tensor
from symgrad.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, TensorDataset


class Batch(NamedTuple):
    """What a net is given, what it should answer, and how much each example counts; the last two may be None."""

    x: Any
    y: Any
    weight: Any

    def size(self) -> int:
        """How many examples it has."""
        return next((leaf.shape[0] for leaf in leaves(self.x) if getattr(leaf, "ndim", 0)), 1)

    def tensors(self) -> list[Tensor]:
        """All of them, in one row."""
        return leaves(self)

    def __str__(self) -> str:
        target = "" if self.y is None else f", targets {shapes(self.y)}"
        return f"inputs {shapes(self.x)}{target}"


def shapes(tree: Any) -> str:
    """The shapes and types in a batch, for errors."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {shapes(branch)}" for key, branch in tree.items()) + "}"
    if isinstance(tree, (tuple, list)):
        return f"({', '.join(shapes(branch) for branch in tree)})"
    return describe(tree)


class Feed:
    """Batches, epoch by epoch: `for batch in feed.epoch()`, `limit` of them at most.

    With a limit an epoch goes on where the one before it stopped, unless it is to begin `afresh`. `steps` is how many batches an epoch
    has, or None as long as nobody knows. `exhausted`: nothing is left, and nothing comes again.
    """

    def __init__(self, source: Any, dtype: Any, limit: int | None, afresh: bool) -> None:
        self.source = source
        self.dtype = dtype
        self.limit = limit
        self.afresh = afresh
        self.steps = limit if limit is not None else _length(source)
        self.read_once = isinstance(source, Iterator)  # a generator, for example
        self.exhausted = False
        self._open: Iterator[Any] | None = None

    def epoch(self) -> Iterator[Batch]:
        taken, first = 0, self._open is None
        for raw in self._raw():
            taken += 1
            yield self._converted(raw)
            if taken == self.limit:
                return
        if taken == 0 and first:
            raise ValueError("there is no batch: the data is empty, or a generator that was read before")
        self.steps = taken

    def _raw(self) -> Iterator[Any]:
        if self.limit is None or (self.afresh and not self.read_once):
            yield from self.source
            return
        empty = False
        while not empty:
            self._open = iter(self.source) if self._open is None else self._open
            empty = True
            for raw in self._open:
                empty = False
                yield raw
            if self.read_once:
                self.exhausted = True
                warn(f"the data ran out before an epoch of {self.limit} steps was done")
                return
            self._open = None

    def _converted(self, raw: Any) -> Batch:
        parts = tuple(raw) if isinstance(raw, (tuple, list)) and 1 <= len(raw) <= 3 else (raw,)
        x, y, weight = (None if part is None else to_tensors(part, self.dtype) for part in (*parts, None, None)[:3])
        return Batch(x, y, weight)


def _length(source: Any) -> int | None:
    try:
        return len(source)
    except TypeError:  # it has none, or is a loader of a stream, which does not know it
        return None


def feed(
    x: Any, y: Any, weight: Any, *, dtype: Any, batch_size: int, shuffle: bool = False, steps: int | None = None, afresh: bool = True
) -> Feed:
    """Batches of whatever users hand over: arrays, tuples or dicts of arrays, a Dataset, or a source of batches."""
    if is_arrays(x, y):
        return Feed(loader(arrays(x, y, weight, dtype), batch_size, shuffle), dtype, steps, afresh)
    if not isinstance(x, Dataset) and not hasattr(x, "__iter__"):
        raise TypeError(f"x must be an array, a tuple or dict of arrays, or give batches (x, y) when iterated over; got {describe(x)}")
    if y is not None or weight is not None:
        raise ValueError(f"y and sample_weight belong to arrays; a {class_name(x)} gives its own, as batches (x, y) or (x, y, weight)")
    if isinstance(x, Dataset):
        x = DataLoader(x, batch_size, shuffle=shuffle and not isinstance(x, IterableDataset))
    return Feed(x, dtype, steps, afresh)


def loader(data: Batch, batch_size: int, shuffle: bool) -> DataLoader[Any]:
    """Arrays in batches. It asks for the examples of a batch at once; the order is that of `DataLoader(dataset, batch_size, shuffle)`."""

    _, structure = flatten(data)

    def rebuilt(parts: tuple[Tensor, ...]) -> Any:
        return unflatten(structure, parts)

    dataset = TensorDataset(*data.tensors())
    order = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
    return DataLoader(dataset, batch_size=None, sampler=BatchSampler(order, batch_size, drop_last=False), collate_fn=rebuilt)


def is_arrays(x: Any, y: Any) -> bool:
    """Is it data to be cut into batches? Without y, a list of tuples or lists of arrays is a list of batches."""
    if isinstance(x, list) and y is None and all(isinstance(item, (tuple, list)) and not _is_numbers(item) for item in x):
        return False
    found = leaves(x)
    return bool(found) and all(map(_is_array, found))


def _is_numbers(tree: Any) -> bool:
    return all(isinstance(leaf, Number) for leaf in leaves(tree))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, Number)) or hasattr(leaf, "__array__")


def arrays(x: Any, y: Any, weight: Any, dtype: Any) -> Batch:
    """The three as tensors of one length."""
    data = Batch(*(None if part is None else to_tensors(part, dtype) for part in (x, y, weight)))
    every = data.tensors()
    if any(leaf.ndim == 0 for leaf in every):
        raise ValueError(f"arrays of examples are wanted, and one has no dimension: {data}")
    if len({leaf.shape[0] for leaf in every}) > 1:
        weights = "" if weight is None else f", weights {shapes(data.weight)}"
        raise ValueError(f"all arrays must have the same number of examples, got {data}{weights}")
    if not every[0].shape[0]:
        raise ValueError(f"there are no examples: {data}")
    return data


def to_tensors(tree: Any, dtype: Any) -> Any:
    """Tensors, and what is no array, as they are; floating-point arrays in the net's type, integers as int64, which losses want."""
    if isinstance(tree, list) and _is_numbers(tree):
        return to_tensors(np.asarray(tree), dtype)
    if is_container(tree):
        return map_leaves(lambda leaf: to_tensors(leaf, dtype), tree, _is_array)
    if isinstance(tree, Tensor) or not _is_array(tree):
        return tree
    array = np.asarray(tree)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"arrays of numbers are wanted, got one of {array.dtype}")
    result = tensor(array)
    if result.is_floating_point():
        return result.to(dtype)
    return result.to(int64) if array.dtype.kind in "iu" else result


def split(data: Batch, fraction: float) -> tuple[Batch, Batch]:
    """The first examples and the last `fraction` of them."""
    count = data.size()
    at = int(round(count * (1 - fraction), 6))  # 10 * (1 - 0.9) is a little less than 1
    if not 0 < at < count:
        raise ValueError(f"validation_split={fraction} of {count} examples leaves none on one side")

    def part(place: slice) -> Batch:
        return map_leaves(lambda leaf: leaf[place], data)  # type: ignore[no-any-return]

    return part(slice(None, at)), part(slice(at, None))


def with_class_weight(y: Any, weight: Any, class_weight: dict[int, float] | None) -> Any:
    """The weight of each example, multiplied by that of its class; a class that is not named counts 1."""
    if class_weight is None:
        return weight
    numbers = np.asarray(y) if isinstance(y, Tensor) or hasattr(y, "__array__") or isinstance(y, list) else None
    if numbers is None:
        raise ValueError("class_weight needs y as one array of class numbers, or of one-hot rows")
    numbers = numbers.argmax(1) if numbers.ndim > 1 and numbers.shape[1] > 1 else numbers.reshape(-1)
    weights = np.array([class_weight.get(int(number), 1.0) for number in numbers])
    return weights if weight is None else weights * np.asarray(weight)
