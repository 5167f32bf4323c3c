"""A worker process: it fetches the batches that it is told to fetch, until nobody tells it anything any more.

Two things run here. A thread listens for tasks, so that the main process never waits while it sends them, and notices when the main
process closes the pipe or is gone. The main thread fetches and sends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import parent_process
from typing import Any, NoReturn

import numpy as np

from symgrad.random import manual_seed
from symgrad.utils.data import worker_info
from symgrad.utils.data.dataset import IterableDataset
from symgrad.utils.data.fetch import Fetch, fetcher
from symgrad.utils.data.transfer import Arrived, Parcel, send

GRACE = 3.0  # seconds that a worker has to finish what it is doing when it is no longer needed

CANNOT_LOAD = """
The worker could not load what it was sent: the dataset, collate_fn or worker_init_fn. Classes and functions have to be defined where a \
worker can import them: at the top level of a module, or of the script itself. What is typed into an interpreter or a notebook, or defined \
under `if __name__ == "__main__":`, it does not have. Move it to a file, use num_workers=0, or, where no thread is running (JAX has some), \
multiprocessing_context="fork"."""


@dataclass(frozen=True)
class Job:
    """What all workers of a loader are given."""

    dataset: Any
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None
    base_seed: int
    num_workers: int


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the main process. Its own objects may not be picklable, so its text is sent."""

    kind: type[BaseException]
    text: str

    @staticmethod
    def of(error: Exception, worker: int, advice: str = "") -> Failure:
        report = "".join(traceback.format_exception(error))
        return Failure(type(error), f"Caught {error.__class__.__name__} in DataLoader worker process {worker}.\nOriginal {report}{advice}")

    def reraise(self) -> NoReturn:
        """As the original type, if that can be made of a text."""
        try:
            error = self.kind(_Verbatim(self.text))
        except Exception:
            raise RuntimeError(self.text) from None
        raise error


class _Verbatim(str):
    """A KeyError shows the repr of its argument, which for a traceback would be one long line."""

    __slots__ = ()
    __repr__ = str.__str__


def run(tasks: Connection, results: Connection, worker: int, parcel: Parcel | Arrived, inherited: Iterable[Connection]) -> None:
    """The whole life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the main process decides
    for connection in inherited:  # the main process's ends, which a forked worker would keep open
        connection.close()
    pending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, pending), daemon=True).start()
    with contextlib.suppress(ConnectionError):  # nobody is there any more to receive
        _work(pending, results, worker, parcel)


def _listen(tasks: Connection, pending: queue.SimpleQueue[bytes | None]) -> None:
    parent = parent_process()
    others = [] if parent is None else [parent.sentinel]
    try:
        while tasks in wait([tasks, *others]):
            pending.put(tasks.recv_bytes())
    except (EOFError, OSError):
        pass
    pending.put(None)
    time.sleep(GRACE)  # the process usually ends meanwhile
    os._exit(1)


def _work(pending: queue.SimpleQueue[bytes | None], results: Connection, worker: int, parcel: Parcel | Arrived) -> None:
    job = _prepared(parcel, worker)
    fetch: Fetch | None = None
    epoch = 0
    while (message := pending.get()) is not None:
        asked_epoch, number, index = pickle.loads(message)
        if asked_epoch != epoch:
            epoch, fetch = asked_epoch, None
        outcome: tuple[str, Any] = ("failed", job)
        try:
            if isinstance(job, Job):
                fetch = fetch or fetcher(job.dataset, job.batched, job.collate_fn, job.drop_last)
                outcome = ("batch", fetch(index))
        except Exception as error:
            ended = isinstance(error, StopIteration) and isinstance(job, Job) and isinstance(job.dataset, IterableDataset)
            outcome = ("ended", None) if ended else ("failed", Failure.of(error, worker))
        _answer(results, epoch, number, outcome, worker)


def _prepared(parcel: Parcel | Arrived, worker: int) -> Job | Failure:
    """What to work on; or what went wrong, which is then the answer to every task."""
    advice = CANNOT_LOAD
    try:
        job: Job = parcel.open()
        advice = ""
        seed = _seeded(job.base_seed, worker)
        worker_info.current = worker_info.WorkerInfo(worker, job.num_workers, seed, job.dataset)
        if job.worker_init_fn is not None:
            job.worker_init_fn(worker)
    except Exception as error:
        return Failure.of(error, worker, advice)
    return job


def _seeded(base_seed: int, worker: int) -> int:
    """Seed symgrad, `random` and NumPy, each worker with numbers of its own: those that PyTorch takes."""
    seed = base_seed + worker
    random.seed(seed)
    manual_seed(seed)
    words = [worker, base_seed % 2**32, base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    return seed


def _answer(results: Connection, epoch: int, number: int, outcome: tuple[str, Any], worker: int) -> None:
    try:
        send(results, (epoch, number, *outcome))
    except ConnectionError:
        raise
    except Exception as error:  # the batch, or the type of the exception, cannot be pickled
        failure = Failure.of(error, worker) if outcome[0] == "batch" else Failure(RuntimeError, outcome[1].text)
        send(results, (epoch, number, "failed", failure))
