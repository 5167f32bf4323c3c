"""Runs of a program with effects.

The traced call is the first run of a function, with all its effects. Later runs launch the kernel. Its inputs are the arguments, the
current values of captured tensors, freshly drawn random numbers and the current values of Python scalars. Its outputs are the results, the
new values of tensors that were written to, the gradients left in `.grad`, and the values of the path conditions. If a path condition fails,
nothing is written, and the call takes another path.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import BACKENDS, make_kernel
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.nan_origin import active_nan_watch, check_nans
from symgrad.compiler.loops.while_rng import ReplayDraws
from symgrad.compiler.options import Options
from symgrad.compiler.rewrite.pipeline import TRACED
from symgrad.compiler.runtime.assumption_checks import AssumptionChecks
from symgrad.compiler.runtime.autograd_op import AutogradOp, donatable_inputs
from symgrad.compiler.runtime.bound_inputs import BoundInputs
from symgrad.compiler.runtime.buffer_pool import BufferPool
from symgrad.compiler.runtime.commit import Commit
from symgrad.compiler.runtime.donation import Donation
from symgrad.compiler.runtime.interrupts import rewind_generators, run_to_completion
from symgrad.compiler.runtime.path_outcomes import PathOutcomes
from symgrad.compiler.runtime.pool_layout import PoolLayout, can_pool
from symgrad.compiler.trace.effects import Effects
from symgrad.compiler.trace.trace import Trace
from symgrad.device_buffers import DonatedError, donations_in_flight
from symgrad.device_tensor import has_grad, is_donated, storage_of, tensor_from_storage
from symgrad.mode import local

CACHE_MISS = object()
"""Sentinel: guards failed; try the next cache entry."""
_write_lock = RLock()
"""Held from reading tensors until writing them if the kernel does not donate their buffers: else two threads could read the same value and
one update would be lost."""


class EffectsRunner:
    """The kernel of a program with effects, with everything that a run reads and writes."""

    def __init__(
        self, traced: Trace, effects: Effects, graph: Graph, path: PathOutcomes, name: str, options: Options,
        assumptions: AssumptionChecks | None = None,
    ) -> None:
        self.assumptions = assumptions
        self.effects, self.graph, self.path, self.name, self.options = effects, graph, path, name, options
        self.results, self.captured, self.lines = len(traced.graph.outputs), traced.captured, traced.capture.lines
        self.inputs = BoundInputs(traced, effects)
        recorded = Graph(traced.graph.inputs, (*traced.graph.outputs, *effects.histories.values)) if effects.recorded else None
        recorded_op = None if recorded is None else AutogradOp(TRACED.run(recorded, options.without), name, options, lines=self.lines)
        self.commit = Commit(effects, self.inputs, recorded_op)
        self.returned_inputs = dict(traced.returned_inputs)
        """Maps the positions of results that are written inputs to these inputs."""
        self.layout = self._pool_layout()
        donated = self._donated_inputs()
        self.donation = Donation(graph, self.inputs, donated, name)
        self.kernel = (
            make_kernel(graph, options=options, donated=donated, resident_inputs=self.inputs.resident) if self.layout is None
            else self.layout.kernel(small=0)
        )
        self.pool: BufferPool | None = None if self.layout is None else self.layout.pool(self.kernel)
        """The pool of written tensors and gradients, if these are the same for all calls."""
        pooled = self.inputs.written if self.pool is not None else ()
        self.unpooled_sources = [x for i, x in enumerate(self.inputs.sources, self.inputs.arguments) if i not in pooled]

    def _pool_layout(self) -> PoolLayout | None:
        """Return the layout of pooled buffers; None if the program has none."""
        effects, options = self.effects, self.options
        pooled = BACKENDS[options.backend].pools and not (options.donate or self.path.expected)
        if not pooled or not can_pool(effects, self.inputs, self.returned_inputs):
            return None
        return PoolLayout(self.graph, effects, self.inputs, self.results, options)

    def _donated_inputs(self) -> Sequence[int]:
        """Return the inputs that the kernel donates; never one that another path or backward() may still need."""
        keeps = self.path.expected or self.effects.keeps_history
        if self.layout is not None or keeps or not BACKENDS[self.options.backend].donates:
            return ()
        arguments = range(self.inputs.arguments) if self.options.donate else ()
        return donatable_inputs(self.graph, dict.fromkeys((*(i for i, _ in self.effects.writes), *arguments)))

    def repack(self) -> None:
        """Pack small tensors into shared buffers from now on: after many runs the faster step is worth a second compilation."""
        assert self.pool is not None
        assert self.layout is not None
        self.pool.is_warm = False
        kernel = self.layout.kernel()
        if kernel.packing != self.kernel.packing:
            self.kernel, self.pool = kernel, self.layout.pool(kernel)

    @property
    def kernel_key(self) -> Any:
        """What the kernels depend on besides the graph."""
        recorded_op = self.commit.recorded_op
        return recorded_op and recorded_op.graph, self.kernel.donated, self.kernel.packing

    def share_kernels(self, other: EffectsRunner) -> None:
        """Use the kernels of a runner with the same graph and `kernel_key`."""
        self.kernel, self.commit.recorded_op = other.kernel, other.commit.recorded_op
        self.pool = None if self.layout is None else self.layout.pool(self.kernel)

    def explain_grad(self, arguments: Sequence[Any]) -> str | None:
        """Return which input has a `.grad` and had none when the function was traced, or the other way round; None if all are as then."""
        for i, had in self.effects.grad_presence:
            if has_grad(self.inputs.at(i, arguments)) != had:
                return f".grad of {self.graph.labels[i]}: {'a gradient -> none' if had else 'none -> a gradient'}"
        return None

    def check_state(self, arguments: Sequence[Any]) -> bool:
        """True if the program may write what it writes: gradients are present as before, and no memory is shared."""
        inputs = self.inputs
        if self.explain_grad(arguments) is not None or not inputs.are_exclusive(arguments):
            return False
        return not inputs.write_shared_memory(arguments, [storage_of(t) for t in arguments])

    def run(self, arguments: Sequence[Any]) -> Any:
        """Run the program with all its effects and return the results; return CACHE_MISS, without effects, if Python would take another
        path."""
        self.commit.check_histories(arguments)
        before = [(generator, generator.mark()) for generator in self.effects.generators]
        operands: list[Any] = []
        committed: list[Any] = []
        try:
            values = self._draw_and_execute(operands, arguments, before, committed)
            if values is CACHE_MISS:
                rewind_generators(before)
                return CACHE_MISS
            results = [tensor_from_storage(a) for a in values[: self.results]]
            run_to_completion(partial(self.commit.record, operands, arguments, results))
        except BaseException:  # an interrupt after the commit does not undo the run
            if not committed:
                rewind_generators(before)
            raise
        for j, i in self.returned_inputs.items():
            results[j] = self.inputs.at(i, arguments)
        return results

    def _draw_and_execute(
        self, operands: list[Any], arguments: Sequence[Any], before: Sequence[tuple[Any, Any]], committed: list[Any]
    ) -> Any:
        """Draw random numbers, gather the operands and execute.

        `operands` is filled with what the kernel was given, `committed` once there are effects. Retries with fresh draws if a loop needs a
        replay, and after another thread's donation has ended.
        """
        draws = [draw() for draw in self.effects.draws]
        while True:
            try:
                with _write_lock if self.effects.writes and self.pool is None and not self.kernel.donated else nullcontext():
                    operands[:] = self.inputs.operands(arguments, self.kernel, draws, self.unpooled_sources)
                    return self._execute(operands, arguments, committed)
            except ReplayDraws:
                rewind_generators(before)
                draws = [draw() for draw in self.effects.draws]
            except DonatedError:  # by another thread, which is about to leave new values
                donations_in_flight.wait()
                if any(map(is_donated, (*arguments, *self.captured))):
                    raise

    def _execute(self, operands: list[Any], arguments: Sequence[Any], committed: list[Any]) -> Any:
        """Run the kernel, commit its effects and return its outputs; return CACHE_MISS, without effects, if a path condition fails."""
        if local.mode.capture is not None:
            self._check_nans(operands)
        pool, results = self.pool, self.results
        if self.assumptions is not None and not self.path.expected:
            self.assumptions.check(self._storages(operands))
        if pool is not None:
            values = pool.launch(operands + pool.empty_slots, found=committed)
            self.commit.show(iter(values[results:]))
            return values
        if self.kernel.donated:
            write = lambda outputs: self.commit.write(arguments, outputs[results:])
            return self.donation.run(self.kernel, operands, arguments, committed, write)
        return self._execute_copying(operands, arguments, committed)

    def _execute_copying(self, operands: list[Any], arguments: Sequence[Any], committed: list[Any]) -> Any:
        """Run a kernel that does not donate: the new values are written once the path conditions are known to hold."""
        if self.effects.keeps_history:
            for i, _ in self.effects.writes:  # backward may need the values that are overwritten
                operands[i] = operands[i].copy() if isinstance(operands[i], np.ndarray) else operands[i]
        values = self.kernel.launch(operands)
        rest = values[self.results :]
        if not self.path.hold(rest[len(self.effects.values) :]):
            return CACHE_MISS
        if self.assumptions is not None and self.path.expected:
            self.assumptions.check(self._storages(operands))
        if not self.effects.keeps_history:
            operands.clear()  # so that an unaliased array is replaced by its new values instead of copied into

        def write() -> None:
            self.commit.write(arguments, rest)
            committed.append(True)

        run_to_completion(write)
        return values

    def _check_nans(self, operands: Sequence[Any]) -> None:
        """Report the first NaN under an active NaN watch, before anything is written."""
        watch = active_nan_watch()
        if watch is not None:
            check_nans(watch, self.graph, self._storages(operands), self.lines, self.name)

    def _storages(self, operands: Sequence[Any]) -> list[Any]:
        """Return the storage of every input: of pooled ones, which are no operands, too."""
        rest, pooled = iter(operands), self.inputs.written if self.pool is not None else ()
        return [storage_of(self.inputs.tensors[i]) if i in pooled else next(rest) for i in range(len(self.graph.inputs))]
