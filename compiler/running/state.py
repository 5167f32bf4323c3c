"""Programs with effects: what they read besides their arguments, and what they leave behind.

A traced call of a function is its first run, with all its effects. Later runs are the kernel's: it gets the arguments, the tensors that
the function brings along as they are now, random numbers drawn anew and scalars read anew; it gives the results, the new values of tensors
that were written to, the gradients that were left in `.grad`, and the answers that Python asked for on its way. If those answers are other
ones, nothing is written, and the call takes another path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from symgrad.buffers import Donated, InUse, giving
from symgrad.compiler.backend import Kernel, make_kernel
from symgrad.compiler.control.counted import Redraw, Steps
from symgrad.compiler.graph.ir import Graph
from symgrad.compiler.graph.packing import SMALL, Packing
from symgrad.compiler.graph.verify import verify
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.passes.stabilise import stabilise
from symgrad.compiler.passes.undetached import undetached
from symgrad.compiler.progress import stage
from symgrad.compiler.running.lease import Lease
from symgrad.compiler.running.operation import Operation, usable
from symgrad.compiler.running.program import MISS
from symgrad.compiler.tracing.aliases import overlaps
from symgrad.compiler.tracing.effects import Effects, gradients
from symgrad.compiler.tracing.guards import Guards
from symgrad.compiler.tracing.nans import inspect, looked_for
from symgrad.compiler.tracing.signature import Call, Given
from symgrad.compiler.tracing.sources import Captured, Draw, Gradient, native_order
from symgrad.compiler.tracing.trace import Trace
from symgrad.compiler.tracing.tree import LEAF, unflatten
from symgrad.mode import local
from symgrad.resident import has_gradient, is_gone, memory, resident, take, write
from symgrad.tensor import Tensor

_TURN = RLock()
"""Held from reading tensors to writing them, where the kernel is not given their memory: else two threads read one value, and add to it."""


class Step:
    """One path through a function, as a kernel. A path without effects is an operation, and is recorded."""

    def __init__(
        self, traced: Trace, effects: Effects, call: Call, name: str, options: Options = DEFAULT, times: dict[str, float] | None = None
    ) -> None:
        capture, self.effects, self.call, self.given = traced.capture, effects, call.without_values(), Given(call)
        arguments = self.arguments = len(call.leaves)
        self.name, self.times, self.ran = name, {} if times is None else times, False
        self.structure = traced.structure
        self.count = len(traced.graph.outputs)
        outputs = (*traced.graph.outputs, *effects.values, *traced.path.values)
        with stage("simplify", self.times):
            graph = stabilise(Graph(traced.graph.inputs, outputs, traced.graph.labels))
            self.graph = verify(graph if effects.lasting or not effects.any else undetached(graph))
        self.answers, self.questions = traced.path.outcomes, traced.path.questions
        self.missed: str | None = None
        """Which question had another answer at the latest call."""
        self.asked = self.graph.outputs[len(self.graph.outputs) - len(self.answers) :]
        self.captured, self.lines = traced.captured, capture.lines
        self.guards = Guards(traced)
        self.sources = _sources(capture, arguments)
        brought = capture.outside[arguments:]
        self.outside: list[Any] = [None] * arguments  # the arguments of later calls are others
        self.outside += [source if isinstance(source, Gradient) else t for t, source in zip(brought, self.sources, strict=True)]
        brought = [*brought, *(t for t, _ in effects.alike)]
        self.own = {id(x) for t in brought for x in (t, t._base) if x is not None} if effects.writes else set()
        """Tensors that must not be arguments, too, since something is written to."""
        self.added_to = [x for x in (self.outside[i] for i, _ in effects.writes) if isinstance(x, Gradient)]
        """Gradients that are written to: each must have memory of its own."""
        self.whole = not capture.differentiated
        """As a program's."""
        self.operation = None if effects.any else Operation(self.graph, name, options, lines=self.lines)
        self.recorder = self._recorder(traced, options) if effects.recorded else None
        """What the results, and tensors that are written to, are recorded as; only its backward runs."""
        self.same = dict(traced.same)
        """Results that are tensors which were written to, by their positions."""
        kept = [i for i, source in enumerate(self.sources, arguments) if not isinstance(source, Draw)]
        if self.operation is not None:
            self.operation.kept = kept
        packed = options.backend == "xla" and self._is_simple() and not options.donate
        writes = [i for i, _ in effects.writes]
        given = () if packed or self.answers or effects.lasting else (*writes, *(range(arguments) if options.donate else ()))
        donated = usable(self.graph, dict.fromkeys(given))  # but not what is needed if the path turns out to be another, or for backward
        self.in_use = {i: InUse(self.graph.inputs[i].shape, self.graph.inputs[i].dtype) for i in donated}
        self.numbers = [i for i in writes if i not in donated]
        """What is written to, and is not worth giving away."""
        self.options, self.kept = options, kept
        self.kernel = self._kernel(donated, packed) if self.operation is None else self.operation.kernel
        self.lease = None if self.kernel.packing is None else self._lease(self.kernel.packing, self.kernel)
        """What it writes to, and the gradients that it leaves, if that is the same for all calls."""
        self.leased = {i for i, _ in effects.writes} if self.lease is not None else set()
        self.others = [source for i, source in enumerate(self.sources, arguments) if i not in self.leased]
        self.free = not self.guards.conditions and all(i >= arguments for i, _ in effects.writes)
        """Whether it makes no difference to it which arguments share memory, and what numbers are among them."""

    def _recorder(self, traced: Trace, options: Options) -> Operation:
        graph = Graph(traced.graph.inputs, (*traced.graph.outputs, *self.effects.histories.values))
        return Operation(stabilise(graph), self.name, options, lines=self.lines)

    def _kernel(self, donated: Sequence[int], packed: bool) -> Kernel:
        """At first every tensor has its own buffer: that compiles faster."""
        return self._packed(self._packing(0)) if packed else make_kernel(self.graph, options=self.options, donated=donated, kept=self.kept)

    def _packing(self, small: int) -> Packing:
        written, left = self._places()
        return Packing.of(self.graph, written, list(left.values()), small)

    def _packed(self, packing: Packing) -> Kernel:
        first = len(self.graph.inputs) - len(self.effects.writes)
        return make_kernel(self.graph, options=self.options, donated=range(first, len(packing.inputs)), kept=self.kept, packing=packing)

    def pack(self) -> None:
        """Let small tensors share buffers from now on: a step that has run often enough is worth compiling once more."""
        assert self.lease is not None
        self.lease.warm = False
        packing = self._packing(SMALL)
        if packing != self.kernel.packing:
            kernel = self._packed(packing)
            self.kernel, self.lease = kernel, self._lease(packing, kernel)

    def _is_simple(self) -> bool:
        """Whether it writes to something, and all of that, and all whose `.grad` it looks at or sets, are tensors of the function's own."""
        effects, count = self.effects, self.arguments
        written = [i for i, _ in effects.writes]
        if not written or self.answers or self.recorder or self.operation or any(k >= len(written) for _, k in effects.alike):
            return False
        if self.same or effects.histories.any:
            return False
        touched = {*written, *(i for i, _ in effects.grads), *(i for i, _ in effects.had_grads)}
        if any(i < count or isinstance(self.outside[i], Gradient) for i in touched):
            return False
        return all(isinstance(self.sources[i - count], Captured) and self.outside[i]._base is None for i in written)

    def _places(self) -> tuple[dict[int, int], dict[int, int]]:
        """Which output is the new value of an input, and which is the gradient of one."""
        effects, first = self.effects, self.count
        written = {i: first + k for k, (i, _) in enumerate(effects.writes)}
        left = [i for i, value in effects.grads if value is not None]
        return written, {i: first + len(written) + k for k, i in enumerate(left)}

    def _lease(self, packing: Packing, kernel: Kernel) -> Lease:
        written, left = self._places()
        tensors, owners = {i: [self.outside[i]] for i in written}, {k: [self.outside[i]] for i, k in left.items()}
        for t, k in self.effects.alike:
            tensors[self.effects.writes[k][0]].append(t)
        return Lease(kernel, self.graph, packing, tensors, owners, [self.outside[i] for i, v in self.effects.grads if v is None])

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Whether what the path depends on, besides values, is as it was."""
        for i, had in self.effects.had_grads:
            if has_gradient(self._tensor(i, tensors)) != had:
                return False
        for t in tensors if self.own else ():
            if id(t) in self.own or id(t._base) in self.own:
                return False
        return self.guards.hold(tensors) and (len(self.added_to) < 2 or not overlaps([x.now(tensors)._held for x in self.added_to]))

    def is_like(self, other: Step) -> bool:
        """Whether the kernels of one are those of the other."""
        kinds = [(s.operation is None, s.recorder and s.recorder.graph, s.kernel.donated, s.kernel.packing) for s in (self, other)]
        return self.graph == other.graph and kinds[0] == kinds[1]

    def adopt(self, other: Step) -> None:
        """Use the kernels of a path with the same graph, which was traced because of something that made no difference to it."""
        self.kernel, self.operation, self.recorder = other.kernel, other.operation, other.recorder
        self.lease = None if self.kernel.packing is None else self._lease(self.kernel.packing, self.kernel)

    def _tensor(self, i: int, tensors: Sequence[Any]) -> Any:
        t = tensors[i] if i < self.arguments else self.outside[i]
        return t.now(tensors) if t.__class__ is Gradient else t

    def attempt(self, tensors: Sequence[Any]) -> Any:
        """The results, after all effects; MISS, without any, if Python would take another path."""
        if not self.holds(tensors):
            return MISS
        if self.operation is not None:
            values = self.operation(*tensors, *self.captured)
            return self._results(values) if self._answered(map(memory, values[self.count :])) else MISS
        if self.effects.histories.any:
            self.effects.histories.check(partial(self._tensor, tensors=tensors))
        before = [(generator, generator.mark()) for generator in self.effects.generators]
        held: list[Any] = []
        left: list[Any] = []
        try:
            values = self._run(held, tensors, before, left)
            if values is MISS:
                put_back(before)
                return MISS
            results = [resident(a) for a in values[: self.count]]
            finished(partial(self._finish, held, tensors, results))
        except BaseException:  # an interrupt after new values were left has come after the run
            if not left:
                put_back(before)
            raise
        for j, i in self.same.items():
            results[j] = self._tensor(i, tensors)
        return self._results(results)

    def _finish(self, held: Sequence[Any], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Leave marks and histories, after the new values."""
        if self.effects.histories.any:
            self.effects.histories.mark(partial(self._tensor, tensors=tensors))
        if self.recorder is not None and local.mode.recording:
            self._record(held, tensors, results)

    def _record(self, held: Sequence[Any], tensors: Sequence[Any], results: list[Tensor]) -> None:
        """Give the results, and tensors that were written to, their history."""
        histories, lasting = self.effects.histories, self.effects.lasting
        saved = held if lasting else self.graph.inputs  # types alone: the function has called backward(), and nobody else can
        inputs = [self._behind(i, x, tensors) for i, x in enumerate(saved)]
        written = [resident(saved[i]) for i, _ in histories.written]
        assert self.recorder is not None
        node = self.recorder.record(inputs, saved, [*results, *written], [i for i, _ in self.effects.writes], len(written))
        if node is not None and not lasting:
            node.saved = node.cells = None
        histories.leave(partial(self._tensor, tensors=tensors), written)

    def _run(self, held: list[Any], tensors: Sequence[Any], before: Sequence[tuple[Any, Any]], left: list[Any]) -> Any:
        """The same after random numbers are drawn; `held` is filled with what the kernel was given, `left` once there are effects."""
        draws = [draw() for draw in self.effects.draws]
        while True:
            try:
                with _TURN if self.effects.writes and self.lease is None and not self.kernel.donated else nullcontext():
                    held[:] = self._inputs(tensors, draws)
                    return self._ran(held, tensors, left)
            except Redraw:
                put_back(before)
                draws = [draw() for draw in self.effects.draws]
            except Donated:  # by another thread, which is about to leave new values
                giving.wait()
                if any(map(is_gone, (*tensors, *self.captured))):
                    raise

    def _ran(self, held: list[Any], tensors: Sequence[Any], left: list[Any]) -> Any:
        """What the kernel gives, after all effects; MISS, without any, if its answers are not those of this path."""
        if local.mode.capture is not None:
            self._look(held)
        lease = self.lease
        if lease is not None:
            values = lease.launch(held + lease.room, found=left)
            self._show(iter(values[self.count :]))
            return values
        if not self.kernel.donated:
            values = self.kernel.launch(held)
            rest = values[self.count :]
            if not self._answered(rest[len(self.effects.values) :]):
                return MISS
            if not self.effects.lasting:
                held.clear()  # an array that nobody else holds is replaced by its new values, others are copied into
            finished(partial(self._leave_all, tensors, rest, left))
            return values
        return self._ran_with_gifts(held, tensors, left)

    def _ran_with_gifts(self, held: list[Any], tensors: Sequence[Any], found: list[Any]) -> Any:
        """The same where the kernel is given the memory of tensors: nobody sees them until they have their new values."""
        given = self._give_away(held)
        gifts, owners, nothing = [held[i] for i in given], [self._tensor(i, tensors) for i in given], [self.in_use[i] for i in given]
        taken: list[bool] = []
        try:
            if not take(owners, gifts, nothing, taken) or any(self._tensor(i, tensors)._held is not held[i] for i in self.numbers):
                raise Donated(f"{self.name} is run by another thread")
            self.kernel.launch(held, found)
        finally:
            try:
                self._settle(tensors, found, [*zip(owners, gifts, nothing, strict=True)], taken)
            except BaseException:  # an interrupt: what has begun is finished
                self._settle(tensors, found, [*zip(owners, gifts, nothing, strict=True)], taken)
                raise
        return found[0] if len(self.graph.outputs) > 1 else found

    def _settle(self, tensors: Sequence[Any], found: list[Any], gifts: list[tuple[Any, Any, Any]], taken: list[bool]) -> None:
        """The new values; after a run that has failed, everything as it was."""
        if taken and found:
            self._leave(tensors, (found[0] if len(self.graph.outputs) > 1 else found)[self.count :])
        for t, buffer, nothing in gifts if taken else ():
            if t._held is nothing:
                t._held = buffer
        with giving.lock:
            giving.over(taken)

    def _look(self, held: Sequence[Any]) -> None:
        """Somebody may look for NaN: before anything is written."""
        watch = looked_for()
        if watch is not None:
            rest = iter(held)
            each = [memory(self.outside[i]) if i in self.leased else next(rest) for i in range(len(self.graph.inputs))]
            inspect(watch, self.graph, each, self.lines, self.name)

    def _behind(self, i: int, held: Any, tensors: Sequence[Any]) -> Tensor:
        """The tensor behind an input; random numbers and learning rates have none."""
        if i < self.arguments:
            return tensors[i]  # type: ignore[no-any-return]
        source = self.sources[i - self.arguments]
        return source.tensor if isinstance(source, Captured) else resident(held)

    def _inputs(self, tensors: Sequence[Any], draws: Sequence[Any]) -> list[Any]:
        held = [native_order(t._held) for t in tensors]
        kernel = self.kernel
        held += [source.find(kernel, draws, tensors) for source in self.others]
        if self.effects.lasting:
            for i, _ in self.effects.writes:
                held[i] = held[i].copy() if held[i].__class__ is np.ndarray else held[i]  # backward may need what is written over
        return held

    def _give_away(self, held: list[Any]) -> list[int]:
        """What is donated must be a buffer, and must not be read as another input, too: else it is a copy. Which are the tensors' own?"""
        twice, own = len(set(map(id, held))) < len(held), []
        for i in self.kernel.donated:
            x = held[i]
            if x.__class__ is np.ndarray or (twice and sum(x is y for y in held) > 1):
                held[i] = self.kernel.buffer(np.asarray(x))
            else:
                own.append(i)
        return own

    def _answered(self, found: Iterable[Any]) -> bool:
        if not self.answers:
            return True
        answers = [(a.item(), answer) for a, answer in zip(found, self.answers, strict=True)]
        for now, answer in answers if self.effects.draws else ():
            if isinstance(answer, Steps) and answer.holds(now):
                answer.settle(now)
        for i, (now, answer) in enumerate(answers):
            if isinstance(answer, Steps):
                if not answer.holds(now):
                    self.missed = f"path: {self.questions[i]} was less than {answer.drawn_for}"
                    return False
            elif now != answer:
                self.missed = f"path: {self.questions[i]} was {answer}, now {type(answer)(now)}"
                return False
        return True

    def failed(self, tensors: Sequence[Any]) -> str | None:
        """Why the latest call was not this program's."""
        for i, had in self.effects.had_grads:
            if has_gradient(self._tensor(i, tensors)) != had:
                return f".grad of {self.graph.labels[i]}: {'a gradient -> none' if had else 'none -> a gradient'}"
        return self.guards.failed(tensors) or self.missed

    def _results(self, found: Sequence[Tensor]) -> Any:
        return found[0] if self.structure is LEAF else unflatten(self.structure, found[: self.count])

    def _leave(self, tensors: Sequence[Any], values: Sequence[Any]) -> None:
        new, outside, arguments = iter(values), self.outside, self.arguments
        for i, _ in self.effects.writes:
            t = outside[i] if i >= arguments else tensors[i]
            write(t if t.__class__ is not Gradient else t.now(tensors), next(new))
        for i, value in self.effects.grads:
            t = outside[i] if i >= arguments else tensors[i]
            t._grad = None if value is None else resident(next(new))
        for t, k in self.effects.alike:
            write(t, values[k].copy() if values[k].__class__ is np.ndarray else values[k])
        self._show(new)

    def _leave_all(self, tensors: Sequence[Any], values: Sequence[Any], left: list[Any]) -> None:
        """The same, and note that it is done."""
        self._leave(tensors, values)
        left.append(True)

    def _show(self, values: Iterator[Any]) -> None:
        for printed in self.effects.prints:
            printed.show(values)


def _sources(capture: Any, arguments: int) -> list[Any]:
    """How each input besides the arguments is found: a tensor that was somebody's `.grad` is whatever is there now."""
    sources = list(capture.sources)
    for k, i in gradients(capture).items():
        sources[k - arguments] = Gradient(i if i < arguments else capture.outside[i])
    return sources


def put_back(marks: Sequence[tuple[Any, Any]]) -> None:
    """Random numbers that were drawn in vain will be drawn again."""
    finished(lambda: [generator.go_back(mark) for generator, mark in marks])


def finished(action: Callable[[], Any]) -> None:
    """Run an action that may be repeated to its end: an interrupt goes on after it, so that it is done as a whole."""
    try:
        action()
    except Exception:
        raise
    except BaseException:
        action()
        raise
