"""The mode of each thread: grad mode, the active capture, and the context in which kernels run without NumPy warnings."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class Mode:
    """The mode of one thread.

    `run(kernel, *args)` calls a kernel with NumPy's floating-point warnings off, as in PyTorch. It runs the kernel in a context of its own,
    so that the user's `np.errstate` is never touched: this costs nothing measurable, whereas entering `np.errstate` costs a microsecond.

    `capture`, unless it is None, observes what a traced function does. `capture(row, args, attrs, result)` is called after every op. Its
    other events are:

        before_write(tensor)                  memory is about to be written to
        after_write(tensor, result)           a tensor has taken on the values of another one
        before_escape(tensor, escape)         a value is about to leave for Python: bool(t), t.item(), t.numpy(); see `symgrad.escapes`
        on_fill(tensor, number)               a tensor was filled with one number
        on_constant(tensor)                   a tensor was made from Python or NumPy data
        before_draw(generator)                random numbers are about to be drawn; see `record_draw`
        on_draw(array, draw)                  random numbers were drawn, and draw() draws them again
        on_seek(move)                         a generator was moved within its stream; see `record_seek`
        before_grad_read(tensor)              `.grad` is about to be read
        before_grad_accumulate(tensor)        `.grad` is about to be added to
        before_grad_replace(tensor)           `.grad` is about to be replaced
        before_alias(tensor)                  a second tensor without history is about to share the memory
        before_rebind(tensor, how)            a tensor is about to get other memory or another shape
        on_detach_in_place(tensor)            a tensor is about to lose its history: detach_()
        on_saved_copy(array, copy)            an array that backward needs was copied
        on_custom_function(node, args, res)   a Function without a symbolic definition has run, with these results
        on_hook(tensor, hook, how)            a hook for the gradient of a tensor is registered
        on_print(text, tensors, named)        debug.print(); returns whether to print the values now

    Code that is aware of tracing calls:

        add_guard(read)                       the code depends on the result of read()
        scalar_input(key, read)               returns a Python scalar as an input of the program
        merge_equal_scalars(key, tensor)      the scalar is the same for many parameters
        cse(key, tensor, compute)             returns compute(), evaluated once for equal values of the tensor
        trace_once(key, tensors, run)         runs in-place work that is the same for many tensors
        guard_module(module)                  the code depends on a module or an optimizer
        record_undo(action)                   action() undoes a change to Python objects if the call fails
        refuse_replay(how)                    the code does something that no program can repeat
        symbolic_call(row, args)              returns the result of a Function with a symbolic definition; None if it has none

    If `capture.abstract`, kernels do not run: results have a type and no values.

    `depth` is the number of active function transforms (`func.grad` and the like). Backward passes call hooks if `hooks`; those that
    compute a forward derivative do not.
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
        """Enter (+1) or leave (-1) a function transform in this thread."""
        with _observers_lock:
            active_observers.count += change
            self.depth += change

    def swap_capture(self, capture: Any) -> Any:
        """Set the capture of this thread, or None; return the previous one."""
        before = self.capture
        with _observers_lock:
            active_observers.count += (capture is not None) - (before is not None)
            self.capture = capture
        return before


class SharedCounter:
    """A counter that all threads share."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


guard_epoch = SharedCounter()
"""Bumped whenever something that compiled programs hold fixed may have changed: the contents of modules, tensor types, requires_grad."""
active_observers = SharedCounter()
"""Number of active captures and function transforms in all threads: if it is zero, code need not look up the mode of its own thread, which
takes five times as long."""
_observers_lock = threading.RLock()
compiled_functions: weakref.WeakSet[Any] = weakref.WeakSet()
"""All compiled functions. Their method `forget_fast_paths` must be called when something changes that is part of their keys but not checked
on the fast path, because it hardly ever changes."""


_FORWARDED_EVENTS = {
    "after_write", "on_fill", "on_constant", "on_draw", "add_guard", "merge_equal_scalars", "before_grad_read", "before_grad_accumulate",
    "before_grad_replace",
    "before_rebind", "before_alias", "on_saved_copy", "on_detach_in_place", "guard_module", "record_undo", "refuse_replay", "on_hook",
    "before_draw", "on_seek",
}


class Observer:
    """A capture that only observes ops, in `on_op`, and forwards every event to the capture that was active before."""

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
        """Called after an op has run."""

    def before_write(self, tensor: Any) -> None:
        if self.outer is not None:
            self.outer.before_write(tensor)

    def __getattr__(self, name: str) -> Any:
        """Forward other events to the outer capture, or ignore them."""
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
        run()  # so that every op is observed

    def before_escape(self, tensor: Any, escape: Any) -> None:
        if self.outer is not None:
            self.outer.before_escape(tensor, escape)

    def symbolic_call(self, row: Any, args: Any) -> Any:
        return None if self.outer is None else self.outer.symbolic_call(row, args)

    def on_custom_function(self, node: Any, args: Any, results: Any) -> None:
        if self.outer is not None:
            self.outer.on_custom_function(node, args, results)


def current_capture() -> Any:
    """Return the capture of the function that is being traced in this thread, if any. Observers, such as anomaly mode, may wrap it."""
    capture = local.mode.capture
    while isinstance(capture, Observer):
        capture = capture.outer
    return capture


def is_tracing() -> bool:
    """True if a function is being traced in this thread."""
    return current_capture() is not None


def control_flow_builder() -> Any:
    """Return the object that builds graph values for loops and branches, if a function is being traced; else None."""
    made = getattr(current_capture(), "control_flow", None)
    return None if made is None else made()


def _ignore(*args: Any) -> None:
    """Ignore an event: there is no capture."""


active_captures: list[Any] = []
"""The captures of the functions that are being traced, in all threads."""


class ForeignThreadObserver(Observer):
    """Checks a thread that was started during a trace: what it computes from the function's tensors would not be recorded."""

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
    """Return the array that `draw` draws from a generator; a traced program draws it again at every run."""
    capture = local.mode.capture
    if capture is None:
        return np.asarray(draw())

    def again() -> Any:
        return np.asarray(draw())  # arithmetic turns an array of no dimensions into a NumPy scalar

    capture.before_draw(generator)
    array = again()
    capture.on_draw(array, again)
    return array


def record_seek(move: Callable[[], Any], generator: Any) -> None:
    """Call `move`, which moves a generator within its stream; a traced program repeats it at every run."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_draw(generator)
    move()
    if capture is not None:
        capture.on_seek(move)
