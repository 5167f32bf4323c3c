"""Loops and branches in a traced function: the body runs once, on tensors without values, and becomes a graph of its own.

Tensors that the body closes over are shared by all steps: they are further inputs of the body graph, and operands of the loop.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.compiler.ir.builder import symbolic_scalar_value
from symgrad.compiler.ir.control_flow import COND, SCAN, WHILE, has_cotangents
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.replay import replay_recorded
from symgrad.compiler.ir.subgraph import labels
from symgrad.compiler.loops.rng import BodyDraws, draw_slot
from symgrad.compiler.loops.while_rng import while_loop_with_draws
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.compiler.trace.tracer import GraphTracer, user_line
from symgrad.control import without_values
from symgrad.dispatch import tensors as ops
from symgrad.errors import GraphError, TraceError
from symgrad.escapes import Escape, EscapeKind, Metadata
from symgrad.mode import local
from symgrad.ops.generator import Generator, default_generator
from symgrad.ops.spec import Row
from symgrad.ops.symbolic_scalar import SymbolicScalar, is_symbolic_scalar, make_symbolic_scalar
from symgrad.tensor import Tensor, wrap
from symgrad.tracer import Branch, ControlFlowBuilder, LoopStep, LoopTest, ObjectGuard, ScanStep
from symgrad.typing import Array


class LoopClosure:
    """The tensors that the bodies of one loop close over, and the body inputs that stand for them, after the `own` inputs of a body."""

    def __init__(self, outer: Any, own: int) -> None:
        self.outer, self.own = outer, own
        self.tensors: list[Tensor] = []
        self.outside: list[Tensor] = []
        """All tensors of the outer function that a body asked for: several may have one value, such as two identity matrices."""
        self._places: dict[Value, Value] = {}
        self._numbers: dict[int, tuple[SymbolicScalar, Tensor]] = {}

    def input_for(self, t: Tensor) -> Value:
        """The body's value for a tensor of the outer function: a constant if it is one there, else an input after the body's own."""
        value: Value = self.outer.value(t)
        self.outside.append(t)
        if number(value) is not None:
            return value
        if value not in self._places:
            self._places[value] = input_value(self.own + len(self.tensors), value.shape, value.dtype)
            self.tensors.append(t)
        return self._places[value]

    def scalar_input_for(self, x: SymbolicScalar) -> Value:
        """The body input for a symbolic Python scalar, which is an input of the program."""
        if id(x) not in self._numbers:
            value = self.outer.scalar_input_for(x) if isinstance(self.outer, BodyTracer) else symbolic_scalar_value(x)
            t = wrap(np.asarray(x.number, value.dtype))
            self.outer.bind(t, value)
            self._numbers[id(x)] = x, t
        return self.input_for(self._numbers[id(x)][1])

    def inputs(self, own: Sequence[Value]) -> list[Value]:
        """All inputs of a body: its `own`, then those for the tensors that it closes over."""
        return [*own, *self._places.values()]


class RandomDrawError(TraceError):
    """Random numbers are drawn in a body, and how many a run will draw is not known beforehand."""


class BodyTracer(GraphTracer):
    """The tracer of a loop or branch body. The body must not change state outside of it, nor let Python depend on values. `random`: it may
    draw from the default generator."""

    def __init__(self, closure: LoopClosure, random: bool = False) -> None:
        super().__init__(True, closure.outer.names)
        self.closure, self.outer, self.random = closure, closure.outer, random
        self.was_recording = closure.outer.was_recording
        self.given: list[TracedStorage] = []
        """The storages of the tensors that the body receives."""
        self.symbolic_scalars: dict[int, tuple[SymbolicScalar, SymbolicScalar]] = {}
        self.source: tuple[Any, Any] = (None, None)
        """The generator of the current draw, and its position in its stream before the draw."""

    def run(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Value]:
        """The graph values of the results of `function`, which reads the tensors `inputs`: they stand for the inputs of the body graph."""
        for t, value in zip(inputs, _inputs(inputs), strict=True):
            self.bind(t, value)
            self.given.append(self.storages[id(t._array)])
        mode = local.mode
        before = mode.swap_capture(self)
        try:
            results = function()
            mode.swap_capture(before)
            return [self.value(t) for t in results]
        finally:
            mode.swap_capture(before)
            for value, line in self.lines.items():
                self.outer.lines.setdefault(value, line)

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        super().on_op(row, tuple(self._own(a) if is_symbolic_scalar(a) else a for a in args), attrs, result)

    def scalar_input_for(self, x: SymbolicScalar) -> Value:
        """The body input for a symbolic Python scalar."""
        return self.closure.scalar_input_for(x)

    def _own(self, x: SymbolicScalar) -> SymbolicScalar:
        if id(x) not in self.symbolic_scalars:
            self.symbolic_scalars[id(x)] = x, make_symbolic_scalar(x.number, self.scalar_input_for(x), self.outer.path.add_scalar_condition)
        return self.symbolic_scalars[id(x)][1]

    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        raise TraceError(
            f"{user_line()}: debug.print() in the body of a loop or branch, which is traced once for all steps and has no values; print"
            " what the loop gives, or run it eagerly"
        )

    def release(self) -> list[Any]:
        """Drop all references to tensors, and return weak references to those that the body created."""
        captured = {id(t) for t in self.closure.outside} | {
            id(storage.external) for storage in self.storages.values() if storage.external is not None
        }
        made = [weakref.ref(t) for t in self.keep_alive if isinstance(t, Tensor) and id(t) not in captured]
        for held in (self.keep_alive, self.storages, self.node_values):
            held.clear()
        return made

    def captured_value(self, t: Tensor) -> Value:
        number = self.draw_index_of(t)
        if number is not None:
            value = draw_slot(number, t._array)
            self.bind(t, value)
            return value
        value = self.closure.input_for(t)
        self.bind(t, value)
        self.storages[id(t._array)].external = t
        return value

    def on_constant(self, t: Tensor) -> None:
        if self.draw_index_of(t) is not None or self.bind_literal(t):
            return
        self.outer.on_constant(t)
        self.captured_value(t)
        self.storages[id(t._array)].external = None

    def add_guard(self, read: Callable[[], object]) -> None:
        self.outer.add_guard(read)

    def guard_module(self, module: object, make_guard: Callable[[Any], ObjectGuard] | None = None) -> None:
        self.outer.guard_module(module, make_guard)

    def record_undo(self, action: Callable[[], None]) -> None:
        self.outer.record_undo(action)

    def before_grad_read(self, t: Tensor) -> None:
        storage = self.storages.get(id(t._array))
        if storage is None or storage.external is t:
            self.outer.before_grad_read(t)

    def scalar_input(self, key: tuple[int, str], read: Callable[[], float]) -> Any:
        return self.outer.scalar_input(key, read)

    # forbidden in a body

    def before_write(self, t: Tensor) -> None:
        storage = self.root_storage(t)
        if any(storage is given for given in self.given):
            raise TraceError(
                f"{user_line()}: what a step gets is written to in place, where one tensor stands for all steps; write c = c + x in place"
                " of c += x, or clone() it first"
            )
        if storage is None or storage.external is not None:
            raise TraceError(
                f"{user_line()}: a tensor from outside is written to in the body of a loop or branch (running statistics of a layer,"
                " perhaps), which each step would have to see; make it a part of the carry and return it, or use a Python loop"
            )

    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        if escape.kind is EscapeKind.GRADIENT:
            self.outer.differentiated = True
            return
        instead = "use sg.cond(pred, true_fn, false_fn) or where(pred, x, y)" if escape.asks is bool else escape.instead
        raise TraceError(
            f"{user_line()}: {escape.what} asks for a value in the body of a loop or branch, which is traced once for all steps and has no"
            f" values; {instead}"
        )

    def on_metadata_read(self, t: Tensor, metadata: Metadata) -> None:
        self.outer.on_metadata_read(t, metadata)

    def before_draw(self, generator: Generator) -> None:
        self.outer.before_draw(generator)
        self.source = generator, generator.mark()

    def on_seek(self, move: Callable[[], object]) -> None:
        raise TraceError(
            f"{user_line()}: a random generator is seeded, or given a state, in the body of a loop or branch, which is traced once for all"
            " steps; do that before the loop"
        )

    def on_draw(self, array: Array, draw: Callable[[], Array]) -> None:
        generator, mark = self.source
        generator.rewind(mark)  # these values are not used: each step draws its own
        if self.random and generator is default_generator:
            self.draws.append((array, draw))
            return
        raise RandomDrawError(
            f"{user_line()}: random numbers are drawn in the body of a loop or branch, which is traced once for all steps"
            f"{', from a generator of its own' * self.random}; draw them before the loop, and pass them as xs"
        )

    def before_grad_replace(self, t: Tensor) -> None:
        self.before_grad_accumulate(t)

    def before_grad_accumulate(self, t: Tensor) -> None:
        raise TraceError(f"{user_line()}: a .grad is set in the body of a loop or branch; return the gradient as a result instead")


class ControlFlowTracer(ControlFlowBuilder):
    """Implements the loops and branches of `symgrad.control` while a function is traced: each becomes one op of the graph."""

    def __init__(self, outer: GraphTracer) -> None:
        self.outer = outer

    def scan(
        self, step: ScanStep, carries: list[Tensor], slices: list[Tensor], length: int, reverse: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        n, m = len(carries), len(slices)
        own = [*map(_body_input, carries), *(_body_input(x, 1) for x in slices)]
        closure = LoopClosure(self.outer, n + m)

        def run() -> list[Tensor]:
            new, ys = step(own[:n], own[n:])
            return [*new, *ys]

        inputs, draws = _inputs(own), BodyDraws()
        (outputs,) = _traced(closure, [run], own, [draws])
        drawn = draws.draw_all_runs(length, reverse)
        shared = len(closure.tensors)
        body = draws.as_graph(inputs, closure.inputs([]), outputs, labels(n, m + len(drawn), shared))
        attrs = {"body": body, "carries": n, "slices": m + len(drawn), "length": length, "reverse": reverse}
        results = apply(SCAN, (*carries, *slices, *drawn, *closure.tensors), attrs)
        return list(results[:n]), list(results[n:])

    def while_loop(self, test: LoopTest, step: LoopStep, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        try:
            return self._plain_while(test, step, carries, max_steps)
        except RandomDrawError:
            if not (self.outer.allow_branches and self.outer.effects):
                raise
        own, draws = [without_values(wrap(np.zeros((), np.int64))), *map(_body_input, carries)], (BodyDraws(), BodyDraws())
        closure = LoopClosure(self.outer, len(own))
        (truth,), outputs = _traced(closure, [lambda: [_condition(test(own[1:]))], lambda: step(own[1:])], own, draws)
        return while_loop_with_draws(self.outer, carries, closure, (truth, outputs), draws, max_steps)

    def _plain_while(self, test: LoopTest, step: LoopStep, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        if max_steps is None:
            return self._while(test, step, carries, None)
        steps = wrap(np.zeros((), np.int64))
        self.outer.on_constant(steps)

        def within(state: Sequence[Tensor]) -> Any:
            truth, early = test(state[1:]), state[0] < max_steps
            return ops.logical_and(truth, early) if isinstance(truth, Tensor) else early if truth else False

        return self._while(within, lambda state: [state[0] + 1, *step(state[1:])], [steps, *carries], max_steps)[1:]

    def _while(self, test: LoopTest, step: LoopStep, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        n = len(carries)
        closure = LoopClosure(self.outer, n)
        own = [_body_input(t) for t in carries]
        inputs = _inputs(own)
        (truth,), outputs = _traced(closure, [lambda: [_condition(test(own))], lambda: step(own)], own)
        inputs, names = closure.inputs(inputs), labels(n, 0, len(closure.tensors))
        attrs = {"condition": Graph(inputs, (truth,), names), "body": Graph(inputs, outputs, names), "carries": n, "max_steps": max_steps}
        return list(apply(WHILE, (*carries, *closure.tensors), attrs))

    def cond(self, truth: Tensor, true: Branch, false: Branch) -> list[Tensor] | None:
        """The results of a conditional op. None if a branch draws random numbers and Python may branch on `truth`: each branch is then a
        path of its own, with its own draws."""
        closure = LoopClosure(self.outer, 0)
        try:
            yes, no = _traced(closure, [true, false], [])
        except RandomDrawError:
            if self.outer.allow_branches and self.outer.effects:
                return None
            raise
        inputs, names = closure.inputs([]), labels(0, 0, len(closure.tensors))
        attrs = {"true": Graph(inputs, yes, names), "false": Graph(inputs, no, names)}
        return list(apply(COND, (_condition(truth), *closure.tensors), attrs))

    def vmap(self, example: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor], randomness: str) -> list[Tensor] | None:
        """The stacked results of `example` on the slices of `tensors` along their first dimension: it runs once, without values, and its
        graph is batched. None if that is not possible: the caller then runs the examples one after the other."""
        from symgrad.compiler.autodiff.vmap import batched_run

        own = [_body_input(t, 1) for t in tensors]
        closure, inputs, draws, outputs = LoopClosure(self.outer, len(own)), _inputs(own), BodyDraws(), None
        body = BodyTracer(closure, random=randomness != "error")
        with contextlib.suppress(TraceError):  # its message is about loops, and running the examples one by one may still work
            outputs = body.run(lambda: example(own), own)
        draws.record(body)
        made = body.release()
        own.clear()
        _refuse_leaked(made, "the function of one example under vmap")
        if outputs is None:
            return None
        graph = draws.as_graph(inputs, closure.inputs([]), outputs)
        mapped, shared = list(tensors), closure.tensors
        if randomness == "same":
            shared = [*draws.shared_draws(), *shared]
        else:
            mapped += draws.draw_all_runs(tensors[0]._array.shape[0])
        return batched_run(graph, mapped, shared, self.outer.inline_scalars)

    def transformed(
        self, function: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor], more: Sequence[Tensor],
        transform: Callable[[Any], Any], optional: bool = False,
    ) -> list[Tensor] | None:
        """The results of `function`, which runs once without values, after a transform of its graph. If it is `optional`: None where the
        function needs values, or its graph has no such transform."""
        own = [_body_input(t) for t in tensors]
        closure, inputs, made = LoopClosure(self.outer, len(own)), _inputs(own), None
        body = BodyTracer(closure)
        with contextlib.suppress(*(TraceError, GraphError) * optional):
            outputs = body.run(lambda: function(list(own)), own)
            made = transform(Graph(closure.inputs(inputs), outputs))
        created = body.release()
        own.clear()
        _refuse_leaked(created, "a function that is differentiated")
        return None if made is None else replay_recorded(made, (*tensors, *closure.tensors, *more))


def _body_input(t: Tensor, skip: int = 0) -> Tensor:
    return without_values(t, skip, has_cotangents(t._array) and local.mode.recording)


def _inputs(own: Sequence[Tensor]) -> list[Value]:
    return [input_value(i, t._array.shape, t._array.dtype) for i, t in enumerate(own)]


def _condition(x: Any) -> Tensor:
    """`x` as a boolean tensor without dimensions, the form that a loop or branch takes."""
    if not isinstance(x, Tensor):
        known = wrap(np.asarray(x, bool))
        if local.mode.capture is not None:
            local.mode.capture.on_constant(known)
        return known
    one: Tensor = ops.reshape(x, shape=()) if x._array.ndim else x
    truth: Tensor = ops.cast(one, dtype=np.dtype(bool)) if one._array.dtype != bool else one
    return truth


def _traced(
    closure: LoopClosure, functions: Sequence[Callable[[], Sequence[Tensor]]], own: list[Tensor], draws: Sequence[BodyDraws] = ()
) -> list[list[Value]]:
    """The graph values of the results of each function; the functions may draw random numbers if `draws` has a record for each of them.

    Raises TraceError if a tensor that a function created is still alive afterwards: it has no values, and would be used as if it had some.
    `own` is cleared for the same reason."""
    found, made = [], []
    for i, function in enumerate(functions):
        body = BodyTracer(closure, random=bool(draws))
        found.append(body.run(function, own))
        if draws:
            draws[i].record(body)
        made += body.release()
    own.clear()
    _refuse_leaked(made, "the body of a loop or branch", "as a part of the carry or ")
    return found


def _refuse_leaked(made: Sequence[Any], who: str, how: str = "") -> None:
    if any(ref() is not None for ref in made):
        gc.collect()
        if any(ref() is not None for ref in made):
            raise TraceError(
                f"{user_line()}: a tensor that {who} made is kept outside of it (in a list, or as an attribute); it has no values there:"
                f" return it, {how}as a result"
            )
