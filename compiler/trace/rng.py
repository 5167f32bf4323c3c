"""Random numbers while a function is traced: every run of the program draws them anew from the same generators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.journal import Journal
from symgrad.errors import TraceError
from symgrad.ops.generator import Generator, default_generator
from symgrad.tensor import Tensor


class RngRecorder:
    """The events of a capture that concern random number generators."""

    effects: bool
    journal: Journal

    def __init__(self) -> None:
        self.drawn = _state_of_random()
        """Use count and state of the default generator at the start of the trace, or after the last recorded draw."""
        self.draws: list[tuple[Any, Callable[[], Any]]] = []
        """Recorded draws in order: the array drawn during the trace, and the function that draws it anew. A seek has None for the array."""
        self.generators: dict[int, Any] = {}
        """The generators that were used, by id."""

    def before_draw(self, generator: Any) -> None:
        """Journal the position of `generator` in its stream before its first use, so that a call that fails rewinds it."""
        if self.effects and id(generator) not in self.generators:
            self.generators[id(generator)] = generator
            self.journal.record_undo(partial(generator.rewind, generator.mark()))

    def on_seek(self, move: Callable[[], Any]) -> None:
        """Record `move`, which set a generator to another position in its stream: every run repeats it between its draws."""
        if self.effects:
            self.draws.append((None, move))
            self.drawn = _state_of_random()

    def on_draw(self, array: Any, draw: Callable[[], Any]) -> None:
        """Record that `draw` made `array` of random numbers: every run draws them anew."""
        if self.effects:
            self.draws.append((array, draw))
            self.drawn = _state_of_random()

    def draw_index_of(self, t: Tensor) -> int | None:
        """The index of the draw that made the memory of `t`, or None."""
        memory, base, shape = t._array, t._array.base, t._array.shape
        arrays = [(i, a) for i, (a, _) in enumerate(self.draws) if a is not None]
        return next((i for i, a in arrays if a is memory or (a.base is not None and a.base is base and a.shape == shape)), None)

    def refuse_random(self) -> None:
        """Raise TraceError if random numbers were drawn that no draw records: a program would repeat them at every run."""
        if self.drawn[0] != default_generator.uses and self.drawn[1] != _state_of_random()[1]:
            raise TraceError(
                f"{user_line()}: random numbers are drawn inside a traced function, which would repeat them at every run; draw them"
                " outside and pass them in, or leave the function eager"
            )


def _state_of_random() -> tuple[int, bytes]:
    return default_generator.uses, Generator.get_state(default_generator).tobytes()
