"""Datasets and functions that worker processes import: they cannot see what is defined in a test file."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import numpy as np

import symgrad as sg
from symgrad.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> sg.Tensor:
        return sg.tensor(index * index)


class Images(Squares):
    """Samples of 80,000 bytes: batches of them go through a file."""

    def __getitem__(self, index: int) -> tuple[sg.Tensor, int, str]:
        return sg.full((100, 100), index, dtype=sg.float64), index, f"image {index}"


class Shared(IterableDataset):
    """range(n), each worker its share."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


class Uneven(IterableDataset):
    """Worker 0 has one sample, worker 1 has five."""

    def __iter__(self):
        me = get_worker_info().id
        return iter([100 * me + i for i in range(5 if me else 1)])


class Doomed(Squares):
    """Does `deed` when it is asked for sample 3."""

    def __init__(self, n: int, deed) -> None:
        super().__init__(n)
        self.deed = deed

    def __getitem__(self, index: int) -> sg.Tensor:
        if index == 3:
            self.deed()
        return super().__getitem__(index)


class TwoWords(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one, other)


def raise_value_error() -> None:
    raise ValueError("sample three is broken")


def raise_key_error() -> None:
    raise KeyError("three")


def raise_two_words() -> None:
    raise TwoWords("one", "other")


def raise_local_error() -> None:
    class Hidden(Exception):
        pass

    raise Hidden("nobody can import me")


def leave() -> None:
    os._exit(7)


def leave_politely() -> None:
    sys.exit(9)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(1000)


def ignore_and_hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()


def take_your_time(worker: int) -> None:
    """This worker may take long to end when it is no longer needed."""
    from symgrad.utils.data import worker as worker_module  # here, since tests/peers reads this file with PyTorch, which has no such module

    worker_module.GRACE = 60


def fail_to_start(worker: int) -> None:
    raise OSError(f"worker {worker} cannot start")


def broken_collate(samples):
    raise ZeroDivisionError(f"{len(samples)} samples")


def collate_to_lambda(samples):
    return lambda: samples


class Draws(Dataset):
    """What the generators of the worker give, and what it knows about itself."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int):
        info = get_worker_info()
        return info.id, info.num_workers, info.seed, sg.initial_seed(), random.random(), np.random.rand(), sg.rand(()).item()


class Pids(Dataset):
    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return os.getpid() + self.offset


def shift(worker: int) -> None:
    get_worker_info().dataset.offset = 10**9 * (worker + 1)


class Unloadable:
    """Can be pickled, and not unpickled."""

    def __len__(self) -> int:
        return 2

    def __reduce__(self):
        return refuse, ()


def refuse():
    raise AttributeError("Can't get attribute 'Squares' on <module '__main__' (built-in)>")


def write_worker(worker: int) -> None:
    """Into this worker's copy of the data."""
    (tensor,) = get_worker_info().dataset.tensors
    tensor += 1
    tensor[worker * 50_000] += worker + 1


class Counting(Dataset):
    """A counter that all processes share."""

    def __init__(self, counter) -> None:
        self.counter = counter

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        with self.counter.get_lock():
            self.counter.value += 1
            return self.counter.value
