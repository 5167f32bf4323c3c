"""The same work on many tensors, as an optimizer's update of each parameter, is traced once for tensors of the same types.

For the first ones placeholders are traced, so that nothing is taken for granted that holds for them alone. What the work makes of values is
then built for each of them, and the numbers of later ones are computed as in eager code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.compiler.graph.builder import again, detached
from symgrad.compiler.graph.ir import OUTPUT, Graph, Value, input_value, toposort
from symgrad.compiler.lines import user_line
from symgrad.compiler.passes.undetached import undetached
from symgrad.compiler.tracing.box import Box
from symgrad.mode import local
from symgrad.tensor import Tensor

_FIRST = 1 << 40
"""No program has so many inputs: from here on they are placeholders."""


class Pattern:
    """What some values become, in terms of placeholders."""

    def __init__(self, slots: Sequence[Value], results: Sequence[Value]) -> None:
        self.slots, self.results = slots, results
        self.changed = [slot is not result for slot, result in zip(slots, results, strict=True)]
        depends = set(slots)
        self.steps: list[Value] = []
        for v in toposort(results, set(slots)):
            if v not in depends and not depends.isdisjoint(v.args):
                depends.add(v)
                self.steps.append(v)
        self._latest: dict[Value, tuple[list[Any], Any]] = {}

    def applied(self, values: Sequence[Value], lines: dict[Value, str]) -> list[Value]:
        """The same with values in place of the slots. What is computed from those that were there the last time, too, is known."""
        new: dict[Any, Any] = dict(zip(self.slots, values, strict=True))
        line = user_line()
        for v in self.steps:
            args = [new.get(a, a) for a in v.args]
            before, found = self._latest.get(v, (None, v))
            if before is None or any(a is not b for a, b in zip(args, before, strict=True)):
                found = args[0][v.attrs["index"]] if v.op == OUTPUT else again(v, tuple(args))
                if found.__class__ is Value:
                    lines.setdefault(found, line)
                self._latest[v] = args, found
            new[v] = found
        return [new.get(result, result) for result in self.results]


def repeat(capture: Any, key: Any, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
    """Run what changes nothing but some of these tensors, in place, and does the same for all of the same types and this key."""
    mode = local.mode
    boxes = _boxes(capture, tensors) if mode.capture is capture and capture.effects and not mode.recording else None
    if boxes is None:
        run()
        return
    before = [box.value for box in boxes]
    key = key, *((v.shape, v.dtype) for v in before)
    pattern = capture.patterns.get(key)
    if pattern is None:
        pattern = capture.patterns[key] = _traced(capture, boxes, run)
    else:
        for t, changed in zip(tensors, pattern.changed, strict=True):
            if changed:
                capture.written(t)
        mode.watch(None)
        try:
            run()
        finally:
            mode.watch(capture)
    for box, value, changed in zip(boxes, pattern.applied(before, capture.lines), pattern.changed, strict=True):
        if changed:
            box.assign(value, quiet=True)
            if box.outside is not None:
                capture.written_outside[id(box.outside)] = box.outside, box


def _boxes(capture: Any, tensors: Sequence[Tensor]) -> list[Box] | None:
    """What the tensors hold; None if one is a view or has a history, or two are the same."""
    for t in tensors:
        capture.value(t)  # so that it is known
    boxes = [capture.boxes[id(t._array)] for t in tensors]
    plain = all(t._node is None and t._owner is None and id(t) in capture.known for t in tensors)
    return boxes if plain and len(set(boxes)) == len(boxes) and all(box.parent is None for box in boxes) else None


def _traced(capture: Any, boxes: Sequence[Box], run: Callable[[], None]) -> Pattern:
    """The first run, in which placeholders take the places of what the boxes hold."""
    before = [(box.value, box.slope) for box in boxes]
    slots = [input_value(_FIRST + i, v.shape, v.dtype) for i, (v, _) in enumerate(before)]
    for box, slot in zip(boxes, slots, strict=True):
        box.value = slot
    known, capture.computed = capture.computed, {}  # another pattern has the same placeholders, for other numbers
    try:
        run()
    finally:
        capture.computed = known
    found = [box.value for box in boxes]
    bare = undetached(Graph(slots, found)).outputs  # what is computed without being recorded is cut off once, at its end
    results = [detached(y) if x.op == "detach" else y for x, y in zip(found, bare, strict=True)]
    for box, (value, slope) in zip(boxes, before, strict=True):
        box.value, box.slope = value, slope
    return Pattern(slots, results)
