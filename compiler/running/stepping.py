"""The shortest way through a step of training: a program that writes to tensors which the function brings along, and leaves gradients.

What belongs to the step and not to the call is looked up once. As in `shortcut`, whatever is out of the ordinary takes the long way, and
the code is plain for speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.running.program import MISS
from symgrad.compiler.running.shortcut import REFUSED, Run, gather, no_shortcut
from symgrad.compiler.running.state import Step, put_back
from symgrad.compiler.tracing.sources import Draw
from symgrad.compiler.tracing.tree import LEAF, unflatten
from symgrad.mode import changes, local
from symgrad.resident import has_gradient, resident

ndarray = np.ndarray


def stepping(step: Step) -> Run:
    """What runs a step on arguments that are tensors or arrays, or gives MISS."""
    draws = [x for x, source in zip(step.graph.inputs[step.arguments :], step.sources, strict=True) if isinstance(source, Draw)]
    simple = not (step.effects.prints or step.guards.conditions) and all(x.dtype.itemsize < 8 for x in draws)
    return Stepping(step).run if step.lease is not None and step.kernel.executable is not None and simple else no_shortcut


class Stepping:
    """A step, ready to be run again."""

    def __init__(self, step: Step) -> None:
        count = step.arguments
        self.count, self.own, self.guards = count, step.own, step.guards
        self.recording, self.structure, self.results = local.mode.recording, step.structure, step.count
        self.step: Any = step
        self.way: Any = step.kernel, step.kernel.executable, step.lease
        self.dtypes = [x.dtype for x in step.graph.inputs[:count]]
        self.host_too = all(dtype.itemsize < 8 for dtype in self.dtypes)
        """Whether arguments may be the host's arrays: those of 64 bits need a context."""
        self.others, self.draws, self.generators = step.others, step.effects.draws, step.effects.generators
        self.had = [(step.outside[i], had) for i, had in step.effects.had_grads]
        self.simple = not (self.had or self.draws)

    def run(self, args: tuple[Any, ...]) -> Any:
        mode, guards, lease = local.mode, self.guards, self.way[2]
        if (lease is not self.step.lease or lease.warm) and not self._renewed():
            return MISS
        if mode.recording is not self.recording or mode.capture is not None or len(args) != self.count or (
            guards.seen != changes.count and not guards.hold()
        ):
            return MISS
        try:
            for read, value, _ in guards.names:  # as hold() does
                if read() is not value and not guards.hold():
                    return MISS
        except ValueError:
            return MISS
        for read, value in guards.others:
            if read() != value:
                return MISS
        held, host = gather(args, self.dtypes, True)
        if held is None or (host and not self.host_too):
            return MISS
        own = self.own
        for a in args:
            if type(a) is not ndarray and (id(a) in own or id(a._base) in own):
                return MISS
        new = self._launch(held, (), args, host) if self.simple else self._less_simple(held, args, host)
        if new is MISS:
            return MISS
        return resident(new[0]) if self.structure is LEAF else unflatten(self.structure, map(resident, new[: self.results]))

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

    def _launch(self, held: list[Any], draws: Sequence[Any], args: tuple[Any, ...], host: bool) -> Any:
        kernel, execute, lease = self.way
        for source in self.others:
            held.append(source.find(kernel, draws, args))
        held += lease.room
        try:
            return lease.launch(held, execute, host)
        except REFUSED:
            return MISS

    def _less_simple(self, held: list[Any], args: tuple[Any, ...], host: bool) -> Any:
        """The same for a step that asks whether there are gradients, or draws random numbers."""
        for t, had in self.had:
            if has_gradient(t) is not had:
                return MISS
        return self._drawn(held, args) if self.draws else self._launch(held, (), args, host)

    def _drawn(self, held: list[Any], args: tuple[Any, ...]) -> Any:
        """Random numbers are drawn again if they were drawn in vain."""
        before = [(generator, generator.mark()) for generator in self.generators]
        try:
            new = self._launch(held, [draw() for draw in self.draws], args, True)
        except Exception:  # an interrupt may have come after the run
            put_back(before)
            raise
        if new is MISS:
            put_back(before)
        return new
