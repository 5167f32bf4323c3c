"""backend="auto": all candidates run the first calls, and the fastest one runs the others.

Candidates are the back ends that are registered as such: NumPy, XLA, and any other with `candidate=True`. NumPy is the first one: it gives
the results until the decision, and another candidate must give the same numbers.

A kernel is a pure function of arrays, so running it twice is safe. The candidates take turns, and the fastest run of each counts: it is the
one that was disturbed least. Compilation does not count. Arguments are measured where they are, since transferring them is part of every
call. Captured tensors are placed where each back end will find them. A kernel may reuse the memory of tensors that are written to, so each
measured run gets copies of these.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import BACKENDS, Kernel, KernelRequest, make_kernel as make_other_kernel
from symgrad.compiler.backends.packing import Packing
from symgrad.compiler.ir.graph import Graph
from symgrad.errors import GraphError
from symgrad.typing import Array

ROUNDS = 5
"""Number of runs of each back end before the decision."""
MAX_SECONDS = 0.05
"""Seconds after which a call stops measuring and leaves the rest to the next call."""
_TOLERANCES = {4: 1e-3, 8: 1e-6, 2: 5e-2}
"""Tolerance between the results of the back ends, relative to the largest one, by the size of a real number in bytes: the back ends sum in
different orders."""


@dataclass(frozen=True)
class BackendChoice:
    """The back end that runs a kernel, and the reason."""

    backend: str
    reason: str
    seconds: dict[str, float]
    """The fastest measured run of each back end."""
    final: bool = True

    def __str__(self) -> str:
        return f"{_title(self.backend)}: {self.reason}"


def make_kernel(request: KernelRequest) -> AutoKernel:
    """Return a kernel that measures the candidates."""
    candidates = {b.name: partial(_make_candidate, b.name, request) for b in BACKENDS.values() if b.candidate}
    return AutoKernel(request.name, candidates, request.resident_inputs)


def _make_candidate(name: str, request: KernelRequest) -> Kernel:
    donated = request.donated if BACKENDS[name].donates else ()
    return make_other_kernel(request.graph, request.name, options=replace(request.options, backend=name), donated=donated)


class AutoKernel:
    """A kernel that delegates to the fastest back end, as soon as that is known. Kernels are made by `candidates`; the first one is
    NumPy's."""

    packing: Packing | None = None

    def __init__(self, name: str, candidates: Mapping[str, Callable[[], Kernel]], resident_inputs: Sequence[int] = ()) -> None:
        self.name = name
        self._first, *others = candidates
        self._host = candidates[self._first]()
        """The kernel that runs calls until the decision."""
        self._unmade = {backend: candidates[backend] for backend in others}
        self._kernels = {self._first: self._host}
        """The kernels that are measured."""
        self._refused: list[str] = []
        self._resident_inputs = set(resident_inputs)
        self._times: dict[str, list[float]] = {backend: [] for backend in candidates}
        self._lock = threading.Lock()
        every = "both" if len(candidates) == 2 else f"all {len(candidates)}"
        self.choice = BackendChoice(self._first, f"{every} are measured on the first calls", {}, final=False)
        self.chosen = self._host

    @property
    def graph(self) -> Graph:
        return self.chosen.graph

    @property
    def donated(self) -> tuple[int, ...]:
        return self.chosen.donated if self.choice.final else ()

    @property
    def on_device(self) -> bool:
        return self.chosen.on_device

    @property
    def executable(self) -> Callable[..., Any] | None:
        return self.chosen.executable if self.choice.final else None

    @property
    def x64(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        return self.chosen.x64

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only one of the back ends has, such as the XLA executable."""
        return getattr(self.__dict__["chosen"], name) if "chosen" in self.__dict__ else object.__getattribute__(self, name)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.array(r) for r in self.launch(arrays)]

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        if not self.choice.final and self._lock.acquire(blocking=False):  # another thread does not wait for the decision
            try:
                if not self.choice.final:
                    return self._measure(operands)
            finally:
                self._lock.release()
        if found is None and self.chosen.donated:  # decided after the caller asked for `donated`
            return self._host.launch([np.asarray(x) for x in operands])
        return self.chosen.launch(operands, found)

    def buffer(self, array: Array, /) -> Any:
        return self.chosen.buffer(array)

    def source(self) -> str:
        return self.chosen.source()

    def _measure(self, operands: Sequence[Any]) -> Sequence[Any]:
        """Run all kernels and return NumPy's result; decide if there were enough runs."""
        arrays = [np.asarray(x) for x in operands]
        found = self._host.launch(arrays)
        for backend, make in [*self._unmade.items()]:
            self._make(backend, make, operands, arrays, found)
            del self._unmade[backend]  # an interrupted one is made again
        if len(self._kernels) == 1:
            return self._decide(self._first, self._refused or ["no other back end is a candidate"], found)
        begin = time.perf_counter()
        while len(self._times[self._first]) < ROUNDS and time.perf_counter() - begin < MAX_SECONDS:
            for backend, kernel in self._kernels.items():
                self._times[backend].append(_seconds(kernel, self._operands(kernel, operands, arrays)))
        if len(self._times[self._first]) < ROUNDS:
            return found
        (best, least), *slower = sorted(((b, min(self._times[b])) for b in self._kernels), key=lambda pair: pair[1])
        times = ", ".join([f"{_readable(least)} a run", *(f"{_title(b)} {_readable(t)}" for b, t in slower)])
        return self._decide(best, [f"{times} (the fastest of {ROUNDS} runs each)", *self._refused], found)

    def _make(self, backend: str, make: Callable[[], Kernel], operands: Sequence[Any], arrays: Sequence[Array], wanted: Any) -> None:
        """Make the kernel of a candidate and run it once; it is measured if its results are those that are wanted."""
        try:
            kernel = make()
            found = [np.asarray(r) for r in kernel.launch(self._operands(kernel, operands, arrays))]
        except (ImportError, GraphError) as error:
            self._refused.append(f"{_title(backend)} cannot run it ({error})")
            return
        if len(found) == len(wanted) and all(map(_close, wanted, found)):
            self._kernels[backend] = kernel
        else:
            self._refused.append(f"{_title(backend)} gives other numbers, {_title(self._first)} those of eager code")

    def _operands(self, kernel: Kernel, operands: Sequence[Any], arrays: Sequence[Array]) -> list[Any]:
        """Return the operands for a kernel: resident inputs where it will find them, and copies of donated inputs, which it consumes."""
        found = list(operands)
        for i in self._resident_inputs.union(kernel.donated):
            found[i] = kernel.buffer(arrays[i]) if kernel.on_device or i in kernel.donated else arrays[i]
        return found

    def _decide(self, backend: str, reasons: Sequence[str], found: Sequence[Any]) -> Sequence[Any]:
        self.chosen = self._kernels[backend]
        self._kernels.clear()
        self.choice = BackendChoice(backend, "; ".join(reasons), {name: min(times) for name, times in self._times.items() if times})
        return found


def _title(backend: str) -> str:
    return BACKENDS[backend].title if backend in BACKENDS else backend


def _seconds(kernel: Kernel, operands: Sequence[Any]) -> float:
    """Return the seconds that a run takes on the fast path: with host operands the results are copied to the host too."""
    execute = kernel.executable or (lambda *given: kernel.launch(given))
    host = any(x.__class__ is np.ndarray for x in operands)
    get, put = kernel.x64 or (_no_switch, _no_switch)
    begin = time.perf_counter()
    before = get() if host else None
    try:
        if host:
            put(True)
        found = execute(*operands)
        if host:
            put(before)
    except BaseException:
        if host:
            put(before)
        raise
    for result in found if isinstance(found, (list, tuple)) else (found,):
        if result.__class__ is not np.ndarray:
            np.array(result) if host else result.block_until_ready()
    return time.perf_counter() - begin


def _no_switch(*_: Any) -> Any:
    """Stands in for the x64 functions of a back end that has none."""


def _close(found: Array, other: Array) -> bool:
    if found.dtype != other.dtype or found.shape != other.shape:
        return False
    if found.dtype.kind in "biu" or not found.size:
        return True
    size = found.dtype.itemsize // (2 if found.dtype.kind == "c" else 1)
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (found, other))
    finite = np.isfinite(a)
    largest = float(np.abs(a[finite]).max(initial=0))
    return bool(np.allclose(a, b, rtol=_TOLERANCES[size], atol=_TOLERANCES[size] * largest, equal_nan=True))


def _readable(seconds: float) -> str:
    scale, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{seconds * scale:.3g} {unit}"
