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
    op. Before memory is written to it is told `capture.before_write(tensor)`, when it has taken on the values of another tensor
    `capture.after_write(tensor, result)`, and before a value leaves for Python (`bool(t)`, `t.item()`, `t.numpy()`: see `symgrad.escapes`)
    `capture.before_escape(tensor, escape)`; of tensors made of one number, of any numbers, and of random ones `capture.on_fill(tensor,
    number)`, `capture.on_constant(tensor)`, `capture.on_draw(array, draw)` (see `record_draw`, and `record_seek`); before a `.grad` is
    read, added to or replaced `capture.before_grad_read(tensor)`, `capture.before_grad_accumulate(tensor)` or
    `capture.before_grad_replace(tensor)`, before a tensor's memory gets a second one without history `capture.before_alias(tensor)`, before
    it gets other memory or another shape `capture.before_rebind(tensor, how)`, before it loses its own history
    `capture.on_detach_in_place(tensor)`, and of a copy of an array that backward will ask for `capture.on_saved_copy(array, copy)`. What
    code depends on besides tensors it says with `capture.add_guard(read)` and `capture.scalar_input(key, read)`, which numbers are the same
    for many parameters with `capture.merge_equal_scalars(key, tensor)`, and what it computes from such a one with `capture.cse(key, tensor,
    compute)`; work on tensors, in place, that is the same for many with `capture.trace_once(key, tensors, run)`; a module that is called,
    or an optimizer, with `capture.guard_module(module)`; how to take back what it does to Python's objects, if the call fails, with
    `capture.record_undo(action)`; and what no program can do again with `capture.refuse_replay(how)`. `capture.symbolic_call(row, args)`
    gives what stands for a Function that says what it means, `capture.on_custom_function(node, args, results)` tells it of one that does
    not, `capture.on_hook(tensor, hook, how)` of a hook. `capture.on_print(text, tensors, named)` tells it of `debug.print`, and says
    whether there are values to be printed now. If `capture.abstract`, kernels do not run: results have a type and no values.

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

    def change_transform_depth(self, change: int) -> None:
        """One more derivative of a function is being taken in this thread, or one less."""
        with _observers_lock:
            active_observers.count += change
            self.depth += change

    def swap_capture(self, capture: Any) -> Any:
        """Let a capture look on in this thread from now on, or nobody; gives the one that did."""
        before = self.capture
        with _observers_lock:
            active_observers.count += (capture is not None) - (before is not None)
            self.capture = capture
        return before


class SharedCounter:
    """A number that all threads see."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


guard_epoch = SharedCounter()
"""How often what compiled programs hold fixed may have changed: what modules consist of, types of tensors, who requires grad."""
active_observers = SharedCounter()
"""How many captures look on, and derivatives of functions are being taken, in all threads: if none, nobody needs to ask for the mode of his
own thread, which takes five times as long."""
_observers_lock = threading.RLock()
compiled_functions: weakref.WeakSet[Any] = weakref.WeakSet()
"""Compiled functions: each has a method `forget_fast_paths`, to be called when something changes that their keys contain, but not the
checks before a fast path, since it nearly never does."""


_FORWARDED_EVENTS = {
    "after_write", "on_fill", "on_constant", "on_draw", "add_guard", "merge_equal_scalars", "before_grad_read", "before_grad_accumulate",
    "before_grad_replace",
    "before_rebind", "before_alias", "on_saved_copy", "on_detach_in_place", "guard_module", "record_undo", "refuse_replay", "on_hook",
    "before_draw", "on_seek",
}


class Observer:
    """A capture that only looks on, at `on_op`: whatever it is told it tells the capture that was there before."""

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
        self.on_op(row, result)

    def on_op(self, row: Any, result: Any) -> None:
        """An op has run."""

    def before_write(self, tensor: Any) -> None:
        if self.outer is not None:
            self.outer.before_write(tensor)

    def __getattr__(self, name: str) -> Any:
        """What else a capture is told."""
        if name not in _FORWARDED_EVENTS:
            raise AttributeError(name)
        return getattr(self.outer, name) if self.outer is not None else _ignore

    def on_print(self, text: str, tensors: Any, named: Any) -> bool:
        return True if self.outer is None else bool(self.outer.on_print(text, tensors, named))

    def scalar_input(self, key: Any, read: Callable[[], Any]) -> Any:
        return read() if self.outer is None else self.outer.scalar_input(key, read)

    def cse(self, key: Any, tensor: Any, compute: Callable[[], Any]) -> Any:
        return compute() if self.outer is None else self.outer.cse(key, tensor, compute)

    def trace_once(self, key: Any, tensors: Any, run: Callable[[], None]) -> None:
        run()  # each is looked at

    def before_escape(self, tensor: Any, escape: Any) -> None:
        if self.outer is not None:
            self.outer.before_escape(tensor, escape)

    def symbolic_call(self, row: Any, args: Any) -> Any:
        return None if self.outer is None else self.outer.symbolic_call(row, args)

    def on_custom_function(self, node: Any, args: Any, results: Any) -> None:
        if self.outer is not None:
            self.outer.on_custom_function(node, args, results)


def current_capture() -> Any:
    """The capture of the function that is being traced in this thread, if any. Observers, such as anomaly mode, may stand in front."""
    capture = local.mode.capture
    while isinstance(capture, Observer):
        capture = capture.outer
    return capture


def is_tracing() -> bool:
    """Is a function being traced in this thread?"""
    return current_capture() is not None


def control_flow_builder() -> Any:
    """What makes a loop a value of the graph, if a function is being traced."""
    made = getattr(current_capture(), "control_flow", None)
    return None if made is None else made()


def _ignore(*args: Any) -> None:
    """There is no capture to tell."""


active_captures: list[Any] = []
"""Captures of the functions that are being traced, in all threads."""


class ForeignThreadObserver(Observer):
    """Watches a thread that began while a function was traced: what such a thread computes from the function's tensors is not recorded."""

    def __init__(self, mode: Mode) -> None:
        super().__init__(None)
        self.mode = weakref.ref(mode)
        with _observers_lock:
            active_observers.count += 1

    def __call__(self, row: Any, args: Any, attrs: Any, result: Any) -> None:
        self._check_operands(args)

    def before_escape(self, tensor: Any, escape: Any) -> None:
        self._check_operands((tensor,))

    def _check_operands(self, values: Any) -> None:
        for capture in tuple(active_captures):
            capture.check_foreign_use(values)
        mode = self.mode()
        if not active_captures and mode is not None and mode.capture is self:
            mode.capture = None

    def __del__(self) -> None:
        with _observers_lock:
            active_observers.count -= 1


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = Mode()
        if active_captures:
            self.mode.capture = ForeignThreadObserver(self.mode)


local = _Local()


def record_draw(draw: Callable[[], Any], generator: Any) -> Any:
    """The array that `draw` makes of random numbers of a generator; a program that is being traced will draw it anew at every run."""
    capture = local.mode.capture
    if capture is None:
        return np.asarray(draw())

    def again() -> Any:
        return np.asarray(draw())  # arithmetic makes a NumPy number of an array without dimensions

    capture.before_draw(generator)
    array = again()
    capture.on_draw(array, again)
    return array


def record_seek(move: Callable[[], Any], generator: Any) -> None:
    """Let `move` put a generator elsewhere in its stream; a program that is being traced will do so at every run."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_draw(generator)
    move()
    if capture is not None:
        capture.on_seek(move)
