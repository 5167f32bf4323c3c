"""A capture that lets tests read numbers: each number that a test looks at becomes a result of the traced program."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

import symgrad as sg
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.trace.journal import Journal
from symgrad.compiler.trace.tracer import GraphTracer
from symgrad.escapes import AUTOGRAD_GRAD, BACKWARD, MASK, Rebinding
from symgrad.mode import current_capture, local
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor

TESTS = str(Path(__file__).parents[2])
_SLOT = Tensor.__dict__["_array"]


class Session:
    """One test body under one trace: what it read, and what eager code says the derivatives of that are."""

    def __init__(self, backend: str, outside: bool, differentiate: bool) -> None:
        self.backend = backend
        self.outside = outside
        """Whether tensors that the body makes of data are inputs of the program, else they are its constants."""
        self.differentiate = differentiate
        self.capture: Observing | None = None
        self.thread = threading.get_ident()
        self.ops = 0
        """Ops that the body ran."""
        self.checks = 0
        """Functions that gradcheck compiled."""
        self.read: list[np.ndarray] = []
        """What eager code computed, as it was when the test read it."""
        self.lines: list[str] = []
        self.eps: list[float] = []
        """The rounding error of half precision for those that were computed in it, whatever they were cast to afterwards; else 0."""
        self.results: list[Tensor] = []
        """Copies of what was read, which the traced function returns."""
        self.weights: list[np.ndarray | None] = []
        """Cotangents of results that have derivatives."""
        self.gradients: dict[int, np.ndarray] = {}
        """Eager derivatives of all results together in the leaves, by their ids."""
        self.leaves: list[Tensor] = []
        self.inputs: list[Tensor] = []
        """Tensors from outside of the trace."""
        self.last: Tensor | None = None
        """The result of the latest op, as long as nothing was read."""
        self._seen: set[int] = set()
        self._busy = False

    def watches(self) -> bool:
        """Does the trace of the test body see what this thread does now?"""
        capture = self.capture
        return capture is not None and not self._busy and threading.get_ident() == self.thread and current_capture() is capture

    def ran(self, result) -> None:
        """The body has run an op, not the backward of a Function on cotangents that have no values yet."""
        if not self._busy and self.capture.allow_branches:
            self.ops += 1
            self.last = None if self.read else result[0] if isinstance(result, tuple) and result else result

    def observe(self, t: Tensor, line: str) -> None:
        """The test reads the numbers of a tensor."""
        self._busy = True
        try:
            value = self.capture.value(t)
            if id(value) not in self._seen:
                self._seen.add(id(value))
                self._note(t, line)
                self.eps.append(self._coarsest(value))
        finally:
            self._busy = False

    def _note(self, t: Tensor, line: str) -> None:
        self.read.append(_SLOT.__get__(t).copy())
        self.lines.append(line)
        self.weights.append(self._differentiated(t))
        self.results.append((t if self.differentiate else t.detach()).clone())

    def _coarsest(self, value) -> float:
        """The rounding error of half precision, if a value of the graph is computed in it."""
        computed = [v.dtype if isinstance(v.dtype, tuple) else (v.dtype,) for v in Graph((), (value,)).values if v.row is not None]
        return max((eps_of(d) for d in {d for dtypes in computed for d in dtypes} if kind(d) == "f" and d.itemsize == 2), default=0.0)

    def _differentiated(self, t: Tensor) -> np.ndarray | None:
        """Add the eager derivatives of `t` to those of the others; gives its cotangent, if it has derivatives."""
        if not self.differentiate or not local.mode.recording or not t.requires_grad or t.dtype.is_complex:
            return None
        leaves = [x for x in self.capture.input_tensors if x.is_leaf and x.requires_grad and not x.dtype.is_complex]
        if not leaves:
            return None
        weight = np.random.default_rng(len(self.read)).uniform(0.5, 1.5, t.shape).astype(_SLOT.__get__(t).dtype)
        try:
            with unwatched():
                found = sg.autograd.grad([t], leaves, [sg.from_numpy(weight)], retain_graph=True, allow_unused=True)
        except RuntimeError:  # its history is gone, or was written over
            return None
        for leaf, g in zip(leaves, found, strict=True):
            if g is not None:
                self._add(leaf, _SLOT.__get__(g.detach()))
        return weight

    def _add(self, leaf: Tensor, gradient: np.ndarray) -> None:
        if id(leaf) in self.gradients:
            self.gradients[id(leaf)] = self.gradients[id(leaf)] + gradient
        else:
            self.leaves.append(leaf)
            self.gradients[id(leaf)] = gradient.copy()


def eps_of(dtype) -> float:
    """The rounding error of floats and complex numbers of a NumPy type."""
    return float(sg.finfo(sg.from_numpy(np.empty(0, dtype)).dtype).eps)


@contextmanager
def unwatched():
    """What runs here is no part of the trace."""
    mode = local.mode
    capture = mode.swap_capture(None)
    try:
        yield
    finally:
        mode.swap_capture(capture)


class Observing(GraphTracer):
    """The tracer of a test body, which is called once: what would have to hold at a later call does not matter."""

    session: Session

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.journal = KeptJournal()

    def on_op(self, row, args, attrs, result) -> None:
        super().on_op(row, args, attrs, result)
        self.session.ran(result)

    def before_escape(self, t, escape) -> None:
        if t is None or escape.asks is not None or escape in (BACKWARD, AUTOGRAD_GRAD, MASK):
            super().before_escape(t, escape)
        elif self.session.watches():
            self.session.observe(t, escape.what)

    def on_constant(self, t: Tensor) -> None:
        if not self.session.outside:
            super().on_constant(t)

    def before_draw(self, generator) -> None:
        if id(generator) not in self.generators:
            self.journal.marks.append((generator, generator.mark()))
        super().before_draw(generator)

    def on_hook(self, *args) -> None:
        self.session.differentiate = False  # the test would see that its hooks are called once more
        super().on_hook(*args)

    def before_rebind(self, t: Tensor, how: Rebinding) -> None:
        box = self.storages.get(id(_SLOT.__get__(t)))
        if box is None:
            super().on_constant(t)  # no input any more
        elif box.root()[0].external is not None:
            super().before_rebind(t, how)

    def guard_module(self, *args) -> None:
        """Modules and optimizers may change as the body likes."""

    def refuse_replay(self, action, owner="") -> None:
        """All is done once."""


class KeptJournal(Journal):
    """A journal that can still be rolled back after its call has succeeded."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list = []
        """Where generators were in their streams."""

    def clear(self) -> None:
        self.kept = self._written, self._seen, self._histories
        super().clear()

    def restore(self) -> None:
        """Tensors and generators as they were. What the body did to Python's objects stays."""
        self._written, self._seen, self._histories = self.kept
        self.roll_back()
        for generator, mark in self.marks:
            generator.rewind(mark)


@contextmanager
def observed_reads(session: Session):
    """Tests read `t._array` directly, too, and the text of tensors."""

    def get(t: Tensor):
        if session.watches():
            frame = sys._getframe(1)
            if frame.f_code.co_filename.startswith(TESTS):
                session.observe(t, f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return _SLOT.__get__(t)

    def text(t: Tensor) -> None:
        if session.watches():
            session.observe(t, "its text")

    texts = mock.patch("symgrad.conversion.redacted_text", text), mock.patch.object(sys.modules["symgrad.tensor"], "redacted_text", text)
    Tensor._array = property(get, _SLOT.__set__)
    try:
        with texts[0], texts[1]:
            yield
    finally:
        Tensor._array = _SLOT
