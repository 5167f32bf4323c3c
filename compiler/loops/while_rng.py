"""Random numbers in a while_loop: nobody knows before a run how many steps it takes, and so where it leaves the generator.

They are drawn for more steps than it is expected to take, in the order in which the steps would, and a step picks its own. The run
tells how many it took, and the generator goes back to where that many leave it. What is drawn after the loop is drawn as if it took as
many as at the last run: if it did not, the run is discarded, and replayed with new draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.control_flow import WHILE
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.subgraph import labels, substitute
from symgrad.compiler.loops.rng import BodyDraws, JointDraw
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError
from symgrad.mode import record_draw
from symgrad.ops.generator import default_generator
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array

_FIRST_DRAWN_STEPS = 64
_MAX_DRAWN_STEPS = 1 << 20
"""Steps that random numbers are drawn for, at first and at most."""


class ReplayDraws(Exception):
    """A loop took other than the expected number of steps, and random numbers were drawn after it."""


class LoopDraws:
    """The draws of a loop for so many steps, and how many it took at the latest run."""

    def __init__(self, test: BodyDraws, step: BodyDraws, drawn_steps: int, most: int | None) -> None:
        self.test, self.step, self.drawn_steps, self.max_steps = test, step, drawn_steps, most
        self.count, self.found = 0, list[Array]()
        self._marks: list[Any] = []
        """Where the loop leaves the generator after so many steps."""
        self._uses = 0

    def draw(self) -> None:
        """Draw for all steps; the condition is asked once more than there are steps, unless they are as many as there may be."""
        tests, steps = [], []
        self._marks = []
        for _ in range(self.drawn_steps):
            tests.append(self.test.draw_run())
            self._marks.append(default_generator.mark())
            steps.append(self.step.draw_run())
        self._marks.append(default_generator.mark())
        tests.append(self.test.draw_run())
        self.found[:] = [*self.test.stack(tests), *self.step.stack(steps)]
        default_generator.rewind(self._marks[self.count])
        self._uses = default_generator.uses

    def covers(self, count: int) -> bool:
        """Whether a run that took so many steps had random numbers for all of them."""
        return count < self.drawn_steps or self.drawn_steps == self.max_steps

    def commit(self, count: int) -> None:
        """After a run that did: the generator is where it leaves it."""
        if count == self.count:
            return
        self.count = count
        if default_generator.uses != self._uses:
            raise ReplayDraws
        default_generator.rewind(self._marks[count])


def while_loop_with_draws(
    outer: Any, carries: Sequence[Tensor], closure: Any, outputs: tuple[Value, Sequence[Value]], draws: tuple[BodyDraws, BodyDraws],
    most: int | None
) -> list[Tensor]:
    """A loop whose condition and body, of a counter and the carries, were traced and draw random numbers."""
    counter = wrap(np.zeros((), np.int64))
    outer.on_constant(counter)
    operands = [counter, *carries, *closure.tensors]
    steps, attrs = _draws_and_loop(operands, len(carries) + 1, outputs, draws, most)
    rows = [wrap(record_draw(JointDraw(steps.draw, steps.found, i), default_generator)) for i in range(len(steps.found))]
    results: list[Tensor]
    count, *results = apply(WHILE, (*operands, *rows), attrs)
    outer.path.add_loop_count(outer.value(count), steps, f"the number of steps of while_loop at {user_line()}")
    return results


def _draws_and_loop(
    operands: Sequence[Tensor], carries: int, outputs: tuple[Value, Sequence[Value]], draws: tuple[BodyDraws, BodyDraws], most: int | None
) -> tuple[LoopDraws, dict[str, Any]]:
    """Draws for as many steps as this call takes, or more, and the loop that picks them."""
    size = _FIRST_DRAWN_STEPS if most is None else min(most, _FIRST_DRAWN_STEPS)
    while size <= _MAX_DRAWN_STEPS:
        steps, mark = LoopDraws(*draws, size, most), default_generator.mark()
        steps.draw()
        default_generator.rewind(mark)
        attrs = _loop(operands, carries, outputs, steps)
        steps.count = int(WHILE.numpy(*(t._array for t in operands), *steps.found, **attrs)[0])
        if steps.covers(steps.count):
            return steps, attrs
        size = 4 * size if most is None else min(most, 4 * size)
    raise TraceError(
        f"{user_line()}: a while_loop that draws random numbers takes more than {_MAX_DRAWN_STEPS} steps; leave the function eager"
    )


def _loop(operands: Sequence[Tensor], carries: int, outputs: tuple[Value, Sequence[Value]], steps: LoopDraws) -> dict[str, Any]:
    """Condition and body, in which each draw is the one of the step."""
    types = [(t._array.shape, t._array.dtype) for t in operands] + [(a.shape, a.dtype) for a in steps.found]
    inputs = [input_value(i, shape, dtype) for i, (shape, dtype) in enumerate(types)]
    k, rows, (truth, new) = inputs[0], inputs[len(operands) :], outputs
    slots = (*steps.test.slots, *steps.step.slots)
    picked = [xp.reshape(xp.index_select(row, xp.reshape(k, shape=(1,)), axis=0), shape=row.shape[1:]) for row in rows]
    asked = dict(zip(slots[: len(steps.test.slots)], picked, strict=False))
    made = dict(zip(slots[len(steps.test.slots) :], picked[len(steps.test.slots) :], strict=True))
    condition = xp.logical_and(substitute([truth], asked)[0], xp.lt(k, steps.drawn_steps))
    names = labels(carries, 0, len(inputs) - carries)
    body = Graph(inputs, (xp.add(k, 1), *substitute(new, made)), names)
    return {"condition": Graph(inputs, (condition,), names), "body": body, "carries": carries, "max_steps": steps.drawn_steps}
