"""Memory planning for the NumPy back end: which memory is reused, by liveness.

A large result lives in memory of its own. If the operation is elementwise, the result overwrites an operand that is dead afterwards;
otherwise it reuses the memory of any dead value of its shape and dtype, or gets new memory. Returned values are allocated by the call, and
the caller owns them from then on; everything else is a buffer of a workspace, which is kept between calls. Views, and results that may be
views, keep their base memory alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.backends.numpy.ufuncs import Form, form_of, is_fresh, overwritable, writes_out
from symgrad.compiler.backends.source import COMPARE, INFIX, WIDTH
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value

LARGE = 8192
"""Bytes from which memory is worth reusing: below that, allocating an array costs no more than passing one to write to."""
SIGNS = frozenset((*INFIX, *COMPARE, "neg", "transpose"))


@dataclass(eq=False)
class Storage:
    """Memory of one shape and dtype, which holds several values in turn."""

    shape: tuple[int, ...]
    dtype: Any
    fresh: bool
    """True if the call allocates it, instead of keeping it in the workspace."""
    foreign: bool
    """True if a row's kernel allocates it, in any memory order."""
    rows: bool = False
    """True if it must be in C order, because a matrix product is written into it."""


class MemoryPlan:
    """All decisions that precede emission. In a function nested in a loop, only the outputs `kept` must not be buffers."""

    def __init__(self, graph: Graph, kept: Sequence[Value] | None = None) -> None:
        self.graph = graph
        self.order = schedule(graph)
        self.forms: dict[Value, Form] = {v: form_of(v) if v.row is not None and v.row.elementwise else () for v in self.order}
        self.uses = graph.uses()
        self.returned = _returned(graph) if kept is None else set(map(unshaped, kept))
        self.inline = self._inlined()
        self.origins = self._origins()
        place = self._places()
        self.last = self._last_reads(place)
        self.storage: dict[Value, Storage] = {}
        self.before: dict[Value, Value | None] = {}
        """The value whose memory a value takes over; None if it is the first one there."""
        self._allocate(place)
        everything = dict.fromkeys(self.storage.values())
        self.buffers = [s for s in everything if not s.fresh]

    def large(self, v: Value) -> bool:
        """True if the value is an array of its own that is worth reusing."""
        if isinstance(v.dtype, tuple) or not v.shape or v.row is None or v.row.view:
            return False
        return v.size * v.dtype.itemsize >= LARGE and is_fresh(v)

    def written(self, v: Value) -> bool:
        """True if the result can be written into existing memory."""
        return self.large(v) and (bool(self.forms[v]) or writes_out(v))

    def _inlined(self) -> set[Value]:
        """Return the values to inline: those that are read once, are short, and need no memory."""
        found: set[Value] = set()
        width: dict[Value, int] = dict.fromkeys(self.graph.inputs, 5)
        outputs = set(self.graph.outputs)
        for v in self.order:
            size = (3 if v.op in SIGNS else 2 + len(v.op)) + sum(width.get(a, 3) for a in v.args if a is not None)
            short = len(outputs) == 1 if v in outputs else size <= WIDTH
            if short and self.uses[v] == 1 and not isinstance(v.dtype, tuple) and not self.large(v):
                found.add(v)
            width[v] = size if v in found else 3
        return found

    def _places(self) -> dict[Value, int]:
        """Return the index of the statement that computes each value: for an inlined value, that of the statement which contains it."""
        place = {v: i for i, v in enumerate(self.order)}
        end = len(self.order)
        for v in reversed(self.order):
            for a in v.args:
                if a in self.inline:
                    place[a] = place[v]
        for v in self.graph.outputs:
            if v in self.inline:
                place[v] = end
                _move(v, end, place, self.inline)
        return place

    def _origins(self) -> dict[Value, frozenset[Value]]:
        """Return for each value the large values whose memory it may share."""
        origins: dict[Value, frozenset[Value]] = {}
        for v in self.order:
            if self.large(v):
                origins[v] = frozenset((v,))
            elif not is_fresh(v):
                origins[v] = frozenset().union(*(origins.get(a, ()) for a in v.args))
            else:
                origins[v] = frozenset()
        return origins

    def _last_reads(self, place: dict[Value, int]) -> dict[Value, int]:
        last: dict[Value, int] = {}
        for v in self.order:
            for a in v.args:
                for origin in self.origins.get(a, ()):
                    last[origin] = max(last.get(origin, 0), place[v])
        for v in self.graph.outputs:
            for origin in self.origins.get(v, ()):
                last[origin] = len(self.order)
        return last

    def _allocate(self, place: dict[Value, int]) -> None:
        free: dict[Any, list[Value]] = {}
        owner: dict[Storage, Value] = {}
        dying: dict[int, list[Value]] = {}
        for origin, i in self.last.items():
            dying.setdefault(i, []).append(origin)
        for v in self.order:
            if self.large(v):
                self._give(v, place[v], free)
                owner[self.storage[v]] = v
            for dead in dying.get(place[v], ()) if v not in self.inline else ():
                if owner[self.storage[dead]] is dead:
                    free.setdefault((dead.shape, dead.dtype), []).append(dead)

    def _give(self, v: Value, now: int, free: dict[Any, list[Value]]) -> None:
        kept = v in self.returned
        written = self.written(v)
        taken = self._overwritten(v, now) if written else None
        if taken is None and written and not kept:
            taken = self._pooled(v, free.get((v.shape, v.dtype), []))
        if taken is None:
            self.storage[v] = Storage(v.shape, v.dtype, kept or not written, not written)
        else:
            storage = self.storage[v] = self.storage[taken]
            storage.fresh |= kept
            storage.rows |= v.op == "matmul"
        self.before[v] = taken

    def _pooled(self, v: Value, pool: list[Value]) -> Value | None:
        for i in reversed(range(len(pool))):  # the memory that was read last is still in the CPU cache
            if v.op != "matmul" or not self.storage[pool[i]].foreign:
                return pool.pop(i)
        return None

    def _overwritten(self, v: Value, now: int) -> Value | None:
        """Return the operand whose memory the result overwrites: nothing reads it later, and here only the operation itself does."""
        for a in overwritable(v, self.forms[v]):
            if a not in self.storage or (a.shape, a.dtype) != (v.shape, v.dtype) or self.last[a] != now:
                continue
            if not any(a in self.origins.get(other, ()) for other in v.args if other is not a):
                return a
        return None


def _move(v: Value, to: int, place: dict[Value, int], inline: set[Value]) -> None:
    stack = [v]
    while stack:
        for a in stack.pop().args:
            if a in inline:
                place[a] = to
                stack.append(a)


def _returned(graph: Graph) -> set[Value]:
    """Return the values whose memory the caller gets: outputs, or the base of a single reshaped output."""
    found: dict[Value, int] = {}
    for v in graph.outputs:
        base = unshaped(v)
        found[base] = found.get(base, 0) + 1
    return {base for base, count in found.items() if count == 1}


def unshaped(v: Value) -> Value:
    """Return the value that `v` is a reshaped view of."""
    while v.op == "reshape":
        v = v.args[0]
    return v


def schedule(graph: Graph) -> list[Value]:
    """Return the applications in the order in which they run: the argument with the longest history first, so that values that are cheap to
    compute are computed close to their use."""
    height: dict[Value, int] = {}
    for v in graph.values:
        height[v] = 1 + max((height[a] for a in v.args if a is not None), default=0)
    order: list[Value] = []
    done: set[Value] = set()
    stack: list[tuple[Value, bool]] = [(v, False) for v in reversed(graph.outputs)]
    while stack:
        v, expanded = stack.pop()
        if expanded:
            order.append(v)
        elif v not in done and v.op not in (INPUT, LITERAL):
            done.add(v)
            stack.append((v, True))
            stack.extend((a, False) for a in sorted(_some(v.args), key=height.__getitem__) if a not in done)
    return order


def _some(args: Sequence[Any]) -> list[Value]:
    return [a for a in args if a is not None]
