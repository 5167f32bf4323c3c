"""backend="auto": both back ends run the first calls, and the faster one runs the others.

A kernel is a pure function of arrays, so running it twice is safe. The two take turns, and the fastest run of each counts: it is the one
that was disturbed least. Compilation does not count. Arguments are measured where they are, since transferring them is part of every call.
Captured tensors are placed where each back end will find them. XLA may reuse the memory of tensors that are written to, so each measured
run gets copies of these.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.backends.numpy.kernel import HostKernel as HostKernel
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
        return f"{_NAMES[self.backend]}: {self.reason}"


_NAMES = {"numpy": "NumPy", "xla": "XLA"}


class AutoKernel:
    """A kernel that delegates to the faster back end, as soon as that is known."""

    packing: Packing | None = None

    def __init__(self, graph: Graph, name: str, xla: Callable[[], Kernel], resident_inputs: Sequence[int] = ()) -> None:
        self.name = name
        self.choice = BackendChoice("numpy", "both are measured on the first calls", {}, final=False)
        self._host: Kernel = HostKernel(graph, name)
        self._make_xla = xla
        self._resident_inputs = set(resident_inputs)
        self._xla: Kernel | None = None
        self._times: dict[str, list[float]] = {"numpy": [], "xla": []}
        self._lock = threading.Lock()
        self.chosen: Kernel = self._host
        """The kernel that runs calls: NumPy's until the decision."""

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

    def buffer(self, array: Array) -> Any:
        return self.chosen.buffer(array)

    def source(self) -> str:
        return self.chosen.source()

    def _measure(self, operands: Sequence[Any]) -> Sequence[Any]:
        """Run both kernels and return NumPy's result; decide if there were enough runs."""
        arrays = [np.asarray(x) for x in operands]
        found = self._host.launch(arrays)
        if self._xla is None:
            try:
                self._xla = self._make_xla()
                other = [np.asarray(r) for r in self._xla.launch(self._xla_operands(operands, arrays))]
            except (ImportError, GraphError) as error:
                return self._decide("numpy", f"XLA cannot run it ({error})", found)
            if not all(map(_close, found, other)):
                return self._decide("numpy", "XLA gives other numbers, NumPy those of eager code", found)
        here = [arrays[i] if i in self._resident_inputs else x for i, x in enumerate(operands)]
        begin = time.perf_counter()
        while len(self._times["xla"]) < ROUNDS and time.perf_counter() - begin < MAX_SECONDS:
            self._times["numpy"].append(_seconds(self._host, here))
            self._times["xla"].append(_seconds(self._xla, self._xla_operands(operands, arrays)))
        if len(self._times["xla"]) < ROUNDS:
            return found
        fastest = {name: min(times) for name, times in self._times.items()}
        best = min(fastest, key=fastest.__getitem__)
        (worst,) = fastest.keys() - {best}
        times = f"{_readable(fastest[best])} a run, {_NAMES[worst]} {_readable(fastest[worst])} (the fastest of {ROUNDS} runs each)"
        return self._decide(best, times, found)

    def _xla_operands(self, operands: Sequence[Any], arrays: Sequence[Array]) -> list[Any]:
        """Return the operands for the XLA kernel: copies of resident and donated inputs, so that it may consume them."""
        assert self._xla is not None
        own = self._resident_inputs.union(self._xla.donated)
        return [self._xla.buffer(arrays[i]) if i in own else x for i, x in enumerate(operands)]

    def _decide(self, backend: str, reason: str, found: Sequence[Any]) -> Sequence[Any]:
        if backend == "xla" and self._xla is not None:
            self.chosen = self._xla
        else:
            self._xla = None
        self.choice = BackendChoice(backend, reason, {name: min(times) for name, times in self._times.items() if times})
        return found


def _seconds(kernel: Kernel, operands: Sequence[Any]) -> float:
    """Return the seconds that a run takes on the fast path: with host operands the results are copied to the host too."""
    execute, host = kernel.executable, any(x.__class__ is np.ndarray for x in operands)
    assert execute is not None
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
    if found.dtype.kind in "biu" or not found.size:
        return found.dtype == other.dtype and found.shape == other.shape
    size = found.dtype.itemsize // (2 if found.dtype.kind == "c" else 1)
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (found, other))
    finite = np.isfinite(a)
    largest = float(np.abs(a[finite]).max(initial=0))
    return bool(np.allclose(a, b, rtol=_TOLERANCES[size], atol=_TOLERANCES[size] * largest, equal_nan=True))


def _readable(seconds: float) -> str:
    scale, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{seconds * scale:.3g} {unit}"
