"""Progress of compilation: stages with their times, in the log, and on a terminal as a transient line.

    with compiling("step"):          one compilation; a nested one is part of the outer one
        with stage("trace"): ...
        with stage("XLA"): ...

Every finished compilation is logged by the logger "symgrad.compile" at level INFO. It is printed to stderr for functions compiled with
`verbose=True`, and for all functions if the environment has `SYMGRAD_LOG=compile`. The line appears after a second, and only if stderr is a
terminal.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from time import perf_counter
from typing import Any

STAGES = ("trace", "differentiate", "simplify", "load", "emit", "lower", "XLA")
"""Running the function; derivatives; passes; importing JAX; source; JAX's own tracing and lowering; the XLA compiler."""
logger = logging.getLogger("symgrad.compile")
PATIENCE = 1.0
"""Seconds until the line appears."""
SHORTEST = 0.0005
"""Stages that took fewer seconds are not reported."""
_WIDEST = 60
_local = threading.local()
_terminal = threading.Lock()
"""Held by the thread that shows the line: there is one line, however many threads compile."""


class _Stderr(logging.StreamHandler[Any]):
    """Writes to the current sys.stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_handler = _Stderr()
_handler.setFormatter(logging.Formatter("symgrad: %(message)s"))
if "compile" in os.environ.get("SYMGRAD_LOG", "").replace(",", " ").split():
    logger.addHandler(_handler)
    logger.setLevel(logging.INFO)


class Work:
    """A compilation in progress."""

    def __init__(self, name: str, verbose: bool) -> None:
        self.name, self.verbose = name, verbose
        self.times: dict[str, float] = {}
        self.began = self.since = perf_counter()
        self.stages: list[str] = []

    def enter(self, name: str) -> None:
        self._add_elapsed()
        self.stages.append(name)

    def leave(self) -> None:
        self._add_elapsed()
        self.stages.pop()

    def _add_elapsed(self) -> None:
        """Add the time since the last change to the innermost stage."""
        now = perf_counter()
        if self.stages:
            self.times[self.stages[-1]] = self.times.get(self.stages[-1], 0.0) + now - self.since
        self.since = now

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds(self.times[name])}" for name in STAGES if self.times.get(name, 0.0) >= SHORTEST)
        return f"{self.name}: compiled in {seconds(perf_counter() - self.began)} ({parts})"

    def now(self) -> str:
        """Return the text of the line."""
        doing = self.stages[-1] if self.stages else "compile"
        return f"compiling {self.name}: {doing}, {perf_counter() - self.began:.0f} s"


def seconds(t: float) -> str:
    """Format a duration: `1.5 s`, `12 ms`."""
    return f"{t:.1f} s" if t >= 1 else f"{1000 * t:.0f} ms"


class compiling:
    """Context manager for one compilation; inside another one it is part of that."""

    def __init__(self, name: str, verbose: bool = False) -> None:
        self.name, self.verbose = name, verbose
        self.work: Work | None = None

    def __enter__(self) -> None:
        if getattr(_local, "work", None) is None:
            self.work = _local.work = Work(self.name, self.verbose)
            self.line = _Line(self.work) if _on_terminal() else None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.work is None:
            return
        _local.work = None
        if self.line is not None:
            self.line.close()
        if error is None and self.work.times:
            _report(self.work)


class stage:
    """Context manager for one stage of the compilation in progress, if any; its time is also added to `times`. In the report of the
    compilation, a nested stage counts separately."""

    def __init__(self, name: str, times: dict[str, float] | None = None) -> None:
        self.name, self.times = name, times

    def __enter__(self) -> None:
        self.work: Work | None = getattr(_local, "work", None)
        self.began = perf_counter()
        if self.work is not None:
            self.work.enter(self.name)

    def __exit__(self, *exc: object) -> None:
        if self.times is not None:
            self.times[self.name] = self.times.get(self.name, 0.0) + perf_counter() - self.began
        if self.work is not None:
            self.work.leave()


def _report(work: Work) -> None:
    logger.info("%s", work)
    if work.verbose and _handler not in logger.handlers:
        _handler.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, str(work), (), None))


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # stderr is missing or closed
        return False


class _Line:
    """A progress line after the current cursor position. The cursor does not move, so the output of others is not touched."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done = threading.Event()
        self.stream = sys.stderr
        self.thread = threading.Thread(target=self.run, name="symgrad progress", daemon=True)
        self.thread.start()

    def run(self) -> None:
        if self.done.wait(PATIENCE) or not _terminal.acquire(blocking=False):
            return
        try:
            while True:
                self.write(f"\x1b7\x1b[?7l {self.work.now()[:_WIDEST]}\x1b[K\x1b[?7h\x1b8")  # not wrapped: only one line is cleared
                if self.done.wait(0.5):
                    break
        finally:
            self.write("\x1b[K")
            _terminal.release()

    def write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self.done.set()

    def close(self) -> None:
        self.done.set()
        self.thread.join()
