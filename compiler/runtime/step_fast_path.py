"""The fast path of a training step: a program that writes to captured tensors and leaves gradients.

Everything that belongs to the step, not to the call, is looked up once. As in `fast_path`, unusual calls take the slow path, and code is
inlined for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.inputs.pytree import LEAF, unflatten
from symgrad.compiler.inputs.sources import RngInput
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.runtime.effectful_program import EffectfulProgram, rewind_generators
from symgrad.compiler.runtime.executables import LAUNCH_ERRORS
from symgrad.compiler.runtime.program import CACHE_MISS
from symgrad.compiler.runtime.return_types import array_of, returns_arrays
from symgrad.device_tensor import DeviceTensor, allocate as make, has_grad, tensor_from_storage
from symgrad.mode import active_observers, guard_epoch, local

ndarray = np.ndarray


def make_step_fast_path(step: EffectfulProgram, returns: str | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a function that runs the step on leaves that are tensors or arrays, or returns CACHE_MISS; None if the step always takes the
    slow path."""
    draws = [x for x, source in zip(step.graph.inputs[step.arguments :], step.sources, strict=True) if isinstance(source, RngInput)]
    simple = not (step.effects.prints or step.guards.scalar_conditions) and _needs_no_x64(draws, step)
    return StepFastPath(step, returns).run if step.pool is not None and step.kernel.executable is not None and simple else None


def _needs_no_x64(inputs: Sequence[Value], step: EffectfulProgram) -> bool:
    """True if these inputs may be host arrays without JAX's x64 flag, which 64-bit arrays need on XLA."""
    return all(x.dtype.itemsize < 8 for x in inputs) or step.kernel.x64 is None


class StepFastPath:
    """A step with everything that repeated calls need."""

    def __init__(self, step: EffectfulProgram, returns: str | None) -> None:
        count = step.arguments
        self.returns_arrays = returns_arrays(returns, step.guards.requires_grad)
        self.count, self.exclusive_ids, self.guards = count, step.exclusive_ids, step.guards
        self.recording, self.structure, self.results = local.mode.recording, step.structure, step.count
        self.step: Any = step
        self.launcher: Any = step.kernel, step.kernel.executable, step.pool
        self.dtypes = [x.dtype for x in step.graph.inputs[:count]]
        self.accepts_host_arrays = _needs_no_x64(step.graph.inputs[:count], step)
        """True if arguments may be host arrays."""
        self.unpooled_sources = [(source, getattr(source, "read", None)) for source in step.unpooled_sources]
        """Sources of the other kernel inputs, each with the function that reads it if it is a Python scalar, else None."""
        self.draws, self.generators = step.effects.draws, step.effects.generators
        self.grad_presence = [(step.input_tensors[i], had) for i, had in step.effects.grad_presence]

    def run(self, args: tuple[Any, ...]) -> Any:  # noqa: C901  (between kernels each call of a function costs a microsecond)
        if active_observers.count:
            return CACHE_MISS
        mode, guards, (kernel, execute, pool) = local.mode, self.guards, self.launcher
        if pool is not self.step.pool or pool.is_warm:
            return self.run(args) if self._repacked() else CACHE_MISS
        if mode.recording is not self.recording or mode.capture is not None or len(args) != self.count:
            return CACHE_MISS
        if guards.checked_epoch != guard_epoch.count and not guards.check():
            return CACHE_MISS
        operands: list[Any] = []
        host, arrays, own = False, bool(args), self.exclusive_ids
        try:
            for read, value, _ in guards.name_guards:  # inlined check()
                if read() is not value and not guards.check():
                    return CACHE_MISS
            for a in args:  # as FastPathEntry.run() does
                m = a
                if type(a) is not ndarray:
                    m, base, arrays = a._storage, a._base, False
                    if (a._requires_grad if base is None else a.requires_grad) or id(a) in own or id(base) in own:
                        return CACHE_MISS
                if type(m) is ndarray:
                    dtype = self.dtypes[len(operands)]
                    if m.dtype is not dtype and m.dtype != dtype:
                        return CACHE_MISS
                    host = True
                operands.append(m)
        except (AttributeError, ValueError):  # not a tensor; an empty closure cell
            return CACHE_MISS
        for read, value in guards.other_guards:
            if read() != value:
                return CACHE_MISS
        if host and not (self.accepts_host_arrays and (pool.state.intact or not self.step.writes_shared_memory(args, operands))):
            return CACHE_MISS
        if self.grad_presence and any(has_grad(t) is not had for t, had in self.grad_presence):
            return CACHE_MISS
        if self.draws:
            new = self._run_with_draws(operands, args)
        else:
            for source, number in self.unpooled_sources:  # reuse the buffer of an unchanged scalar
                operands.append(
                    source.cached[1] if number is not None and source.cached[0] == number() else source.resolve(kernel, (), args)
                )
            operands += pool.empty_slots
            try:
                new = pool.launch(operands, execute, host)
            except LAUNCH_ERRORS:
                return CACHE_MISS
        if new is CACHE_MISS:
            return CACHE_MISS
        chosen = self.returns_arrays
        if arrays if chosen is None else chosen:
            return unflatten(self.structure, map(array_of, new[: self.results]))
        if self.structure is not LEAF:
            return unflatten(self.structure, map(tensor_from_storage, new[: self.results]))
        t: Any = make(DeviceTensor)  # inlined tensor_from_storage()
        t._storage = new[0]
        t._node = t._base = None
        t._requires_grad = False
        t._version_cell = []
        return t

    def _repacked(self) -> bool:
        """True if the kernel for packed tensors is compiled, and used from now on; if not, the slow path compiles it."""
        step: Any = self.step
        if step.pool.is_warm:
            step.repack()
        pool = step.pool
        if pool.kernel.executable is None:
            return False
        self.launcher = pool.kernel, pool.kernel.executable, pool
        return True

    def _run_with_draws(self, operands: list[Any], args: tuple[Any, ...]) -> Any:
        """Draw random numbers and run the step; if the run is refused or fails, rewind the generators."""
        kernel, execute, pool = self.launcher
        before = [(generator, generator.mark()) for generator in self.generators]
        found: list[Any] = []
        try:
            draws = [draw() for draw in self.draws]
            given = [*operands, *(source.resolve(kernel, draws, args) for source, _ in self.unpooled_sources), *pool.empty_slots]
            return pool.launch(given, execute, True, found)
        except LAUNCH_ERRORS:
            rewind_generators(before)
            return CACHE_MISS
        except BaseException:
            if not found:  # else the interrupt came after the run
                rewind_generators(before)
            raise
