"""The fast path of a training step: a program that writes to captured tensors and leaves gradients.

Everything that belongs to the step, not to the call, is looked up once. As in `fast_path`, unusual calls take the slow path. What is
inlined here, and in `buffer_pool`, is for the training steps of `benchmarks/kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.compiler.guards.equal_scalars import EqualScalarsGuard
from symgrad.compiler.guards.guard import Guard
from symgrad.compiler.inputs.sources import RngInput
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.runtime.effects_runner import EffectsRunner
from symgrad.compiler.runtime.executables import LAUNCH_ERRORS
from symgrad.compiler.runtime.interrupts import rewind_generators
from symgrad.compiler.runtime.program import CACHE_MISS, Program
from symgrad.compiler.runtime.return_types import array_of, returns_arrays
from symgrad.device_tensor import DeviceTensor, allocate as make, has_grad, tensor_from_storage
from symgrad.mode import guard_epoch, local, trace_epoch
from symgrad.pytree import LEAF, unflatten

ndarray = np.ndarray


def make_step_fast_path(program: Program, returns: str | None) -> StepFastPath | None:
    """Return the fast path of a program with effects; None if its calls always take the slow path."""
    runner = program.runner
    if runner is None or runner.pool is None or runner.kernel.executable is None or runner.assumptions is not None:
        return None
    sources = zip(program.graph.inputs[runner.inputs.arguments :], runner.inputs.sources, strict=True)
    draws = [x for x, source in sources if isinstance(source, RngInput)]
    simple = not (runner.effects.prints or program.guards.scalar_conditions) and _needs_no_x64(draws, runner)
    return StepFastPath(program, runner, returns) if simple else None


def _needs_no_x64(inputs: Sequence[Value], runner: EffectsRunner) -> bool:
    """True if these inputs may be host arrays without JAX's x64 flag, which 64-bit arrays need on XLA."""
    return all([x.dtype.itemsize < 8 for x in inputs]) or runner.kernel.x64 is None


class StepFastPath:
    """A step with everything that repeated calls need."""

    def __init__(self, program: Program, runner: EffectsRunner, returns: str | None) -> None:
        count = runner.inputs.arguments
        self.returns_arrays = returns_arrays(returns, program.requires_grad)
        self.exclusive_ids, self.guards = runner.inputs.exclusive_ids, program.guards
        self.recording, self.structure, self.results = local.mode.recording, program.structure, program.count
        self.returns_one = program.structure is LEAF and not self.returns_arrays
        """True if the result is one tensor, unless the arguments are arrays."""
        self.runner: Any = runner
        self.launcher: Any = runner.kernel, runner.kernel.executable, runner.pool
        self.dtypes = [x.dtype for x in program.graph.inputs[:count]]
        self.accepts_host_arrays = _needs_no_x64(program.graph.inputs[:count], runner)
        """True if arguments may be host arrays."""
        self.unpooled_sources = [(source, getattr(source, "read", None)) for source in runner.unpooled_sources]
        """Sources of the other kernel inputs, each with the function that reads it if it is a Python scalar, else None."""
        self.draws, self.generators = runner.effects.draws, runner.effects.generators
        grads = [(partial(has_grad, runner.inputs.tensors[i]), had) for i, had in runner.effects.grad_presence]
        self.state_guards: list[Guard] = [*self.guards.other_guards, *grads]
        """(read, value) of each guard on other state than names."""
        self.intact_guards = [guard for guard in self.state_guards if not isinstance(guard[0], EqualScalarsGuard)]
        """Guards that can fail while all tensors are still in the pool, where equal scalars share a slice."""

    def run(self, args: tuple[Any, ...]) -> Any:
        """Run the step on the leaves of a call; return its results, or CACHE_MISS."""
        mode, (kernel, execute, pool), epoch = local.mode, self.launcher, trace_epoch.count
        if pool is not self.runner.pool or pool.is_warm:
            return self.run(args) if self._repacked() else CACHE_MISS
        if mode.recording is not self.recording or mode.capture is not None:
            return CACHE_MISS
        operands: list[Any] = []
        intact = pool.state.intact
        found = self._read(args, operands, intact)
        if found is None:
            return CACHE_MISS
        host, arrays = found
        if host and not (self.accepts_host_arrays and (intact or not self.runner.inputs.write_shared_memory(args, operands))):
            return CACHE_MISS
        if self.draws:
            new = self._run_with_draws(operands, args, epoch)
        else:
            for source, number in self.unpooled_sources:  # reuse the buffer of an unchanged scalar
                operands.append(
                    source.cached[1] if number is not None and source.cached[0] == number() else source.resolve(kernel, (), args)
                )
            operands += pool.empty_slots
            try:
                new = pool.launch(operands, execute, host, None, epoch)
            except LAUNCH_ERRORS:
                return CACHE_MISS
        if new is CACHE_MISS or arrays or not self.returns_one:
            return self._in_structure(new, arrays)
        t: Any = make(DeviceTensor)  # inlined tensor_from_storage()
        t._storage = new[0]
        t._node = t._base = None
        t._requires_grad = False
        t._version_cell = []
        return t

    def _read(self, args: tuple[Any, ...], operands: list[Any], intact: bool) -> tuple[bool, bool] | None:
        """Append the storages of the arguments to `operands`. Return whether one is on the host, and whether all arguments are arrays; None
        if a guard fails or an argument needs the slow path. `intact`: all tensors of the pool are still there."""
        guards, host, arrays, own = self.guards, False, bool(args), self.exclusive_ids
        try:
            if guards.checked_epoch != guard_epoch.count and not guards.check():
                return None
            for read_name, known, _ in guards.name_guards:  # inlined check()
                if read_name() is not known and not guards.check():
                    return None
            for a in args:  # as FastPathEntry.run() does
                m = a
                if type(a) is not ndarray:
                    m, base, arrays = a._storage, a._base, False
                    if (a._requires_grad if base is None else a.requires_grad) or id(a) in own or id(base) in own:
                        return None
                if type(m) is ndarray:
                    dtype = self.dtypes[len(operands)]
                    if m.dtype is not dtype and m.dtype != dtype:
                        return None
                    host = True
                operands.append(m)
        except (AttributeError, ValueError):  # not a tensor; an empty closure cell
            return None
        for read, value in self.intact_guards if intact else self.state_guards:
            if read() != value:
                return None
        return host, arrays

    def _in_structure(self, found: Any, arrays: bool) -> Any:
        """Return the results in their structure, as arrays or tensors; CACHE_MISS stays what it is."""
        if found is CACHE_MISS:
            return CACHE_MISS
        as_arrays = arrays if self.returns_arrays is None else self.returns_arrays
        return unflatten(self.structure, map(array_of if as_arrays else tensor_from_storage, found[: self.results]))

    def _repacked(self) -> bool:
        """True if the kernel for packed tensors is compiled, and used from now on; if not, the slow path compiles it."""
        runner: Any = self.runner
        if runner.pool.is_warm:
            runner.repack()
        pool = runner.pool
        if pool.kernel.executable is None:
            return False
        self.launcher = pool.kernel, pool.kernel.executable, pool
        return True

    def _run_with_draws(self, operands: list[Any], args: tuple[Any, ...], epoch: int) -> Any:
        """Draw random numbers and run the step; if the run is refused or fails, rewind the generators."""
        kernel, execute, pool = self.launcher
        before = [(generator, generator.mark()) for generator in self.generators]
        found: list[Any] = []
        try:
            draws = [draw() for draw in self.draws]
            given = [*operands, *(source.resolve(kernel, draws, args) for source, _ in self.unpooled_sources), *pool.empty_slots]
            return pool.launch(given, execute, True, found, epoch)
        except LAUNCH_ERRORS:
            rewind_generators(before)
            return CACHE_MISS
        except BaseException:
            if not found:  # else the interrupt came after the run
                rewind_generators(before)
            raise
