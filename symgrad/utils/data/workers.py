"""The main process's side of worker processes: starting them, handing out tasks, collecting batches, and ending them whatever happens."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
import weakref
from collections.abc import Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, current_process
from pickle import PicklingError
from typing import Any, NamedTuple, NoReturn

from symgrad.utils.data.dataloader import DataLoader, LoaderIterator
from symgrad.utils.data.transfer import Parcel, receive
from symgrad.utils.data.worker import GRACE, Failure, Job, run

NO_MAIN_GUARD = """A worker process imports the script that started it, and that import started worker processes again. Put what the \
script does, rather than defines, under a guard:

    if __name__ == "__main__":
        main()
"""
CANNOT_SEND = """
The dataset, collate_fn and worker_init_fn are pickled to be sent to worker processes. Define classes and functions at the top level of a \
module or script (not inside a function, not as a lambda), and open files, locks and connections in the worker: in __getitem__, __iter__ \
or worker_init_fn. Or use num_workers=0."""
NEVER_STARTED = """ It ended before it fetched anything; what it printed is above. A worker imports the program that started it: that \
has to be a file, with `if __name__ == "__main__":` around what it does."""

REAPED = 10.0  # seconds after which a process whose pipe has closed is surely gone


class Worker(NamedTuple):
    process: BaseProcess
    tasks: Connection
    results: Connection


class Workers:
    """Running processes. `close` ends them, and may be called at any time and from a finaliser."""

    def __init__(self, context: Any, job: Job) -> None:
        if getattr(current_process(), "_inheriting", False):
            raise RuntimeError(NO_MAIN_GUARD)
        self._workers: list[Worker] = []
        self._answered = False
        self._owner = os.getpid()
        parcel = Parcel(job)
        try:
            for number in range(job.num_workers):
                self._workers.append(self._started(context, parcel, number))
        except (TypeError, AttributeError, PicklingError) as error:
            self.close()
            raise type(error)(f"{error}{CANNOT_SEND}") from error
        except BaseException:
            self.close()
            raise
        finally:
            parcel.close()

    def _started(self, context: Any, parcel: Parcel, number: int) -> Worker:
        their_tasks, tasks = context.Pipe(duplex=False)
        results, their_results = context.Pipe()  # a socket: it can carry descriptors
        mine = [tasks, results, *(end for worker in self._workers for end in worker[1:])]
        arguments = (their_tasks, their_results, number, parcel, mine if context.get_start_method() == "fork" else [])
        process = context.Process(target=run, args=arguments, daemon=True)
        try:
            process.start()
        except BaseException:
            tasks.close()
            results.close()
            raise
        finally:
            their_tasks.close()
            their_results.close()
        return Worker(process, tasks, results)

    @property
    def is_closed(self) -> bool:
        return not self._workers

    def send(self, number: int, task: Any) -> None:
        try:
            self._workers[number].tasks.send(task)
        except ConnectionError:
            self._died(self._workers[number])

    def receive(self, numbers: Iterable[int], timeout: float) -> Any:
        """What the first of these workers to answer says."""
        asked = [self._workers[number] for number in numbers]
        ready = wait([*(worker.results for worker in asked), *(worker.process.sentinel for worker in self._workers)], timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        for worker in asked:
            if worker.results in ready:
                return self._received(worker)
        return self._died(next(worker for worker in self._workers if worker.process.sentinel in ready))

    def _received(self, worker: Worker) -> Any:
        try:
            answer = receive(worker.results)
        except (EOFError, ConnectionError):
            self._died(worker)
        except BaseException:  # Ctrl-C in the middle of a message: what follows could not be understood
            self.close()
            raise
        self._answered = True
        return answer

    def _died(self, worker: Worker) -> NoReturn:
        process = worker.process
        process.join(REAPED)
        text = f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: {_ending(process.exitcode)}."
        self.close()
        raise RuntimeError(text if self._answered else text + NEVER_STARTED) from None

    def close(self) -> None:
        """Close the pipes, which workers notice; whoever does not end in time is ended."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.tasks.close()
            worker.results.close()
        if os.getpid() != self._owner:
            return  # a forked copy: the processes are not its own
        until = time.monotonic() + GRACE
        for worker in workers:
            _end(worker.process, until)


def _default_context() -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():  # on Windows, where the module cannot even be loaded
        return multiprocessing.get_context("spawn")
    from symgrad.utils.data.forkserver import Context

    return Context()


def _end(process: BaseProcess, until: float) -> None:
    process.join(max(until - time.monotonic(), 0))
    if process.is_alive():
        process.terminate()
        process.join(1)
    if process.is_alive():
        process.kill()
        process.join()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal {signal.Signals(-code).name} (exit code {code})"
    return f"exit code {code}"


class WorkersIterator(LoaderIterator):
    """One pass over a DataLoader whose batches are fetched by workers; with persistent workers, one pass after the other.

    Tasks are numbered, and handed out in turn. A worker does its tasks in order, so to get batches in order it is enough to ask the
    worker that has the next task.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 with worker processes")
        job = Job(
            loader.dataset,
            loader.batch_sampler is not None,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            self._base_seed,
            loader.num_workers,
        )
        self._ahead = loader.prefetch_factor * loader.num_workers
        self._in_order = loader.in_order
        self._timeout = loader.timeout
        self._persistent = loader.persistent_workers
        self._workers = Workers(loader.multiprocessing_context or _default_context(), job)
        self._finalizer = weakref.finalize(self, self._workers.close)
        self._epoch = 0
        self._hand_out_first()

    @property
    def is_closed(self) -> bool:
        return self._workers.is_closed

    def restart(self, loader: DataLoader[Any]) -> None:
        """The next epoch. What is still under way from the last is thrown away when it arrives."""
        self._begin_pass(loader)
        self._hand_out_first()

    def _hand_out_first(self) -> None:
        self._epoch += 1
        self._numbers = itertools.count()
        self._under_way: dict[int, int] = {}  # task: worker, in the order of the tasks
        self._running = set(range(self._num_workers))
        self._turns = itertools.cycle(range(self._num_workers))
        self._hand_out(self._ahead)

    def _hand_out(self, count: int) -> None:
        for index in itertools.islice(self._indices, count):
            worker = self._next_worker()
            if worker is None:
                return
            number = next(self._numbers)
            self._workers.send(worker, (self._epoch, number, index))
            self._under_way[number] = worker

    def _next_worker(self) -> int | None:
        """Who is next in turn; where order does not matter, who is next and has not more than a fair share."""
        for worker in itertools.islice(self._turns, self._num_workers):
            load = list(self._under_way.values()).count(worker)
            if worker in self._running and (self._in_order or load < self._ahead // len(self._running)):
                return worker
        return None

    def _next_batch(self) -> Any:
        while self._under_way and not self.is_closed:
            number, kind, value = self._received()
            worker = self._under_way.pop(number)
            if kind == "ended":
                self._running.discard(worker)
                unanswered = [n for n, owner in self._under_way.items() if owner == worker]
                for n in unanswered:
                    del self._under_way[n]
                self._hand_out(1 + len(unanswered))
                continue
            self._hand_out(1)
            if kind == "failed":
                failure: Failure = value
                failure.reraise()
            return value
        if not self._persistent:
            self._finalizer()
        raise StopIteration

    def _received(self) -> tuple[int, str, Any]:
        first = [next(iter(self._under_way.values()))] if self._in_order else sorted(set(self._under_way.values()))
        while True:
            epoch, number, kind, value = self._workers.receive(first, self._timeout)
            if epoch == self._epoch:
                return number, kind, value
