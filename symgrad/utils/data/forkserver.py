"""Where workers come from: a fork server of our own, which has symgrad loaded already.

Forking the main process itself could deadlock: JAX has threads. The server of `multiprocessing` is shared by everyone in the process, and
so is its list of modules to load beforehand; both are left alone here. With symgrad loaded a worker is ready in a tenth of the time.
"""

from __future__ import annotations

import functools
import os
from multiprocessing import forkserver, popen_forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import FunctionType, SimpleNamespace
from typing import Any

PRELOADED = ["symgrad.utils.data.worker", "symgrad.utils.data.uninterrupted"]


@functools.cache
def _server(pid: int) -> Any:
    """The server of the process `pid`: one that was forked itself must not use its parent's."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload(PRELOADED)
    return server


def _connect(descriptors: list[int]) -> tuple[int, int]:
    return _server(os.getpid()).connect_to_new_process(descriptors)  # type: ignore[no-any-return]


def _from_our_server(launch: Any) -> Any:
    """A function of `multiprocessing` as it is, but for which server it asks."""
    ours = SimpleNamespace(**{**vars(forkserver), "connect_to_new_process": _connect})
    return FunctionType(launch.__code__, {**launch.__globals__, "forkserver": ours}, launch.__name__, None, launch.__closure__)


class Launch(popen_forkserver.Popen):
    _launch = _from_our_server(popen_forkserver.Popen._launch)  # type: ignore[attr-defined]


class Process(ForkServerProcess):
    @staticmethod
    def _Popen(process: Any) -> Launch:
        return Launch(process)


class Context(ForkServerContext):
    Process = Process
