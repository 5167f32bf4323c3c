"""Random numbers in a while_loop, whose number of steps, and so the final state of the generator, is unknown before the run.

Numbers are drawn for more steps than expected, in the order in which the steps would draw them, and each step selects its own. The run
returns how many steps it took, and the generator is rewound to its state after that many. Draws after the loop assume as many steps as in
the last run: if the number differs, the run is discarded and replayed with new draws.
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
"""Number of steps that random numbers are drawn for, at first and at most."""


class ReplayDraws(Exception):
    """A loop took a different number of steps than expected, and random numbers were drawn after it."""


class LoopDraws:
    """The draws of a loop for `drawn_steps` steps, and the number of steps of its latest run."""

    def __init__(self, test: BodyDraws, step: BodyDraws, drawn_steps: int, most: int | None) -> None:
        self.test, self.step, self.drawn_steps, self.max_steps = test, step, drawn_steps, most
        self.count, self.found = 0, list[Array]()
        self._marks: list[Any] = []
        """The state of the generator after each number of steps."""
        self._uses = 0

    def draw(self) -> None:
        """Draw for all steps. The condition runs once more than the body, unless the loop reaches `max_steps`."""
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
        """True if a run of `count` steps had random numbers for all of them."""
        return count < self.drawn_steps or self.drawn_steps == self.max_steps

    def commit(self, count: int) -> None:
        """After a run that `covers` accepts, rewind the generator to its state after `count` steps; raise ReplayDraws if it has been used
        since."""
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
    """Run a while_loop that draws random numbers; its condition and body were traced on a counter and the carries."""
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
    """Return draws for at least as many steps as this call takes, and the attributes of the loop that selects from them."""
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
    """Return the attributes of the loop: in its condition and body, each draw is selected by the step counter."""
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
