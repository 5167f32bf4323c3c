"""The shortest way through a step of training: a program that writes to tensors which the function brings along, and leaves gradients.

What belongs to the step and not to the call is looked up once. As in `fastpath`, whatever is out of the ordinary takes the slow path, and
the code is plain for speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.running.program import MISS
from symgrad.compiler.running.returns import array_of, choice
from symgrad.compiler.running.state import Step, put_back
from symgrad.compiler.running.target import REFUSED
from symgrad.compiler.tracing.sources import Draw
from symgrad.compiler.tracing.tree import LEAF, unflatten
from symgrad.mode import changes, local, watched
from symgrad.resident import Resident, has_gradient, new as make, resident

ndarray = np.ndarray


def stepping(step: Step, returns: str | None) -> Callable[[tuple[Any, ...]], Any] | None:
    """What runs a step on leaves that are tensors or arrays, or gives MISS; None if the step always takes the slow path."""
    draws = [x for x, source in zip(step.graph.inputs[step.arguments :], step.sources, strict=True) if isinstance(source, Draw)]
    simple = not (step.effects.prints or step.guards.conditions) and all(x.dtype.itemsize < 8 for x in draws)
    return Stepping(step, returns).run if step.lease is not None and step.kernel.executable is not None and simple else None


class Stepping:
    """A step, ready to be run again."""

    def __init__(self, step: Step, returns: str | None) -> None:
        count = step.arguments
        self.returns_arrays = choice(returns, step.guards.requires_grad)
        self.count, self.own, self.guards = count, step.own, step.guards
        self.recording, self.structure, self.results = local.mode.recording, step.structure, step.count
        self.step: Any = step
        self.way: Any = step.kernel, step.kernel.executable, step.lease
        self.dtypes = [x.dtype for x in step.graph.inputs[:count]]
        self.host_too = all(dtype.itemsize < 8 for dtype in self.dtypes)
        """Whether arguments may be the host's arrays: those of 64 bits need a context."""
        self.others = [(source, getattr(source, "read", None)) for source in step.others]
        """What the kernel reads besides, and how it is read if it is a number."""
        self.draws, self.generators = step.effects.draws, step.effects.generators
        self.had = [(step.outside[i], had) for i, had in step.effects.had_grads]

    def run(self, args: tuple[Any, ...]) -> Any:  # noqa: C901  (between kernels each call of a function costs a microsecond)
        if watched.count:
            return MISS
        mode, guards, (kernel, execute, lease) = local.mode, self.guards, self.way
        if lease is not self.step.lease or lease.warm:
            return self.run(args) if self._renewed() else MISS
        if mode.recording is not self.recording or mode.capture is not None or len(args) != self.count:
            return MISS
        if guards.seen != changes.count and not guards.hold():
            return MISS
        held: list[Any] = []
        host, arrays, own = False, bool(args), self.own
        try:
            for read, value, _ in guards.names:  # as hold() does
                if read() is not value and not guards.hold():
                    return MISS
            for a in args:  # as gather() does
                m = a
                if type(a) is not ndarray:
                    m, base, arrays = a._held, a._base, False
                    if (a._requires_grad if base is None else a.requires_grad) or id(a) in own or id(base) in own:
                        return MISS
                if type(m) is ndarray:
                    dtype = self.dtypes[len(held)]
                    if m.dtype is not dtype and m.dtype != dtype:
                        return MISS
                    host = True
                held.append(m)
        except (AttributeError, ValueError):  # no tensor; a closure cell that is empty
            return MISS
        for read, value in guards.others:
            if read() != value:
                return MISS
        if (host and not self.host_too) or (self.had and any(has_gradient(t) is not had for t, had in self.had)):
            return MISS
        if self.draws:
            new = self._drawn(held, args)
        else:
            for source, number in self.others:  # one that has not changed is known
                held.append(source.latest[1] if number is not None and source.latest[0] == number() else source.find(kernel, (), args))
            held += lease.room
            try:
                new = lease.launch(held, execute, host)
            except REFUSED:
                return MISS
        if new is MISS:
            return MISS
        chosen = self.returns_arrays
        if arrays if chosen is None else chosen:
            return unflatten(self.structure, map(array_of, new[: self.results]))
        if self.structure is not LEAF:
            return unflatten(self.structure, map(resident, new[: self.results]))
        t: Any = make(Resident)  # as resident() does
        t._held = new[0]
        t._node = t._base = None
        t._requires_grad = False
        t._cell = []
        return t

    def _renewed(self) -> bool:
        """Whether another kernel of the step, for packed tensors, is ready; the long way compiles it."""
        step: Any = self.step
        if step.lease.warm:
            step.pack()
        lease = step.lease
        if lease.kernel.executable is None:
            return False
        self.way = lease.kernel, lease.kernel.executable, lease
        return True

    def _drawn(self, held: list[Any], args: tuple[Any, ...]) -> Any:
        """What a run with random numbers gives. They are drawn again if they were drawn in vain."""
        kernel, execute, lease = self.way
        before = [(generator, generator.mark()) for generator in self.generators]
        found: list[Any] = []
        try:
            draws = [draw() for draw in self.draws]
            given = [*held, *(source.find(kernel, draws, args) for source, _ in self.others), *lease.room]
            return lease.launch(given, execute, True, found)
        except REFUSED:
            put_back(before)
            return MISS
        except BaseException:
            if not found:  # else an interrupt has come after the run
                put_back(before)
            raise
