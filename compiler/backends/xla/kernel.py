"""A graph as an XLA executable.

JAX's global configuration is never touched: a kernel is compiled ahead of its first run, in a thread-local context, and the user's settings
make no difference to it. Passing 64-bit NumPy arrays needs the same context. A run with host operands returns when the work is done,
because until then XLA may read memory that the caller may overwrite afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import KernelRequest
from symgrad.compiler.backends.packing import Packing, types
from symgrad.compiler.backends.xla.compilation_cache import kept_on_disk
from symgrad.compiler.backends.xla.emit import source
from symgrad.compiler.backends.xla.function import function, is_wide, lowered
from symgrad.compiler.backends.xla.packing import packed
from symgrad.compiler.ir.graph import Graph, type_text, walk
from symgrad.compiler.rewrite.pipeline import Off
from symgrad.compiler.support.collector import gc_paused
from symgrad.compiler.support.progress import compiling, stage
from symgrad.device_buffers import DONATED, DonatedError
from symgrad.errors import GraphError
from symgrad.graph import ARRAYS
from symgrad.ops.spec import Meta
from symgrad.typing import Array

ndarray = np.ndarray


def make_kernel(request: KernelRequest) -> XlaKernel:
    options = request.options
    return XlaKernel(request.graph, request.name, options.device, request.donated, options.roll, request.packing, options.without)


class XlaKernel:
    """A kernel that XLA runs: call it with one array for each input of the graph, or for each group of a packing; it returns one array for
    each output or group. The memory of `donated` arrays may be reused for the results."""

    on_device = True

    def __init__(
        self,
        graph: Graph,
        name: str = "forward",
        device: str | None = None,
        donated: Sequence[int] = (),
        roll: bool = True,
        packing: Packing | None = None,
        off: Off = (),
    ) -> None:
        self.times: dict[str, float] = {}
        """Seconds that each stage of compilation took."""
        with stage("load", self.times):
            import jax  # noqa: F401  (the first import takes long)
        with stage("simplify", self.times), gc_paused():
            self.graph = graph = lowered(graph, off if roll else (*off, "roll"))
        self.name = name
        self.device = device
        self.buffer: Callable[[Array], Any] = partial(_device_put, device)
        """Host-to-device copy bound to the device only, so that it does not keep the kernel alive."""
        self.donated = tuple(donated)
        self.wide = _has_64_bit(graph)
        self.packing = packing
        self._packing = packing or Packing.unpacked(graph)
        self._inputs = types(graph.inputs, self._packing.inputs)
        self.wide_inputs = [i for i, (_, dtype) in enumerate(self._inputs) if is_wide(dtype)]
        self.single = len(self._packing.outputs) == 1
        self._lock = threading.RLock()
        self._compiled: Any = None
        self._execute: Callable[..., Any] = self._first

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.array(r) for r in self.launch(arrays)]  # copies, which are writable

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """Run the kernel on host arrays and buffers; return the results as device buffers. `found` gets them as soon as they exist, so that
        an interrupt does not lose them."""
        found = [] if found is None else found
        try:
            for x in operands:
                if x.__class__ is ndarray:
                    self._launch_with_host(operands, found)
                    break
            else:
                found.extend(starmap(self._execute, (operands,)))
        except (RuntimeError, TypeError, ValueError) as error:
            explained = self._explained(error, operands)
            if explained is not error:
                raise explained from error
            if not isinstance(error, ValueError):
                raise
            if _jit_is_off():
                return jitted(lambda: self.launch(operands, found))  # type: ignore[no-any-return]
            placed = self._placed(operands)
            if all(x is y for x, y in zip(operands, placed, strict=True)):
                raise
            return self.launch(placed, found)
        return (found[0],) if self.single else found[0]

    def _launch_with_host(self, operands: Sequence[Any], found: list[Any]) -> None:
        for i in self.wide_inputs:
            if operands[i].__class__ is ndarray:
                in_x64(True, found.extend, starmap(self._execute, (operands,)))
                break
        else:
            found.extend(starmap(self._execute, (operands,)))
        if self.single:
            found[0].block_until_ready()
        elif found[0]:
            found[0][0].block_until_ready()  # the results of one run are ready together

    def _explained(self, error: Exception, operands: Sequence[Any]) -> Exception:
        for x, group in zip(operands, self._packing.inputs, strict=True):
            if hasattr(x, "is_deleted") and x.is_deleted():
                return DonatedError(f"{self.graph.labels[group[0]]} {DONATED}")
        return error

    def _placed(self, operands: Sequence[Any]) -> list[Any]:
        """Return the operands with buffers from other devices moved to this kernel's device."""
        import jax

        there = self.compiled.input_shardings[0]

        def place_one(x: Any, place: Any) -> Any:
            return x if x.__class__ is ndarray or x.sharding == place else jax.device_put(x, place)

        return in_x64(True, lambda: list(map(place_one, operands, there)))  # type: ignore[no-any-return]

    @property
    def executable(self) -> Callable[..., Any] | None:
        """The function that runs the kernel on arrays and buffers; None before the first run."""
        return None if self._execute == self._first else self._execute

    @property
    def x64(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        """Functions that read and set JAX's thread-local x64 flag, which an executable with 64-bit inputs needs for host arrays and Python
        scalars; None if it has no such inputs. JAX's context manager would take as long as the rest of a call."""
        if not self.wide_inputs:
            return None
        import jax

        state: Any = jax.enable_x64
        return state.get_local, state.set_local

    def source(self) -> str:
        return source(self.graph, self.name)

    @property
    def compiled(self) -> Any:
        """The JAX object of the executable, with its text and cost. Compiles the kernel if needed."""
        if self._compiled is None:
            with self._lock, compiling(self.name):
                if self._compiled is None:  # another thread may have done it
                    self._compiled = in_x64(self.wide, lambda: jitted(self._compile))
        return self._compiled

    def _compile(self) -> Any:
        import jax

        with stage("emit", self.times), gc_paused():
            python = self._function()
        with stage("lower", self.times), gc_paused():
            typed = jax.jit(python, donate_argnums=self.donated).lower(*self._types())
        self._check(typed.out_info)
        with stage("XLA", self.times), kept_on_disk(self.graph.hash):
            _forks.check()
            return typed.compile()

    def stablehlo(self) -> str:
        """Return the StableHLO text that XLA compiles."""
        import jax

        lowered = in_x64(self.wide, lambda: jax.jit(self._function(), donate_argnums=self.donated).lower(*self._types()))
        return str(lowered.as_text())

    def _function(self) -> Callable[..., Any]:
        python = function(self.graph, self.name)
        return python if self.packing is None else packed(python, self.graph, self.packing)

    def _types(self) -> list[Any]:
        import jax

        place = None if self.device is None else jax.sharding.SingleDeviceSharding(_device(self.device))
        described: Any = jax.ShapeDtypeStruct
        return [described(shape, dtype, sharding=place) for shape, dtype in self._inputs]

    def _first(self, *operands: Any) -> Any:
        compiled = self.compiled
        found = compiled(*operands)
        ARRAYS.update(map(type, (found,) if self.single else found))
        self._execute = getattr(compiled, "_call", None) or compiled  # set by the first call: a faster entry point
        return found


    def _check(self, found: Any) -> None:
        wanted = [Meta(*t) for t in types(self.graph.outputs, self._packing.outputs)]
        for out, v in zip((found,) if self.single else found, wanted, strict=True):
            if out.dtype != v.dtype or out.shape != v.shape:
                raise GraphError(f"the kernel gives {type_text(out)} where its graph says {type_text(v)}")


def _has_64_bit(graph: Graph) -> bool:
    dtypes = {d for v in (*graph.inputs, *walk(graph)) for d in (v.dtype if isinstance(v.dtype, tuple) else (v.dtype,))}
    imported = (v.row.foreign for v in walk(graph) if v.row is not None and v.row.foreign is not None)
    return any(map(is_wide, dtypes)) or any(f.wide for f in imported)


def _device(name: str | None) -> Any:
    """Return the device "gpu", "cpu:1", ...; None for the default device."""
    import jax

    if name is None:
        return None
    platform, _, index = name.partition(":")
    try:
        return jax.devices(platform)[int(index or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        there = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise ValueError(f"device={name!r} is not there: JAX sees {there} on this machine, and no other device") from error


def _device_put(device: str | None, array: Array) -> Any:
    import jax

    return in_x64(True, jax.device_put, array.copy(), _device(device))  # JAX may copy after device_put returns


def _jit_is_off() -> bool:
    import jax

    settings: Any = jax.config
    return bool(settings.jax_disable_jit)


def jitted(f: Callable[[], Any]) -> Any:
    """Return the result of a function with JAX's jit on. Users switch jit off to step through their JAX functions, but for a kernel JAX
    would run loops step by step, and then refuse it."""
    import jax

    if not _jit_is_off():
        return f()
    with jax.disable_jit(False):
        return f()



class _Forks:
    """Detects forked processes: they lack XLA's threads, so compiling would wait for them forever."""

    started = forked = False

    def check(self) -> None:
        if self.forked:
            raise RuntimeError(
                "XLA cannot compile in a process that was forked after XLA had started: start it with the method 'spawn' or 'forkserver'"
                " (multiprocessing.get_context), or use compile(f, backend='numpy')"
            )
        self.started = True

    def note(self) -> None:
        self.forked = self.started


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forks.note)


def in_x64(enabled: bool, f: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function with JAX's x64 flag on or off. Restores the flag even if an interrupt comes inside JAX's own context
    manager."""
    import jax

    state: Any = jax.enable_x64
    before = state.get_local()
    try:
        with state(enabled):
            return f(*args)
    except BaseException:
        state.set_local(before)
        raise
