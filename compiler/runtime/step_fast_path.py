"""The fast path of a step of training: a program that writes to tensors which the function captures, and leaves gradients.

What belongs to the step and not to the call is looked up once. As in `fast_path`, whatever is out of the ordinary takes the slow path, and
the code is plain for speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.inputs.pytree import LEAF, unflatten
from symgrad.compiler.inputs.sources import RngInput
from symgrad.compiler.runtime.effectful_program import EffectfulProgram, rewind_generators
from symgrad.compiler.runtime.executables import LAUNCH_ERRORS
from symgrad.compiler.runtime.program import CACHE_MISS
from symgrad.compiler.runtime.return_types import array_of, returns_arrays
from symgrad.device_tensor import DeviceTensor, allocate as make, has_grad, tensor_from_storage
from symgrad.mode import active_observers, guard_epoch, local

ndarray = np.ndarray


def make_step_fast_path(step: EffectfulProgram, returns: str | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """What runs a step on leaves that are tensors or arrays, or gives CACHE_MISS; None if the step always takes the slow path."""
    draws = [x for x, source in zip(step.graph.inputs[step.arguments :], step.sources, strict=True) if isinstance(source, RngInput)]
    simple = not (step.effects.prints or step.guards.scalar_conditions) and all(x.dtype.itemsize < 8 for x in draws)
    return StepFastPath(step, returns).run if step.pool is not None and step.kernel.executable is not None and simple else None


class StepFastPath:
    """A step, ready to be run again."""

    def __init__(self, step: EffectfulProgram, returns: str | None) -> None:
        count = step.arguments
        self.returns_arrays = returns_arrays(returns, step.guards.requires_grad)
        self.count, self.exclusive_ids, self.guards = count, step.exclusive_ids, step.guards
        self.recording, self.structure, self.results = local.mode.recording, step.structure, step.count
        self.step: Any = step
        self.launcher: Any = step.kernel, step.kernel.executable, step.pool
        self.dtypes = [x.dtype for x in step.graph.inputs[:count]]
        self.accepts_host_arrays = all(dtype.itemsize < 8 for dtype in self.dtypes)
        """Whether arguments may be the host's arrays: those of 64 bits need a context."""
        self.unpooled_sources = [(source, getattr(source, "read", None)) for source in step.unpooled_sources]
        """What the kernel reads besides, and how it is read if it is a number."""
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
            for read, value, _ in guards.name_guards:  # as check() does
                if read() is not value and not guards.check():
                    return CACHE_MISS
            for a in args:  # as gather() does
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
        except (AttributeError, ValueError):  # no tensor; a closure cell that is empty
            return CACHE_MISS
        for read, value in guards.other_guards:
            if read() != value:
                return CACHE_MISS
        if (host and not self.accepts_host_arrays) or (self.grad_presence and any(has_grad(t) is not had for t, had in self.grad_presence)):
            return CACHE_MISS
        if self.draws:
            new = self._run_with_draws(operands, args)
        else:
            for source, number in self.unpooled_sources:  # one that has not changed is known
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
        t: Any = make(DeviceTensor)  # as tensor_from_storage() does
        t._storage = new[0]
        t._node = t._base = None
        t._requires_grad = False
        t._version_cell = []
        return t

    def _repacked(self) -> bool:
        """Whether another kernel of the step, for packed tensors, is ready; the slow path compiles it."""
        step: Any = self.step
        if step.pool.is_warm:
            step.repack()
        pool = step.pool
        if pool.kernel.executable is None:
            return False
        self.launcher = pool.kernel, pool.kernel.executable, pool
        return True

    def _run_with_draws(self, operands: list[Any], args: tuple[Any, ...]) -> Any:
        """What a run with random numbers gives. A run that is refused or fails rewinds the generators."""
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
            if not found:  # else an interrupt has come after the run
                rewind_generators(before)
            raise
