"""What each thread is doing: recording or not, capturing or not; and the context in which kernels run quietly."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class Mode:
    """`run(kernel, *args)` calls a kernel with NumPy's floating-point warnings off, as PyTorch has them.

    It does so in a context of its own, so that the user's `np.errstate` is never touched: this costs nothing measurable,
    where entering `np.errstate` costs a microsecond.

    `capture`, unless it is None, sees what a traced function does. It is called as `capture(row, args, attrs, result)` after every
    op. Before memory is written to it is told `capture.written(tensor)`, when it has taken on the values of another tensor
    `capture.stored(tensor, result)`, and before a value leaves for Python (`bool(t)`, `t.item()`, `t.numpy()`: see `symgrad.escapes`)
    `capture.escaped(tensor, way)`; of tensors made of one number, of any numbers, and of random ones `capture.filled(tensor, number)`,
    `capture.made(tensor)`, `capture.drew(array, draw)` (see `drawn`, and `moved`); before a `.grad` is read, added to or
    replaced `capture.asked_for_grad(tensor)`, `capture.regraded(tensor)` or `capture.replaced(tensor)`, before a tensor's memory gets a
    second one without history `capture.shared(tensor)`, before it gets other memory or another shape `capture.rebound(tensor, how)`,
    before it loses its own history `capture.forgotten(tensor)`, and of a copy of an array that backward will ask for
    `capture.copied(array, copy)`. What code depends on besides tensors it says with `capture.depends(read)` and
    `capture.scalar(key, read)`, which numbers are the same for many parameters with `capture.alike(key, tensor)`, and what it computes from
    such a one with `capture.common(key, tensor, compute)`; work on tensors, in place, that is the same for many with
    `capture.repeat(key, tensors, run)`; a module that is called, or an optimizer, with `capture.entered(module)`; how to take back what it
    does to Python's objects, if the call fails, with `capture.undo(action)`; and what no program can do again with
    `capture.done_once(how)`. `capture.meaning(row, args)` gives what stands for a Function that says what it means,
    `capture.called(node, args, results)` tells it of one that does not, `capture.hooked(tensor, hook, how)` of a hook.
    `capture.printed(text, tensors, named)` tells it of `debug.print`, and says whether there are values to be printed now.
    If `capture.abstract`, kernels do not run: results have a type and no values.

    `depth` is how many derivatives of functions (`func.grad` and the like) are being taken around what runs. Backward passes call
    hooks if `hooks`; those that compute a forward derivative do not.
    """

    __slots__ = ("__weakref__", "anomaly", "capture", "depth", "hooks", "inference", "recording", "run")

    def __init__(self) -> None:
        self.recording = True
        self.inference = False
        self.capture: Any = None
        self.anomaly: Any = None
        self.depth = 0
        self.hooks = True
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        self.run: Callable[..., Any] = context.run

    def differentiate(self, more: int) -> None:
        """One more derivative of a function is being taken in this thread, or one less."""
        with _watching:
            watched.count += more
            self.depth += more

    def watch(self, capture: Any) -> Any:
        """Let a capture look on in this thread from now on, or nobody; gives the one that did."""
        before = self.capture
        with _watching:
            watched.count += (capture is not None) - (before is not None)
            self.capture = capture
        return before


class Count:
    """A number that all threads see."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


changes = Count()
"""How often what compiled programs hold fixed may have changed: what modules consist of, types of tensors, who requires grad."""
watched = Count()
"""How many captures look on, and derivatives of functions are being taken, in all threads: if none, nobody needs to ask for the mode of his
own thread, which takes five times as long."""
_watching = threading.RLock()
compiled: weakref.WeakSet[Any] = weakref.WeakSet()
"""Compiled functions: each has a method `forget_fast_paths`, to be called when something changes that their keys contain, but not the
checks before a fast path, since it nearly never does."""


_TOLD = {
    "stored", "filled", "made", "drew", "depends", "alike", "asked_for_grad", "regraded", "replaced",
    "rebound", "shared", "copied", "forgotten", "entered", "undo", "done_once", "hooked", "draws_from", "moved",
}


class Observer:
    """A capture that only looks on, at `seen`: whatever it is told it tells the capture that was there before."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer

    @property
    def abstract(self) -> bool:
        return self.outer is not None and self.outer.abstract

    @property
    def effects(self) -> bool:
        return self.outer is not None and self.outer.effects

    def __call__(self, row: Any, args: Any, attrs: Any, result: Any) -> None:
        if self.outer is not None:
            self.outer(row, args, attrs, result)
        self.seen(row, result)

    def seen(self, row: Any, result: Any) -> None:
        """An op has run."""

    def written(self, tensor: Any) -> None:
        if self.outer is not None:
            self.outer.written(tensor)

    def __getattr__(self, name: str) -> Any:
        """What else a capture is told."""
        if name not in _TOLD:
            raise AttributeError(name)
        return getattr(self.outer, name) if self.outer is not None else _ignore

    def printed(self, text: str, tensors: Any, named: Any) -> bool:
        return True if self.outer is None else bool(self.outer.printed(text, tensors, named))

    def scalar(self, key: Any, read: Callable[[], Any]) -> Any:
        return read() if self.outer is None else self.outer.scalar(key, read)

    def common(self, key: Any, tensor: Any, compute: Callable[[], Any]) -> Any:
        return compute() if self.outer is None else self.outer.common(key, tensor, compute)

    def repeat(self, key: Any, tensors: Any, run: Callable[[], None]) -> None:
        run()  # each is looked at

    def escaped(self, tensor: Any, way: Any) -> None:
        if self.outer is not None:
            self.outer.escaped(tensor, way)

    def meaning(self, row: Any, args: Any) -> Any:
        return None if self.outer is None else self.outer.meaning(row, args)

    def called(self, node: Any, args: Any, results: Any) -> None:
        if self.outer is not None:
            self.outer.called(node, args, results)


def traced_by() -> Any:
    """The capture of the function that is being traced in this thread, if any. Observers, such as anomaly mode, may stand in front."""
    capture = local.mode.capture
    while isinstance(capture, Observer):
        capture = capture.outer
    return capture


def tracing() -> bool:
    """Is a function being traced in this thread?"""
    return traced_by() is not None


def control() -> Any:
    """What makes a loop a value of the graph, if a function is being traced."""
    made = getattr(traced_by(), "control", None)
    return None if made is None else made()


def _ignore(*args: Any) -> None:
    """There is no capture to tell."""


active: list[Any] = []
"""Captures of the functions that are being traced, in all threads."""


class Bystander(Observer):
    """Watches a thread that began while a function was traced: what such a thread computes from the function's tensors is not recorded."""

    def __init__(self, mode: Mode) -> None:
        super().__init__(None)
        self.mode = weakref.ref(mode)
        with _watching:
            watched.count += 1

    def __call__(self, row: Any, args: Any, attrs: Any, result: Any) -> None:
        self._look(args)

    def escaped(self, tensor: Any, way: Any) -> None:
        self._look((tensor,))

    def _look(self, values: Any) -> None:
        for capture in tuple(active):
            capture.used_elsewhere(values)
        mode = self.mode()
        if not active and mode is not None and mode.capture is self:
            mode.capture = None

    def __del__(self) -> None:
        with _watching:
            watched.count -= 1


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()
        if active:
            self.mode.capture = Bystander(self.mode)


local = _Local()


def drawn(draw: Callable[[], Any], generator: Any) -> Any:
    """The array that `draw` makes of random numbers of a generator; a program that is being traced will draw it anew at every run."""
    capture = local.mode.capture
    if capture is None:
        return np.asarray(draw())

    def again() -> Any:
        return np.asarray(draw())  # arithmetic makes a NumPy number of an array without dimensions

    capture.draws_from(generator)
    array = again()
    capture.drew(array, again)
    return array


def moved(move: Callable[[], Any], generator: Any) -> None:
    """Let `move` put a generator elsewhere in its stream; a program that is being traced will do so at every run."""
    capture = local.mode.capture
    if capture is not None:
        capture.draws_from(generator)
    move()
    if capture is not None:
        capture.moved(move)
