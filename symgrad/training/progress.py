"""The progress bar: step, time left, time per step, loss and metrics, on one line that is redrawn at most ten times a second.

Into a file, where nothing can be redrawn, goes one line for each epoch.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from symgrad.training.callback import Callback

BETWEEN_DRAWINGS = 0.1
BAR = 20
LEAST_BAR = 6


class ProgressBar(Callback):
    """What `verbose` means: 0 is nothing, 1 a bar, 2 a line for each epoch, "auto" is 1 on a terminal or in a notebook and else 2.

    A bar is drawn on terminals and in notebooks only: elsewhere 1 is 2. It writes to `stream`, or to what is sys.stdout at the time.
    """

    def __init__(self, verbose: Any = "auto", stream: IO[str] | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        if verbose not in ("auto", 0, 1, 2):
            raise ValueError(f"verbose must be 'auto', 0, 1 or 2, got {verbose!r}")
        self._given, self._clock = stream, clock
        live = self._stream is not None and is_live(self._stream)
        self.verbose = 0 if self._stream is None else 2 if verbose in ("auto", 1) and not live else 1 if verbose == "auto" else int(verbose)
        self._drawn = 0  # how long the line is that stands there unfinished
        self._fitting = False

    @property
    def _stream(self) -> Any:
        return self._given if self._given is not None else sys.stdout

    # the hooks

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._fitting = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._start(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._advance(batch + 1, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._finish(logs)

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self._fitting = False

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        if not self._fitting:
            self._start("Evaluate")

    def on_test_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not self._fitting:
            self._advance(batch + 1, logs)

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        if not self._fitting:
            self._finish(logs)

    def on_predict_begin(self, logs: dict[str, float] | None = None) -> None:
        self._start("Predict")

    def on_predict_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._advance(batch + 1, None)

    def on_predict_end(self, logs: dict[str, float] | None = None) -> None:
        self._finish(None)

    # drawing

    def _start(self, label: str) -> None:
        self.label, self._step = label, 0
        self._began = self._next = self._clock()

    def _advance(self, step: int, logs: dict[str, float] | None) -> None:
        self._step = step
        if self.verbose == 1:
            now = self._clock()
            if now >= self._next:
                self._next = now + BETWEEN_DRAWINGS
                self._put(self._line(now, logs), "")

    def _finish(self, logs: dict[str, float] | None) -> None:
        if not self.verbose:
            return
        spent = self._clock() - self._began
        done = [f"{self._bar(1.0, BAR)} {self._step}/{self._step}"] if self.verbose == 1 else [f"{self._step} steps"]
        self._put("  ".join([self.label, *done, duration(spent), per_step(spent, self._step), *results(logs)]), "\n")

    def _line(self, now: float, logs: dict[str, float] | None) -> str:
        """The running line, as wide as the terminal at most: time per step gives way first, then the bar, then the end of the line."""
        spent, steps, room = now - self._began, self.params["steps"], width() - 1
        if steps is None or self._step > steps:
            return cut("  ".join([self.label, f"{self._step}/?", duration(spent), per_step(spent, self._step), *results(logs)]), room)
        count, left = f"{self._step:>{len(str(steps))}}/{steps}", f"{whole(spent / self._step * (steps - self._step))} left"
        for optional in ([per_step(spent, self._step)], []):
            tail = "  ".join([count, left, *optional, *results(logs)])
            cells = min(BAR, room - len(self.label) - len(tail) - 3)
            if cells >= LEAST_BAR:
                return f"{self.label}  {self._bar(self._step / steps, cells)} {tail}"
        return cut(f"{self.label}  {tail}", room)

    def _bar(self, part: float, cells: int) -> str:
        full, empty = "━─" if can_write(self._stream, "━─…") else "=."
        done = int(part * cells)
        return full * done + empty * (cells - done)

    def _put(self, line: str, end: str) -> None:
        if not can_write(self._stream, line):
            line = line.encode("ascii", "replace").decode()
        before = "\r" if self._drawn else ""
        self._stream.write(before + line + " " * (self._drawn - len(line)) + end)
        self._stream.flush()
        self._drawn = 0 if end else len(line)

    def leave(self, echoed: bool = False) -> None:
        """End an unfinished line, so that what is printed next starts on its own. `echoed`: the terminal wrote ^C there."""
        if self._drawn or (echoed and self.verbose == 1):
            self._stream.write("\n")
            self._stream.flush()
            self._drawn = 0


def is_live(stream: Any) -> bool:
    """Can the line be drawn again with a carriage return: is it a terminal, or a notebook's cell?"""
    return bool(getattr(stream, "isatty", bool)()) or type(stream).__module__.startswith("ipykernel")


def can_write(stream: Any, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width() -> int:
    return shutil.get_terminal_size().columns


def results(logs: dict[str, float] | None) -> list[str]:
    return [f"{name}: {number(value)}" for name, value in (logs or {}).items()]


def number(value: float) -> str:
    """Four digits behind the point, or of a small or large number four in all."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 or value != value else f"{value:.3e}"


def cut(line: str, room: int) -> str:
    return line if len(line) <= room else line[: room - 1] + "…"


def duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 9.95 else whole(seconds)


def whole(seconds: float) -> str:
    """Whole seconds: 12s, 1:05, 2:00:05."""
    rounded = round(seconds)
    hours, minutes = divmod(rounded // 60, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rounded % 60:02d}"
    return f"{minutes}:{rounded % 60:02d}" if minutes else f"{rounded}s"


def per_step(seconds: float, steps: int) -> str:
    each = seconds / max(steps, 1)
    return f"{each:.1f}s/step" if each >= 1 else f"{each * 1e3:.0f}ms/step" if each >= 1e-3 else f"{each * 1e6:.0f}us/step"
