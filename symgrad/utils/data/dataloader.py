"""DataLoader: batches of a dataset, fetched in this process or by worker processes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from symgrad.lines import warn
from symgrad.random import Generator
from symgrad.utils.data.collate import default_collate as default_collate, default_convert as default_convert
from symgrad.utils.data.dataset import Dataset, IterableDataset, Sample
from symgrad.utils.data.fetch import fetcher
from symgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed
from symgrad.utils.data.worker_info import get_worker_info as get_worker_info

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})
NOT_PINNED = "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
TOO_MANY_WORKERS = (
    "This DataLoader will create {count} worker processes in total. Our suggested max number of worker in current system is {cores}, which"
    " is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running"
    " slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary."
)
LONGER_THAN_SAID = (
    "Length of IterableDataset {dataset} was reported to be {said} (when accessing len(dataloader)), but {count} samples have been fetched."
)
EVERY_WORKER_HAS_ALL = (
    " With worker processes each iterates over a copy of its own: take a share of the stream in __iter__, by get_worker_info()."
)


class DataLoader(Generic[Sample]):
    """An iterable over the batches of a dataset.

    `shuffle`, a `sampler` or a `batch_sampler` say in which order samples come; `collate_fn` makes a batch of a list of samples.
    With `num_workers` > 0 that many processes fetch batches ahead, `prefetch_factor` each. They are started by a fork server, so the
    dataset has to be picklable, and a script needs `if __name__ == "__main__":` around what it does.
    """

    dataset: Dataset[Sample]
    batch_size: int | None
    sampler: Any
    batch_sampler: Any

    def __init__(
        self,
        dataset: Dataset[Sample],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_order(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.sampler = self._default_sampler(shuffle) if sampler is None else sampler
        self.batch_sampler = batch_sampler
        if self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self._said_length: int | None = None  # what len(dataset) answered, for a stream
        self._iterator: Any = None  # that of persistent workers
        self._ready = True
        self._warn_of_many_workers()

    def _default_sampler(self, shuffle: bool | None) -> Any:
        if isinstance(self.dataset, IterableDataset):
            return itertools.repeat(None)
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)  # type: ignore[arg-type]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and hasattr(self, "_ready"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got"
                f" num_workers={self.num_workers}"
            )
        self._multiprocessing_context = None if context is None else _checked_context(context)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            return SingleProcessIterator(self)
        from symgrad.utils.data.workers import WorkersIterator

        self._warn_of_many_workers()
        if not self.persistent_workers:
            return WorkersIterator(self)
        if self._iterator is None or self._iterator.is_closed:
            self._iterator = WorkersIterator(self)
        else:
            self._iterator.restart(self)
        return self._iterator  # type: ignore[no-any-return]

    def __len__(self) -> int:
        """The number of batches. For a stream it is computed from the stream's own length, which may be wrong."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = self._said_length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def _warn_of_many_workers(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_workers > cores:
            warn(TOO_MANY_WORKERS.format(count=self.num_workers, cores=cores))


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable multiprocessing, otherwise"
            " set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_order(dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if isinstance(dataset, IterableDataset):
        for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None:
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _checked_context(context: Any) -> Any:
    import multiprocessing

    methods = multiprocessing.get_all_start_methods()
    if isinstance(context, str) and context not in methods:
        raise ValueError(
            f"multiprocessing_context option should specify a valid start method in {methods!r}, but got"
            f" multiprocessing_context={context!r}"
        )
    if isinstance(context, str):
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, but got"
            f" multiprocessing_context={context}"
        )
    return context


class LoaderIterator:
    """One pass over a DataLoader. A subclass gives `_next_batch`. It does not hold the loader: a loader may hold its iterator."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.pin_memory:
            warn(NOT_PINNED)
        self._dataset = loader.dataset
        self._num_workers = loader.num_workers
        self._sampler = loader._index_sampler
        self._begin_pass(loader)
        self._base_seed = drawn_seed(loader.generator)  # always, and before the sampler draws: the stream is PyTorch's

    def _begin_pass(self, loader: DataLoader[Any]) -> None:
        self._indices = iter(self._sampler)
        self._said_length = loader._said_length
        self._yielded = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._sampler)

    def __next__(self) -> Any:
        batch = self._next_batch()
        self._yielded += 1
        if self._said_length is not None and self._yielded > self._said_length:
            text = LONGER_THAN_SAID.format(dataset=self._dataset, said=self._said_length, count=self._yielded)
            warn(text + EVERY_WORKER_HAS_ALL * bool(self._num_workers))
        return batch

    def _next_batch(self) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class SingleProcessIterator(LoaderIterator):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if loader.timeout:
            raise AssertionError(f"timeout={loader.timeout} needs num_workers > 0: without workers nobody could stop waiting")
        self._fetch = fetcher(loader.dataset, loader.batch_sampler is not None, loader.collate_fn, loader.drop_last)

    def _next_batch(self) -> Any:
        return self._fetch(next(self._indices))
