"""Random numbers in a body that is traced once: they are drawn for all runs beforehand, in the order in which the runs would draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.subgraph import subgraph
from symgrad.mode import record_draw
from symgrad.ops.generator import default_generator
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array

_SLOTS = 2 * 10**6


def draw_slot(number: int, array: Array) -> Value:
    """Return the placeholder of a draw while a body is traced: an input with an index that no program reaches."""
    return input_value(_SLOTS + number, array.shape, array.dtype)


class BodyDraws:
    """The draws of one run of a body, in order."""

    def __init__(self) -> None:
        self._draws: list[Callable[[], Any]] = []
        self.slots: list[Value] = []

    def record(self, body: Any) -> None:
        """Take over the draws that were recorded while a body was traced."""
        self._draws = [draw for _, draw in body.draws]
        self.slots = [draw_slot(i, array) for i, (array, _) in enumerate(body.draws)]
        body.draws.clear()

    def as_graph(
        self, inputs: Sequence[Value], shared: Sequence[Value], outputs: Sequence[Value], labels: Sequence[str] | None = None
    ) -> Graph:
        """Return the body as a graph of its inputs, its draws and its shared inputs."""
        if not self.slots:
            return Graph((*inputs, *shared), outputs, labels)
        names = [f"x{i}" for i in range(len(inputs) + len(self.slots) + len(shared))] if labels is None else labels
        return subgraph((*inputs, *self.slots, *shared), outputs, names)

    def shared_draws(self) -> list[Tensor]:
        """Draw for one run, recorded, as tensors that all runs share."""
        return [wrap(record_draw(draw, default_generator)) for draw in self._draws]

    def draw_run(self) -> list[Array]:
        """Draw for one run."""
        return [np.asarray(draw()) for draw in self._draws]

    def stack(self, rows: Sequence[Sequence[Array]]) -> list[Array]:
        """Stack each draw over several runs."""
        empty = [np.empty((0, *slot.shape), slot.dtype) for slot in self.slots]
        return [np.stack(column) for column in zip(*rows, strict=True)] if rows else empty

    def draw_all_runs(self, runs: int, reverse: bool = False) -> list[Tensor]:
        """Draw for all runs, recorded, stacked along the first axis."""
        found: list[Array] = []

        def draw() -> None:
            rows = [self.draw_run() for _ in range(runs)]
            found[:] = self.stack(rows[::-1] if reverse else rows)

        return [wrap(record_draw(JointDraw(draw, found, i), default_generator)) for i in range(len(self._draws))]


@dataclass(frozen=True)
class JointDraw:
    """One of several arrays that are drawn together, when the first of them is requested."""

    draw: Callable[[], None]
    found: list[Array]
    number: int

    def __call__(self) -> Array:
        if not self.number:
            self.draw()
        return self.found[self.number]
