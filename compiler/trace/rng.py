"""Random numbers while a function is traced: every run of the program draws them anew from the same generators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from symgrad.compiler.trace.state import TraceState, random_state
from symgrad.ops.generator import Generator
from symgrad.typing import Array


class RngRecorder(TraceState):
    """The events of a tracer that concern random numbers."""

    def before_draw(self, generator: Generator) -> None:
        """Journal the position of `generator` in its stream before its first use, so that a call that fails rewinds it."""
        if self.effects and id(generator) not in self.generators:
            self.generators[id(generator)] = generator
            self.journal.record_undo(partial(generator.rewind, generator.mark()))

    def on_seek(self, move: Callable[[], object]) -> None:
        """Record `move`, which set a generator to another position in its stream: every run repeats it between its draws."""
        if self.effects:
            self.draws.append((None, move))
            self.drawn = random_state()

    def on_draw(self, array: Array, draw: Callable[[], Array]) -> None:
        """Record that `draw` made `array` of random numbers: every run draws them anew."""
        if self.effects:
            self.draws.append((array, draw))
            self.drawn = random_state()
