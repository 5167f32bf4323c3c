"""Ctrl-C while a model trains: the first one is a wish, to be granted after the running step; the second one is an exception."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt:
    """Listens to SIGINT while it is entered, and then gives it back to who listened before.

    Outside the main thread Python lets nobody listen, and a process that ignores SIGINT (nohup) goes on ignoring it.
    """

    def __init__(self) -> None:
        self._wanted = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        before = signal.getsignal(signal.SIGINT)
        if before is not None and before != signal.SIG_IGN:
            try:
                signal.signal(signal.SIGINT, self._heard)
                self._before = before
            except ValueError:  # not the main thread
                pass
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._give_back()

    def _give_back(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._wanted:
            self._give_back()
            signal.raise_signal(number)
        self._wanted = True

    def wanted(self) -> bool:
        """Did the user press Ctrl-C?"""
        return self._wanted

    def until(self, batches: Iterator[T]) -> Iterator[T]:
        """The batches up to the wish. An error in fetching one after it is no error: Ctrl-C ends a loader's workers too."""
        while not self.wanted():
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception:
                if self.wanted():
                    return
                raise
            yield batch
