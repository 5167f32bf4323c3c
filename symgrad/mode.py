"""The mode of each thread: grad mode, the active tracer, and the context in which kernels run without NumPy warnings."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.observer import Observer

if TYPE_CHECKING:
    from symgrad.escapes import Escape
    from symgrad.ops.generator import Generator
    from symgrad.ops.spec import Row
    from symgrad.tensor import Tensor
    from symgrad.tracer import ControlFlowBuilder, Tracer
    from symgrad.typing import Array


class Mode:
    """The mode of one thread.

    `run(kernel, *args)` calls a kernel with NumPy's floating-point warnings off, as in PyTorch. It runs the kernel in a context of its own,
    so that the user's `np.errstate` is never touched: this costs nothing measurable, whereas entering `np.errstate` costs a microsecond.

    `capture`, unless it is None, is the active tracer: it is told what a traced or observed function does (see `symgrad.tracer`).

    `depth` is the number of active function transforms (`func.grad` and the like). Backward passes call hooks if `hooks`; those that
    compute a forward derivative do not.
    """

    __slots__ = ("__weakref__", "anomaly", "capture", "depth", "hooks", "inference", "recording", "run")

    def __init__(self) -> None:
        self.recording = True
        self.inference = False
        self.capture: Tracer | None = None
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

    def swap_capture(self, capture: Tracer | None) -> Tracer | None:
        """Set the tracer of this thread, or None; return the previous one."""
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


class NoFastPaths:
    """Context manager during which no thread begins a fast path of compiled functions: its runs would mix with the effects of a trace."""

    def __enter__(self) -> None:
        with _observers_lock:
            active_observers.count += 1
            trace_epoch.count += 1

    def __exit__(self, *error: object) -> None:
        with _observers_lock:
            active_observers.count -= 1
            trace_epoch.count += 1


guard_epoch = SharedCounter()
"""Bumped whenever something that compiled programs hold fixed may have changed: the contents of modules, tensor types, requires_grad."""
active_observers = SharedCounter()
"""Number of active tracers and function transforms in all threads: if it is zero, code need not look up the mode of its own thread, which
takes five times as long."""
trace_epoch = SharedCounter()
"""Bumped when a trace begins and when it ends: guards that a thread has read at another epoch may have seen the middle of a trace."""
_observers_lock = threading.RLock()
compiled_functions: weakref.WeakSet[Any] = weakref.WeakSet()
"""All compiled functions. Their method `forget_fast_paths` must be called when something changes that is part of their keys but not checked
on the fast path, because it hardly ever changes."""


def current_capture() -> Tracer | None:
    """Return the tracer of the function that is being traced in this thread, if any. Observers, such as anomaly mode, may wrap it."""
    capture = local.mode.capture
    while capture is not None and isinstance(capture, Observer):
        capture = capture.outer
    return capture


def is_tracing() -> bool:
    """True if a function is being traced in this thread."""
    return current_capture() is not None


def control_flow_builder() -> ControlFlowBuilder | None:
    """Return the object that builds graph values for loops and branches, if a function is being traced; else None."""
    capture = local.mode.capture
    return None if capture is None else capture.control_flow()


active_captures: list[Tracer] = []
"""The tracers of the functions that are being traced, in all threads."""


class ForeignThreadObserver(Observer):
    """Checks a thread that was started during a trace: what it computes from the function's tensors would not be recorded."""

    def __init__(self, mode: Mode) -> None:
        super().__init__(None)
        self.mode = weakref.ref(mode)
        with _observers_lock:
            active_observers.count += 1

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        self._check_operands(args)

    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        self._check_operands((source,))

    def _check_operands(self, values: Iterable[Any]) -> None:
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


def record_draw(draw: Callable[[], Any], generator: Generator) -> Any:
    """Return the array that `draw` draws from a generator; a traced program draws it again at every run."""
    capture = local.mode.capture
    if capture is None:
        return np.asarray(draw())

    def again() -> Array:
        return np.asarray(draw())  # arithmetic turns an array of no dimensions into a NumPy scalar

    capture.before_draw(generator)
    array = again()
    capture.on_draw(array, again)
    return array


def record_seek(move: Callable[[], object], generator: Generator) -> None:
    """Call `move`, which moves a generator within its stream; a traced program repeats it at every run."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_draw(generator)
    move()
    if capture is not None:
        capture.on_seek(move)
