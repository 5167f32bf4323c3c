"""Where workers come from: a fork server of our own, which has symgrad loaded already.

Forking the main process itself could deadlock: JAX has threads. The server of `multiprocessing` is shared by everyone in the process, and
so is its list of modules to load beforehand; both are left alone here. With symgrad loaded a worker is ready in a tenth of the time.
"""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
from multiprocessing import forkserver, reduction, spawn, util
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess, set_spawning_popen
from multiprocessing.popen_forkserver import Popen
from typing import Any

PRELOADED = ["symgrad.utils.data.worker"]


def context() -> BaseContext:
    """The default way to start workers."""
    return Context() if "forkserver" in multiprocessing.get_all_start_methods() else multiprocessing.get_context("spawn")


@functools.cache
def _server(pid: int) -> Any:
    """The server of the process `pid`: one that was forked itself must not use its parent's."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload(PRELOADED)
    return server


class Launch(Popen):
    """As the base class starts a process, but from our server."""

    def _launch(self, process: Any) -> None:
        message = io.BytesIO()
        set_spawning_popen(self)  # only then may locks and queues be pickled
        try:
            reduction.dump(spawn.get_preparation_data(process._name), message)
            reduction.dump(process, message)
        finally:
            set_spawning_popen(None)
        self.sentinel, writer = _server(os.getpid()).connect_to_new_process(self._fds)  # type: ignore[attr-defined]
        kept = os.dup(writer)  # as long as it is open the child knows that its parent lives
        self.finalizer = util.Finalize(self, util.close_fds, (kept, self.sentinel))  # type: ignore[attr-defined]
        with open(writer, "wb") as pipe:
            pipe.write(message.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


class Process(ForkServerProcess):
    @staticmethod
    def _Popen(process: Any) -> Popen:
        return Launch(process)


class Context(ForkServerContext):
    Process = Process
