"""Loops and branches of a function that is being traced: the body is run once, without values, and becomes a graph of its own.

Tensors that it brings along from outside are shared by all steps: they are further inputs of the body, and operands of the loop.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.compiler.control import reverse as reverse  # enters the rules of derivatives
from symgrad.compiler.control.build import labels
from symgrad.compiler.control.counted import counted_loop
from symgrad.compiler.control.draws import Draws, draw_slot
from symgrad.compiler.control.rows import COND, SCAN, WHILE, has_slope
from symgrad.compiler.graph.builder import weak_value, xp
from symgrad.compiler.graph.fold import number
from symgrad.compiler.graph.ir import Graph, Value, input_value, literal
from symgrad.compiler.tracing.box import Box
from symgrad.compiler.tracing.capture import Capture, user_line
from symgrad.control import without_values
from symgrad.dispatch import tensors as ops
from symgrad.errors import TraceError
from symgrad.escapes import AUTOGRAD_GRAD, Escape
from symgrad.mode import local
from symgrad.ops.generator import default_generator
from symgrad.ops.spec import Row
from symgrad.ops.weak import Weak, is_weak, weak
from symgrad.tensor import Tensor, wrap


class Lent:
    """The tensors from outside that the bodies of one loop read, and the inputs that stand for them."""

    def __init__(self, outer: Any, own: int) -> None:
        self.outer, self.own = outer, own
        self.tensors: list[Tensor] = []
        self._places: dict[Value, Value] = {}
        self._numbers: dict[int, tuple[Weak, Tensor]] = {}

    def place(self, t: Tensor) -> Value:
        """What stands for a tensor: a number if it is one, or an input after the body's own."""
        value: Value = self.outer.value(t)
        if number(value) is not None:
            return value
        if value not in self._places:
            self._places[value] = input_value(self.own + len(self.tensors), value.shape, value.dtype)
            self.tensors.append(t)
        return self._places[value]

    def weak(self, x: Weak) -> Value:
        """The same for a number that is an input of the program."""
        if id(x) not in self._numbers:
            value = self.outer.weak(x) if isinstance(self.outer, Body) else weak_value(x)
            t = wrap(np.asarray(x.number, value.dtype))
            self.outer.enter(t, value)
            self._numbers[id(x)] = x, t
        return self.place(self._numbers[id(x)][1])

    def inputs(self, own: Sequence[Value]) -> list[Value]:
        """All inputs of a body: its own, and those that stand for tensors from outside."""
        return [*own, *self._places.values()]


class Drawing(TraceError):
    """Random numbers are drawn where nobody knows how many there will be."""


class Body(Capture):
    """What sees a body run. Nothing in it may change what is outside, or depend on values."""

    def __init__(self, lent: Lent, random: bool = False) -> None:
        super().__init__(True, lent.outer.names)
        self.lent, self.outer, self.random = lent, lent.outer, random
        self.recorded = lent.outer.recorded
        self.given: list[Box] = []
        """What is in the tensors that it gets."""
        self.weaks: dict[int, tuple[Weak, Weak]] = {}
        self.source: tuple[Any, Any] = (None, None)
        """The generator that is drawn from, and where it is in its stream."""

    def run(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Value]:
        """The values of what the function gives for these inputs."""
        for t, value in zip(inputs, _inputs(inputs), strict=True):
            self.enter(t, value)
            self.given.append(self.boxes[id(t._array)])
        mode = local.mode
        before = mode.watch(self)
        try:
            results = function()
            mode.watch(before)
            return [self.value(t) for t in results]
        finally:
            mode.watch(before)
            for value, line in self.lines.items():
                self.outer.lines.setdefault(value, line)

    def __call__(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        super().__call__(row, tuple(self._own(a) if is_weak(a) else a for a in args), attrs, result)

    def weak(self, x: Weak) -> Value:
        """What stands for a number that is an input of the program."""
        return self.lent.weak(x)

    def _own(self, x: Weak) -> Weak:
        if id(x) not in self.weaks:
            self.weaks[id(x)] = x, weak(x.number, self.weak(x), self.outer.path.ask)
        return self.weaks[id(x)][1]

    def printed(self, text: str, tensors: Sequence[Any], named: Any) -> bool:
        raise TraceError(
            f"{user_line()}: debug.print() in the body of a loop or branch, which is traced once for all steps and has no values; print"
            " what the loop gives, or run it eagerly"
        )

    def leave(self) -> list[Any]:
        """Let go of everything; weak references to the tensors that were made here."""
        brought = {id(t) for t in self.lent.tensors} | {id(box.outside) for box in self.boxes.values() if box.outside is not None}
        made = [weakref.ref(t) for t in self.alive if isinstance(t, Tensor) and id(t) not in brought]
        for held in (self.alive, self.boxes, self.nodes):
            held.clear()
        return made

    def brought(self, t: Tensor) -> Value:
        number = self.draw_behind(t)
        if number is not None:
            value = draw_slot(number, t._array)
            self.enter(t, value)
            return value
        value = self.lent.place(t)
        self.enter(t, value)
        self.boxes[id(t._array)].outside = t
        return value

    def made(self, t: Tensor) -> None:
        array = t._array
        if self.draw_behind(t) is not None:
            return
        first = array.reshape(-1)[0].item() if array.size and array.dtype.kind in "bif" else None
        if first is not None and (array == first).all():
            self.enter(t, xp.expand(literal(first, array.dtype), shape=array.shape))
            return
        self.outer.made(t)
        self.brought(t)
        self.boxes[id(array)].outside = None

    def depends(self, read: Callable[[], Any]) -> None:
        self.outer.depends(read)

    def entered(self, module: Any, *makeup: Any) -> None:
        self.outer.entered(module, *makeup)

    def undo(self, action: Callable[[], None]) -> None:
        self.outer.undo(action)

    def asked_for_grad(self, t: Tensor) -> None:
        box = self.boxes.get(id(t._array))
        if box is None or box.outside is t:
            self.outer.asked_for_grad(t)

    def scalar(self, key: Any, read: Callable[[], float]) -> Any:
        return self.outer.scalar(key, read)

    # what a body must not do

    def written(self, t: Tensor) -> None:
        box = self.boxes.get(id(t._array))
        while box is not None and box.parent is not None:
            box = box.parent
        if any(box is given for given in self.given):
            raise TraceError(
                f"{user_line()}: what a step gets is written to in place, where one tensor stands for all steps; write c = c + x in place"
                " of c += x, or clone() it first"
            )
        if box is None or box.outside is not None:
            raise TraceError(
                f"{user_line()}: a tensor from outside is written to in the body of a loop or branch (running statistics of a layer,"
                " perhaps), which each step would have to see; make it a part of the carry and return it, or use a Python loop"
            )

    def escaped(self, t: Any, way: Escape) -> None:
        if way is AUTOGRAD_GRAD:
            self.outer.differentiated = True
            return
        instead = "use sg.cond(pred, true_fn, false_fn) or where(pred, x, y)" if way.asks is bool else way.instead
        raise TraceError(
            f"{user_line()}: {way.what} asks for a value in the body of a loop or branch, which is traced once for all steps and has no"
            f" values; {instead}"
        )

    def draws_from(self, generator: Any) -> None:
        self.outer.draws_from(generator)
        self.source = generator, generator.mark()

    def moved(self, move: Callable[[], Any]) -> None:
        raise TraceError(
            f"{user_line()}: a random generator is seeded, or given a state, in the body of a loop or branch, which is traced once for all"
            " steps; do that before the loop"
        )

    def drew(self, array: Any, draw: Callable[[], Any]) -> None:
        generator, mark = self.source
        generator.go_back(mark)  # what is drawn here is nobody's: each step draws for itself
        if self.random and generator is default_generator:
            self.draws.append((array, draw))
            return
        raise Drawing(
            f"{user_line()}: random numbers are drawn in the body of a loop or branch, which is traced once for all steps"
            f"{', from a generator of its own' * self.random}; draw them before the loop, and pass them as xs"
        )

    def replaced(self, t: Tensor) -> None:
        self.regraded(t)

    def regraded(self, t: Tensor) -> None:
        raise TraceError(f"{user_line()}: a .grad is set in the body of a loop or branch; return the gradient as a result instead")


class Tracer:
    """What `symgrad.control` makes its loops with while a function is traced."""

    def __init__(self, outer: Capture) -> None:
        self.outer = outer

    def scan(self, step: Any, carries: list[Tensor], slices: list[Tensor], length: int, reverse: bool) -> tuple[list[Tensor], list[Tensor]]:
        n, m = len(carries), len(slices)
        own = [*map(_stand_in, carries), *(_stand_in(x, 1) for x in slices)]
        lent = Lent(self.outer, n + m)

        def run() -> list[Tensor]:
            new, ys = step(own[:n], own[n:])
            return [*new, *ys]

        inputs, draws = _inputs(own), Draws()
        (outputs,) = _traced(lent, [run], own, [draws])
        drawn = draws.for_all(length, reverse)
        shared = len(lent.tensors)
        body = draws.placed(inputs, lent.inputs([]), outputs, labels(n, m + len(drawn), shared))
        attrs = {"body": body, "carries": n, "slices": m + len(drawn), "length": length, "reverse": reverse}
        results = apply(SCAN, (*carries, *slices, *drawn, *lent.tensors), attrs)
        return list(results[:n]), list(results[n:])

    def while_loop(self, test: Any, step: Any, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        try:
            return self._plain_while(test, step, carries, max_steps)
        except Drawing:
            if not (self.outer.follow and self.outer.effects):
                raise
        own, draws = [without_values(wrap(np.zeros((), np.int64))), *map(_stand_in, carries)], (Draws(), Draws())
        lent = Lent(self.outer, len(own))
        (truth,), outputs = _traced(lent, [lambda: [_condition(test(own[1:]))], lambda: step(own[1:])], own, draws)
        return counted_loop(self.outer, carries, lent, (truth, outputs), draws, max_steps)

    def _plain_while(self, test: Any, step: Any, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        if max_steps is None:
            return self._while(test, step, carries, None)
        steps = wrap(np.zeros((), np.int64))
        self.outer.made(steps)

        def within(state: Sequence[Tensor]) -> Any:
            truth, early = test(state[1:]), state[0] < max_steps
            return ops.logical_and(truth, early) if isinstance(truth, Tensor) else early if truth else False

        return self._while(within, lambda state: [state[0] + 1, *step(state[1:])], [steps, *carries], max_steps)[1:]

    def _while(self, test: Any, step: Any, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        n = len(carries)
        lent = Lent(self.outer, n)
        own = [_stand_in(t) for t in carries]
        inputs = _inputs(own)
        (truth,), outputs = _traced(lent, [lambda: [_condition(test(own))], lambda: step(own)], own)
        inputs, names = lent.inputs(inputs), labels(n, 0, len(lent.tensors))
        attrs = {"condition": Graph(inputs, (truth,), names), "body": Graph(inputs, outputs, names), "carries": n, "max_steps": max_steps}
        return list(apply(WHILE, (*carries, *lent.tensors), attrs))

    def cond(self, truth: Tensor, true: Any, false: Any) -> list[Tensor] | None:
        """None if a branch draws random numbers, and Python may ask for the truth: then each branch is a path, with its own draws."""
        lent = Lent(self.outer, 0)
        try:
            yes, no = _traced(lent, [true, false], [])
        except Drawing:
            if self.outer.follow and self.outer.effects:
                return None
            raise
        inputs, names = lent.inputs([]), labels(0, 0, len(lent.tensors))
        attrs = {"true": Graph(inputs, yes, names), "false": Graph(inputs, no, names)}
        return list(apply(COND, (_condition(truth), *lent.tensors), attrs))

    def vmap(self, example: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor], randomness: str) -> list[Tensor] | None:
        """What a function of one example gives for the slices of tensors along their first dimensions, stacked: it is run once, without
        values, and its graph is batched. None if that cannot be done, and the examples must be run one after the other."""
        from symgrad.compiler.control.vmap import batched_run

        own = [_stand_in(t, 1) for t in tensors]
        lent, inputs, draws, outputs = Lent(self.outer, len(own)), _inputs(own), Draws(), None
        body = Body(lent, random=randomness != "error")
        with contextlib.suppress(TraceError):  # which is meant for loops
            outputs = body.run(lambda: example(own), own)
        draws.take(body)
        made = body.leave()
        own.clear()
        _refuse_kept(made, "the function of one example under vmap")
        if outputs is None:
            return None
        graph = draws.placed(inputs, lent.inputs([]), outputs)
        mapped, shared = list(tensors), lent.tensors
        if randomness == "same":
            shared = [*draws.once(), *shared]
        else:
            mapped += draws.for_all(tensors[0]._array.shape[0])
        return batched_run(graph, mapped, shared, self.outer.numbers)


def _stand_in(t: Tensor, skip: int = 0) -> Tensor:
    return without_values(t, skip, has_slope(t._array) and local.mode.recording)


def _inputs(own: Sequence[Tensor]) -> list[Value]:
    return [input_value(i, t._array.shape, t._array.dtype) for i, t in enumerate(own)]


def _condition(x: Any) -> Tensor:
    """One truth value, as a loop wants it."""
    if not isinstance(x, Tensor):
        known = wrap(np.asarray(x, bool))
        if local.mode.capture is not None:
            local.mode.capture.made(known)
        return known
    one: Tensor = ops.reshape(x, shape=()) if x._array.ndim else x
    truth: Tensor = ops.cast(one, dtype=np.dtype(bool)) if one._array.dtype != bool else one
    return truth


def _traced(
    lent: Lent, functions: Sequence[Callable[[], Sequence[Tensor]]], own: list[Tensor], draws: Sequence[Draws] = ()
) -> list[list[Value]]:
    """The results of each function, which may draw random numbers if there are `draws` for them. What it was given and what it made must
    be gone afterwards: a tensor without values that lives on would be used as if it had some."""
    found, made = [], []
    for i, function in enumerate(functions):
        body = Body(lent, random=bool(draws))
        found.append(body.run(function, own))
        if draws:
            draws[i].take(body)
        made += body.leave()
    own.clear()
    _refuse_kept(made, "the body of a loop or branch", "as a part of the carry or ")
    return found


def _refuse_kept(made: Sequence[Any], who: str, how: str = "") -> None:
    if any(ref() is not None for ref in made):
        gc.collect()
        if any(ref() is not None for ref in made):
            raise TraceError(
                f"{user_line()}: a tensor that {who} made is kept outside of it (in a list, or as an attribute); it has no values there:"
                f" return it, {how}as a result"
            )
