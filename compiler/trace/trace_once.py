"""Trace once: repeated in-place work, such as an optimizer's update of each parameter, is traced once for tensors of the same types.

The first run is traced on placeholders, so that nothing is folded that holds for the first tensors only. The resulting pattern is then
instantiated for each set of tensors; the array values of the later ones are computed eagerly, without tracing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.compiler.ir.builder import again, detached
from symgrad.compiler.ir.graph import Graph, Value, input_value, toposort
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.rewrite.kernel import drop_stop_gradients
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.mode import local
from symgrad.tensor import Tensor

if TYPE_CHECKING:
    from symgrad.compiler.trace.values import TracedValues

_FIRST_PLACEHOLDER = 1 << 40
"""Input indices from here on are placeholders: no program has so many inputs."""


class Pattern:
    """The new values of some tensors as expressions of placeholders (`slots`) for their old ones."""

    def __init__(self, slots: Sequence[Value], results: Sequence[Value]) -> None:
        self.slots, self.results = slots, results
        self.changed = [slot is not result for slot, result in zip(slots, results, strict=True)]
        depends = set(slots)
        self.steps: list[Value] = []
        for v in toposort(results, set(slots)):
            if v not in depends and not depends.isdisjoint(v.args):
                depends.add(v)
                self.steps.append(v)
        self._fixed = {a: a for a in (*results, *(a for v in self.steps for a in v.args)) if a is not None and a not in depends}
        self._latest: dict[Value, tuple[Any, Any]] = {}

    def apply(self, values: Sequence[Value], lines: dict[Value, str]) -> list[Value]:
        """The results with `values` in place of the slots. A step whose operands are those of the last application is reused."""
        line = user_line()

        def step(v: Value, args: tuple[Any, ...]) -> Any:
            before, found = self._latest.get(v, (None, None))
            if before is None or not all(map(operator.is_, args, before)):
                found = again(v, args)
                for value in found if found.__class__ is tuple else (found,):
                    lines.setdefault(value, line)
                self._latest[v] = args, found
            return found

        return interpret(self.results, {**self._fixed, **dict(zip(self.slots, values, strict=True))}, step, order=self.steps)


def trace_once(capture: TracedValues, key: Hashable, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
    """Run `run`, which only writes to some of `tensors` in place and performs the same ops for all tensors of this key and these types. It
    runs untraced if a pattern for them is known."""
    mode = local.mode
    storages = _storages_of(capture, tensors) if mode.capture is capture and not mode.recording and capture.effects else None
    if storages is None:
        run()
        return
    before = [storage.value for storage in storages]
    known = key, *((v.shape, v.dtype) for v in before)
    pattern = capture.patterns.get(known)
    if pattern is None:
        pattern = capture.patterns[known] = _traced(capture, storages, run)
    else:
        for t, changed in zip(tensors, pattern.changed, strict=True):
            if changed:
                capture.before_write(t)
        mode.swap_capture(None)
        try:
            run()
        finally:
            mode.swap_capture(capture)
    for storage, value, changed in zip(storages, pattern.apply(before, capture.lines), pattern.changed, strict=True):
        if changed:
            storage.write(value, quiet=True)
            if storage.external is not None:
                capture.written_inputs[id(storage.external)] = storage.external, storage


def _storages_of(capture: TracedValues, tensors: Sequence[Tensor]) -> list[TracedStorage] | None:
    """The storages of the tensors; None if one is a view or has a history, or two are the same."""
    for t in tensors:
        capture.value(t)  # registers t
    storages = [capture.storages[id(t._array)] for t in tensors]
    plain = all([t._node is None and t._owner is None and id(t) in capture.known_ids for t in tensors])
    return storages if plain and len(set(storages)) == len(storages) and all([storage.parent is None for storage in storages]) else None


def _traced(capture: TracedValues, storages: Sequence[TracedStorage], run: Callable[[], None]) -> Pattern:
    """The pattern of the first run, traced with placeholders for the values of the storages."""
    before = [(storage.value, storage.grad_value) for storage in storages]
    slots = [input_value(_FIRST_PLACEHOLDER + i, v.shape, v.dtype) for i, (v, _) in enumerate(before)]
    for storage, slot in zip(storages, slots, strict=True):
        storage.value = slot
    known, capture.cse_cache = capture.cse_cache, {}  # another pattern uses the same placeholders for other values
    try:
        run()
    finally:
        capture.cse_cache = known
    found = [storage.value for storage in storages]
    bare = drop_stop_gradients(Graph(slots, found)).outputs  # unrecorded work needs one stop-gradient, at its end
    results = [detached(y) if x.op == "detach" else y for x, y in zip(found, bare, strict=True)]
    for storage, (value, slope) in zip(storages, before, strict=True):
        storage.value, storage.grad_value = value, slope
    return Pattern(slots, results)
