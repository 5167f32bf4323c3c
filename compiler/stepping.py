"""The shortest way through a step of training: a program that writes to tensors which the function brings along, and leaves gradients.

What belongs to the step and not to the call is looked up once: which tensors give their memory to the kernel and get new values, whose
`.grad` is set. As in `shortcut`, whatever is out of the ordinary takes the long way, and the code is plain for speed.
"""

from __future__ import annotations

from itertools import starmap
from typing import Any

import numpy as np

from symgrad.compiler.program import MISS
from symgrad.compiler.shortcut import REFUSED, Run, gather, no_shortcut
from symgrad.compiler.sources import Captured, Gradient
from symgrad.compiler.state import Step
from symgrad.compiler.tree import LEAF, unflatten
from symgrad.mode import local
from symgrad.resident import InUse, giving, resident

ndarray = np.ndarray


def stepping(step: Step) -> Run:
    """What runs a step on arguments that are tensors or arrays, or gives MISS."""
    return Stepping(step).run if step.kernel.executable is not None and _is_simple(step) else no_shortcut


def _is_simple(step: Step) -> bool:
    """Whether all that it writes to, and all whose `.grad` it looks at or sets, are tensors of the function's own, of which the kernel gets
    the memory; and it has no other effects."""
    effects, count = step.effects, step.arguments
    if step.answers or step.recorder or effects.draws or effects.prints or step.operation or step.guards.conditions:
        return False
    written = [i for i, _ in effects.writes]
    touched = {*written, *(i for i, _ in effects.grads), *(i for i, _ in effects.had_grads)}
    if any(i < count or isinstance(step.outside[i], Gradient) for i in touched):
        return False
    whole = all(isinstance(step.sources[i - count], Captured) and step.outside[i]._base is None for i in written)
    return whole and step.kernel.on_device and set(written) == set(step.kernel.donated)


class Stepping:
    """A step, ready to be run again."""

    def __init__(self, step: Step) -> None:
        kernel, effects, count, outside = step.kernel, step.effects, step.arguments, step.outside
        self.kernel, self.execute, self.count, self.own, self.guards = kernel, kernel.executable, count, step.own, step.guards
        self.recording, self.structure, self.results = local.mode.recording, step.structure, step.count
        self.dtypes = [x.dtype for x in step.graph.inputs[:count]]
        self.host_too = all(dtype.itemsize < 8 for dtype in self.dtypes)
        """Whether arguments may be the host's arrays: those of 64 bits need a context."""
        self.gifts = [(i, outside[i], step.in_use[i]) for i, _ in effects.writes]
        self.others = [(i, source) for i, source in enumerate(step.sources, count) if i not in step.in_use]
        self.had = [(outside[i], had) for i, had in effects.had_grads]
        self.grads = [(outside[i], value is not None) for i, value in effects.grads]
        self.room, self.single = [None] * len(step.sources), len(step.graph.outputs) == 1

    def run(self, args: tuple[Any, ...]) -> Any:
        mode = local.mode
        if mode.recording is not self.recording or mode.capture is not None or len(args) != self.count or not self.guards.hold():
            return MISS
        held, host = gather(args, self.dtypes, True)
        if held is None or (host and not self.host_too) or not self._find(held, args):
            return MISS
        found: list[Any] = []
        taken: list[bool] = []
        try:
            if not self._take(held, taken):
                return MISS
            found.extend(starmap(self.execute, (held,)))  # type: ignore[arg-type]  # so no interrupt comes between a run and its results
        except REFUSED:
            return MISS
        finally:
            try:
                self._leave(held, found, taken)
            except BaseException:  # an interrupt: what has begun is finished
                self._leave(held, found, taken)
                raise
        new = found if self.single else found[0]
        if host:
            new[0].block_until_ready()
        return resident(new[0]) if self.structure is LEAF else unflatten(self.structure, map(resident, new[: self.results]))

    def _find(self, held: list[Any], args: tuple[Any, ...]) -> bool:
        """All inputs but those that are given away; nothing if a tensor that is written to is an argument, too."""
        for a in args:
            if id(a) in self.own or (a.__class__ is not ndarray and id(a._base) in self.own):
                return False
        for t, had in self.had:
            if (t._grad is not None) is not had:
                return False
        held += self.room
        for i, source in self.others:
            held[i] = source.find(self.kernel, (), args)
        return True

    def _take(self, held: list[Any], taken: list[bool]) -> bool:
        """The memory of the tensors that are written to, unless some of it is elsewhere, or is read as another input, too."""
        with giving.lock:
            for i, t, _ in self.gifts:
                held[i] = m = t._held
                if m.__class__ is ndarray or m.__class__ is InUse:
                    return False
            if len(set(map(id, held))) < len(held):
                return False
            giving.begin(taken)
            for _, t, nothing in self.gifts:
                t._held = nothing
        return True

    def _leave(self, held: list[Any], found: list[Any], taken: list[bool]) -> None:
        """The new values, and the gradients; after a run that has failed, everything as it was."""
        if not taken:
            return
        with giving.lock:
            new, k = found if self.single or not found else found[0], self.results
            for i, t, nothing in self.gifts:
                if t._held is nothing:
                    if not found:
                        t._held = held[i]
                        continue
                    t._held = new[k]  # as write() does
                    old, t._cell = t._cell, []
                    t._writes += 1
                    old += (t._cell, t._writes)
                k += 1
            for t, some in self.grads if found else ():
                t._grad = resident(new[k]) if some else None
                k += some
            giving.over(taken)
