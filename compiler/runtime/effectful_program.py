"""Programs with effects: what they read besides their arguments, and what they write.

The traced call is the first run of a function, with all its effects. Later runs launch the kernel. Its inputs are the arguments, the
current values of captured tensors, freshly drawn random numbers and the current values of Python scalars. Its outputs are the results, the
new values of tensors that were written to, the gradients left in `.grad`, and the values of the path conditions. If a path condition fails,
nothing is written, and the call takes another path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import BACKENDS, Kernel, make_kernel
from symgrad.compiler.backends.packing import SMALL_BYTES, Packing
from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.guards.guard import Guards
from symgrad.compiler.inputs.pytree import LEAF, unflatten
from symgrad.compiler.inputs.signature import Call, ExampleArguments
from symgrad.compiler.inputs.sources import CapturedInput, GradInput, RngInput, native_order
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.nan_origin import active_nan_watch, check_nans
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.loops.while_rng import LoopDraws, ReplayDraws
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.rewrite.drop_stop_gradients import drop_stop_gradients
from symgrad.compiler.rewrite.stable import stabilise
from symgrad.compiler.runtime.autograd_op import AutogradOp, donatable_inputs
from symgrad.compiler.runtime.buffer_pool import BufferPool
from symgrad.compiler.runtime.program import CACHE_MISS
from symgrad.compiler.support.progress import stage
from symgrad.compiler.trace.effects import Effects, grad_inputs
from symgrad.compiler.trace.trace import Trace
from symgrad.device_buffers import DonatedError, DonatedPlaceholder, donations_in_flight
from symgrad.device_tensor import begin_donation, has_grad, is_donated, storage_of, tensor_from_storage, write_storage
from symgrad.mode import local
from symgrad.tensor import Tensor

_write_lock = RLock()
"""Held from reading tensors until writing them if the kernel does not donate their buffers: else two threads could read the same value and
one update would be lost."""


class EffectfulProgram:
    """One path through a function, as a kernel. A path without effects runs as an AutogradOp, which is recorded."""

    def __init__(
        self, traced: Trace, effects: Effects, call: Call, name: str, options: Options = DEFAULT, times: dict[str, float] | None = None
    ) -> None:
        capture, self.effects, self.call, self.example_arguments = traced.capture, effects, call.without_values(), ExampleArguments(call)
        arguments = self.arguments = len(call.leaves)
        self.name, self.times, self.has_run = name, {} if times is None else times, False
        self.structure = traced.structure
        self.count = len(traced.graph.outputs)
        outputs = (*traced.graph.outputs, *effects.values, *traced.path.values)
        with stage("simplify", self.times):
            graph = stabilise(Graph(traced.graph.inputs, outputs, traced.graph.labels))
            self.graph = verify(graph if effects.keeps_history or not effects.any else drop_stop_gradients(graph))
        self.expected_outcomes, self.condition_texts = traced.path.expected_outcomes, traced.path.texts
        self.failed_condition: str | None = None
        """The path condition that failed at the latest call."""
        self.condition_values = self.graph.outputs[len(self.graph.outputs) - len(self.expected_outcomes) :]
        self.captured, self.lines = traced.captured, capture.lines
        self.guards = Guards(traced)
        self.sources = _input_sources(capture, arguments)
        captured = capture.input_tensors[arguments:]
        self.input_tensors: list[Any] = [None] * arguments  # later calls have other arguments
        self.input_tensors += [source if isinstance(source, GradInput) else t for t, source in zip(captured, self.sources, strict=True)]
        captured = [*captured, *(t for t, _ in effects.equal_scalars)]
        self.exclusive_ids = {id(x) for t in captured for x in (t, t._base) if x is not None} if effects.writes else set()
        """Ids of captured tensors that must not be arguments as well, since the program writes to tensors."""
        self.written_inputs = {i for i, _ in effects.writes}
        self.writes_grads = any(isinstance(self.input_tensors[i], GradInput) for i in self.written_inputs)
        self.has_all_derivatives = not capture.differentiated
        """As in `PureProgram`."""
        self.operation = None if effects.any else AutogradOp(self.graph, name, options, lines=self.lines)
        self.recorded_op = self._make_recorded_op(traced, options) if effects.recorded else None
        """Autograd op that records the history of the results and the written tensors; only its backward runs."""
        self.returned_inputs = dict(traced.returned_inputs)
        """Maps the positions of results that are written inputs to these inputs."""
        resident = [i for i, source in enumerate(self.sources, arguments) if not isinstance(source, RngInput)]
        if self.operation is not None:
            self.operation.resident_inputs = resident
        backend = BACKENDS[options.backend]
        packed = backend.pools and self._can_pool() and not options.donate
        writes = [i for i, _ in effects.writes]
        given = (
            () if packed or not backend.donates or self.expected_outcomes or effects.keeps_history
            else (*writes, *(range(arguments) if options.donate else ()))
        )
        # never donate an input that another path or backward may still need
        donated = donatable_inputs(self.graph, dict.fromkeys(given))
        self.placeholders = {i: DonatedPlaceholder(self.graph.inputs[i].shape, self.graph.inputs[i].dtype) for i in donated}
        self.undonated_writes = [i for i in writes if i not in donated]
        """Written inputs that are not worth donating."""
        self.options, self.resident_inputs = options, resident
        self.kernel = self._kernel(donated, packed) if self.operation is None else self.operation.kernel
        self.pool = None if self.kernel.packing is None else self._make_pool(self.kernel.packing, self.kernel)
        """The pool of written tensors and gradients, if these are the same for all calls."""
        self.pooled_inputs = {i for i, _ in effects.writes} if self.pool is not None else set()
        self.unpooled_sources = [source for i, source in enumerate(self.sources, arguments) if i not in self.pooled_inputs]
        self.ignores_aliasing = not self.guards.scalar_conditions and all(i >= arguments for i, _ in effects.writes)
        """True if the program is valid whichever arguments share memory, and for all values of scalar arguments."""

    def _make_recorded_op(self, traced: Trace, options: Options) -> AutogradOp:
        graph = Graph(traced.graph.inputs, (*traced.graph.outputs, *self.effects.histories.values))
        return AutogradOp(stabilise(graph), self.name, options, lines=self.lines)

    def _kernel(self, donated: Sequence[int], packed: bool) -> Kernel:
        """Make the kernel. At first every tensor has its own buffer, because that compiles faster."""
        return (
            self._packed(self._packing(0)) if packed
            else make_kernel(self.graph, options=self.options, donated=donated, resident_inputs=self.resident_inputs)
        )

    def _packing(self, small: int) -> Packing:
        written, left = self._output_positions()
        return Packing.of(self.graph, written, list(left.values()), small)

    def _packed(self, packing: Packing) -> Kernel:
        first = len(self.graph.inputs) - len(self.effects.writes)
        return make_kernel(
            self.graph, options=self.options, donated=range(first, len(packing.inputs)), resident_inputs=self.resident_inputs,
            packing=packing
        )

    def repack(self) -> None:
        """Pack small tensors into shared buffers from now on: after many runs the faster step is worth a second compilation."""
        assert self.pool is not None
        self.pool.is_warm = False
        packing = self._packing(SMALL_BYTES)
        if packing != self.kernel.packing:
            kernel = self._packed(packing)
            self.kernel, self.pool = kernel, self._make_pool(packing, kernel)

    def _can_pool(self) -> bool:
        """True if the program writes to at least one tensor, and every tensor that it writes to, or whose `.grad` it reads or sets, is
        captured. Path conditions, recorded histories and results that are written tensors rule pooling out."""
        effects, count = self.effects, self.arguments
        written = [i for i, _ in effects.writes]
        if (
            not written or self.expected_outcomes or self.recorded_op or self.operation
            or any(k >= len(written) for _, k in effects.equal_scalars)
        ):
            return False
        if self.returned_inputs or effects.histories.any:
            return False
        touched = {*written, *(i for i, _ in effects.grads), *(i for i, _ in effects.grad_presence)}
        if any(i < count or isinstance(self.input_tensors[i], GradInput) for i in touched):
            return False
        return all(isinstance(self.sources[i - count], CapturedInput) and self.input_tensors[i]._base is None for i in written)

    def _output_positions(self) -> tuple[dict[int, int], dict[int, int]]:
        """Map written inputs to the outputs that are their new values, and inputs to the outputs that are their gradients."""
        effects, first = self.effects, self.count
        written = {i: first + k for k, (i, _) in enumerate(effects.writes)}
        left = [i for i, value in effects.grads if value is not None]
        return written, {i: first + len(written) + k for k, i in enumerate(left)}

    def _make_pool(self, packing: Packing, kernel: Kernel) -> BufferPool:
        written, left = self._output_positions()
        tensors, owners = {i: [self.input_tensors[i]] for i in written}, {k: [self.input_tensors[i]] for i, k in left.items()}
        for t, k in self.effects.equal_scalars:
            tensors[self.effects.writes[k][0]].append(t)
        return BufferPool(kernel, self.graph, packing, tensors, owners, [self.input_tensors[i] for i, v in self.effects.grads if v is None])

    def check_guards(self, tensors: Sequence[Any]) -> bool:
        """True if everything that the path depends on, besides values, is unchanged."""
        for i, had in self.effects.grad_presence:
            if has_grad(self._tensor(i, tensors)) != had:
                return False
        for t in tensors if self.exclusive_ids else ():
            if id(t) in self.exclusive_ids or id(t._base) in self.exclusive_ids:
                return False
        return self.guards.check(tensors) and not self.writes_shared_memory(tensors, [storage_of(t) for t in tensors])

    def writes_shared_memory(self, arguments: Sequence[Any], operands: Sequence[Any]) -> bool:
        """True if an input that is written to shares host memory with another one: an argument with a captured tensor, or a gradient with
        either. Two arguments that share memory are in the key of a call, two captured tensors were refused when it was traced."""
        written, count = self.written_inputs, self.arguments
        if not written or not (self.writes_grads or np.ndarray in [m.__class__ for m in operands]):
            return False
        captured = [storage_of(self._tensor(i, arguments)) for i in range(count, len(self.input_tensors))]
        inputs = [(i, m) for i, m in enumerate((*operands, *captured)) if m.__class__ is np.ndarray]
        pairs = [(inputs[i][0], inputs[j][0]) for i, j, _ in aliased_pairs([m for _, m in inputs])]
        grads = [isinstance(t, GradInput) for t in self.input_tensors]
        for i, j in pairs:  # noqa: SIM110  (an interrupt inside a generator would be unraisable)
            if (i in written or j in written) and (i < count <= j or grads[i] or grads[j]):
                return True
        return False

    def shares_kernels_with(self, other: EffectfulProgram) -> bool:
        """True if both programs can use the same kernels."""
        kinds = [(s.operation is None, s.recorded_op and s.recorded_op.graph, s.kernel.donated, s.kernel.packing) for s in (self, other)]
        return self.graph == other.graph and kinds[0] == kinds[1]

    def share_kernels(self, other: EffectfulProgram) -> None:
        """Use the kernels of a program with the same graph: the guard that failed made no difference to the graph."""
        self.kernel, self.operation, self.recorded_op = other.kernel, other.operation, other.recorded_op
        self.pool = None if self.kernel.packing is None else self._make_pool(self.kernel.packing, self.kernel)

    def _tensor(self, i: int, tensors: Sequence[Any]) -> Any:
        t = tensors[i] if i < self.arguments else self.input_tensors[i]
        return t.current(tensors) if t.__class__ is GradInput else t

    def try_run(self, tensors: Sequence[Any]) -> Any:
        """Run the program with all its effects and return the results; return CACHE_MISS, without effects, if Python would take another
        path."""
        if not self.check_guards(tensors):
            return CACHE_MISS
        if self.operation is not None:
            values = self.operation(*tensors, *self.captured)
            return self._results(values) if self._conditions_hold(map(storage_of, values[self.count :])) else CACHE_MISS
        if self.effects.histories.any:
            self.effects.histories.check(partial(self._tensor, tensors=tensors))
        before = [(generator, generator.mark()) for generator in self.effects.generators]
        operands: list[Any] = []
        committed: list[Any] = []
        try:
            values = self._draw_and_execute(operands, tensors, before, committed)
            if values is CACHE_MISS:
                rewind_generators(before)
                return CACHE_MISS
            results = [tensor_from_storage(a) for a in values[: self.count]]
            run_to_completion(partial(self._finish, operands, tensors, results))
        except BaseException:  # an interrupt after the commit does not undo the run
            if not committed:
                rewind_generators(before)
            raise
        for j, i in self.returned_inputs.items():
            results[j] = self._tensor(i, tensors)
        return self._results(results)

    def _finish(self, operands: Sequence[Any], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Set requires_grad of leaves and record the history, after the new values are written."""
        if self.effects.histories.any:
            self.effects.histories.mark_leaves(partial(self._tensor, tensors=tensors))
        if self.recorded_op is not None and local.mode.recording:
            self._record(operands, tensors, results)

    def _record(self, operands: Sequence[Any], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Record the history of the results and the written tensors."""
        histories, keeps_history = self.effects.histories, self.effects.keeps_history
        saved = operands if keeps_history else self.graph.inputs  # types alone: the function has already called backward()
        inputs = [self._input_tensor(i, x, tensors) for i, x in enumerate(saved)]
        written = [tensor_from_storage(saved[i]) for i, _ in histories.written]
        assert self.recorded_op is not None
        node = self.recorded_op.record(inputs, saved, [*results, *written], [i for i, _ in self.effects.writes], len(written))
        if node is not None and not keeps_history:
            node.saved = node.cells = None
        histories.apply(partial(self._tensor, tensors=tensors), written)

    def _draw_and_execute(
        self, operands: list[Any], tensors: Sequence[Any], before: Sequence[tuple[Any, Any]], committed: list[Any]
    ) -> Any:
        """Draw random numbers, gather the operands and execute.

        `operands` is filled with what the kernel was given, `committed` once there are effects. Retries with fresh draws if a loop needs a
        replay, and after another thread's donation has ended.
        """
        draws = [draw() for draw in self.effects.draws]
        while True:
            try:
                with _write_lock if self.effects.writes and self.pool is None and not self.kernel.donated else nullcontext():
                    operands[:] = self._inputs(tensors, draws)
                    return self._execute(operands, tensors, committed)
            except ReplayDraws:
                rewind_generators(before)
                draws = [draw() for draw in self.effects.draws]
            except DonatedError:  # by another thread, which is about to leave new values
                donations_in_flight.wait()
                if any(map(is_donated, (*tensors, *self.captured))):
                    raise

    def _execute(self, operands: list[Any], tensors: Sequence[Any], committed: list[Any]) -> Any:
        """Run the kernel, commit its effects and return its outputs; return CACHE_MISS, without effects, if a path condition fails."""
        if local.mode.capture is not None:
            self._check_nans(operands)
        pool = self.pool
        if pool is not None:
            values = pool.launch(operands + pool.empty_slots, found=committed)
            self._show(iter(values[self.count :]))
            return values
        if not self.kernel.donated:
            values = self.kernel.launch(operands)
            rest = values[self.count :]
            if not self._conditions_hold(rest[len(self.effects.values) :]):
                return CACHE_MISS
            if not self.effects.keeps_history:
                operands.clear()  # so that an unaliased array is replaced by its new values instead of copied into
            run_to_completion(partial(self._commit_all, tensors, rest, committed))
            return values
        return self._execute_donating(operands, tensors, committed)

    def _execute_donating(self, operands: list[Any], tensors: Sequence[Any], found: list[Any]) -> Any:
        """Run a kernel that donates buffers of tensors: other threads wait until these have their new values."""
        given = self._donated_inputs(operands)
        donations, owners, placeholders = (
            [operands[i] for i in given], [self._tensor(i, tensors) for i in given], [self.placeholders[i] for i in given]
        )
        in_flight: list[bool] = []
        try:
            if (
                not begin_donation(owners, donations, placeholders, in_flight)
                or any(self._tensor(i, tensors)._storage is not operands[i] for i in self.undonated_writes)
            ):
                raise DonatedError(f"{self.name} is run by another thread")
            self.kernel.launch(operands, found)
        finally:
            try:
                self._finalize_donation(tensors, found, [*zip(owners, donations, placeholders, strict=True)], in_flight)
            except BaseException:  # an interrupt: finish what has begun
                self._finalize_donation(tensors, found, [*zip(owners, donations, placeholders, strict=True)], in_flight)
                raise
        return found[0] if len(self.graph.outputs) > 1 else found

    def _finalize_donation(
        self, tensors: Sequence[Any], found: list[Any], donations: list[tuple[Any, Any, Any]], in_flight: list[bool]
    ) -> None:
        """Commit the new values; after a failed run, restore the donated buffers."""
        if in_flight and found:
            self._commit(tensors, (found[0] if len(self.graph.outputs) > 1 else found)[self.count :])
        for t, buffer, placeholder in donations if in_flight else ():
            if t._storage is placeholder:
                t._storage = buffer
        with donations_in_flight.lock:
            donations_in_flight.end(in_flight)

    def _check_nans(self, operands: Sequence[Any]) -> None:
        """Report the first NaN under an active NaN watch, before anything is written."""
        watch = active_nan_watch()
        if watch is not None:
            rest = iter(operands)
            each = [storage_of(self.input_tensors[i]) if i in self.pooled_inputs else next(rest) for i in range(len(self.graph.inputs))]
            check_nans(watch, self.graph, each, self.lines, self.name)

    def _input_tensor(self, i: int, storage: Any, tensors: Sequence[Any]) -> Tensor:
        """Return the tensor behind an input; for inputs without one (random numbers, learning rates), a new tensor around `storage`."""
        if i < self.arguments:
            return tensors[i]  # type: ignore[no-any-return]
        source = self.sources[i - self.arguments]
        return source.tensor if isinstance(source, CapturedInput) else tensor_from_storage(storage)

    def _inputs(self, tensors: Sequence[Any], draws: Sequence[Any]) -> list[Any]:
        operands = [native_order(t._storage) for t in tensors]
        kernel = self.kernel
        operands += [source.resolve(kernel, draws, tensors) for source in self.unpooled_sources]
        if self.effects.keeps_history:
            for i, _ in self.effects.writes:
                # backward may need the values that are overwritten
                operands[i] = operands[i].copy() if operands[i].__class__ is np.ndarray else operands[i]
        return operands

    def _donated_inputs(self, operands: list[Any]) -> list[int]:
        """Return the donated inputs whose buffers belong to their tensors. A host array, or a buffer that is also another operand, is
        replaced by a copy in `operands`, which the kernel consumes instead."""
        twice, own = len(set(map(id, operands))) < len(operands), []
        for i in self.kernel.donated:
            x = operands[i]
            if x.__class__ is np.ndarray or (twice and sum(x is y for y in operands) > 1):
                operands[i] = self.kernel.buffer(np.asarray(x))
            else:
                own.append(i)
        return own

    def _conditions_hold(self, found: Iterable[Any]) -> bool:
        if not self.expected_outcomes:
            return True
        outcomes = [(a.item(), expected) for a, expected in zip(found, self.expected_outcomes, strict=True)]
        for now, expected in outcomes if self.effects.draws else ():
            if isinstance(expected, LoopDraws) and expected.covers(now):
                expected.commit(now)
        for i, (now, expected) in enumerate(outcomes):
            if isinstance(expected, LoopDraws):
                if not expected.covers(now):
                    self.failed_condition = f"path: {self.condition_texts[i]} was less than {expected.drawn_steps}"
                    return False
            elif now != expected:
                self.failed_condition = f"path: {self.condition_texts[i]} was {expected}, now {type(expected)(now)}"
                return False
        return True

    def explain_failure(self, tensors: Sequence[Any]) -> str | None:
        """Return why this program did not fit the latest call; None if no reason is known."""
        for i, had in self.effects.grad_presence:
            if has_grad(self._tensor(i, tensors)) != had:
                return f".grad of {self.graph.labels[i]}: {'a gradient -> none' if had else 'none -> a gradient'}"
        return self.guards.explain_failure(tensors) or self.failed_condition

    def _results(self, found: Sequence[Tensor]) -> Any:
        return found[0] if self.structure is LEAF else unflatten(self.structure, found[: self.count])

    def _commit(self, tensors: Sequence[Any], values: Sequence[Any]) -> None:
        new, input_tensors, arguments = iter(values), self.input_tensors, self.arguments
        for i, _ in self.effects.writes:
            t = input_tensors[i] if i >= arguments else tensors[i]
            write_storage(t if t.__class__ is not GradInput else t.current(tensors), next(new))
        for i, value in self.effects.grads:
            t = input_tensors[i] if i >= arguments else tensors[i]
            t._grad = None if value is None else tensor_from_storage(next(new))
        for t, k in self.effects.equal_scalars:
            write_storage(t, values[k].copy() if values[k].__class__ is np.ndarray else values[k])
        self._show(new)

    def _commit_all(self, tensors: Sequence[Any], values: Sequence[Any], committed: list[Any]) -> None:
        """Commit, and append to `committed`."""
        self._commit(tensors, values)
        committed.append(True)

    def _show(self, values: Iterator[Any]) -> None:
        for printed in self.effects.prints:
            printed.show(values)


def _input_sources(capture: Any, arguments: int) -> list[Any]:
    """Return the source of each input besides the arguments: a tensor that was some tensor's `.grad` becomes a GradInput, which reads the
    current `.grad`."""
    sources = list(capture.sources)
    for k, i in grad_inputs(capture).items():
        sources[k - arguments] = GradInput(i if i < arguments else capture.input_tensors[i])
    return sources


def rewind_generators(marks: Sequence[tuple[Any, Any]]) -> None:
    """Rewind generators, so that a replay draws the same random numbers."""
    run_to_completion(lambda: [generator.rewind(mark) for generator, mark in marks])


def run_to_completion(action: Callable[[], Any]) -> None:
    """Run an idempotent action to its end, even if it is interrupted: repeat it, then re-raise the interrupt."""
    try:
        action()
    except Exception:
        raise
    except BaseException:
        action()
        raise
