"""Where values live: which memory is reused, by liveness.

A large result lives in memory of its own. It takes over that of an operand that nobody reads any more, if the operation goes element by
element, or that of any dead value of its shape and type; else it gets new memory. What is returned is memory of the call, which the
caller owns from then on; everything else is a buffer of a workspace, which is kept between calls.
Views, and results that might be views, keep the memory alive that they look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.backends.numpy.ufuncs import Form, form_of, is_fresh, overwritable, writes_out
from symgrad.compiler.backends.source import COMPARE, INFIX, WIDTH
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value

LARGE = 8192
"""Bytes from which on memory is worth reusing: below that, making an array costs no more than naming one to write to."""
SIGNS = frozenset((*INFIX, *COMPARE, "neg", "transpose"))


@dataclass(eq=False)
class Storage:
    """Memory of one shape and type, which several values have in turn."""

    shape: tuple[int, ...]
    dtype: Any
    fresh: bool
    """Made by the call, not kept in the workspace."""
    foreign: bool
    """Made by a row's kernel, in whatever order its elements are."""
    rows: bool = False
    """It must be in C order, since a product of matrices is written into it."""


class MemoryPlan:
    """Everything that is decided before source is written. Of a function inside a loop, only the outputs `kept` must be no buffers."""

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
        """Whose memory a value takes over; None if it is the first there."""
        self._allocate(place)
        everything = dict.fromkeys(self.storage.values())
        self.buffers = [s for s in everything if not s.fresh]

    def large(self, v: Value) -> bool:
        """Whether the value is an array of its own that is worth reusing."""
        if isinstance(v.dtype, tuple) or not v.shape or v.row is None or v.row.view:
            return False
        return v.size * v.dtype.itemsize >= LARGE and is_fresh(v)

    def written(self, v: Value) -> bool:
        """Whether the result can be written into memory that is there already."""
        return self.large(v) and (bool(self.forms[v]) or writes_out(v))

    def _inlined(self) -> set[Value]:
        """What stands where it is read: what is read once, is short, and has no memory to care for."""
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
        """At which statement a value is computed: what stands in a line of another's, at that one."""
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
        """In the memory of which large values a value may lie."""
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
        for i in reversed(range(len(pool))):  # what was read last is still in the cache
            if v.op != "matmul" or not self.storage[pool[i]].foreign:
                return pool.pop(i)
        return None

    def _overwritten(self, v: Value, now: int) -> Value | None:
        """The operand whose memory the result takes: nobody reads it later, and here nobody but the operation itself."""
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
    """The values whose memory the caller gets: outputs, or what a single output is a reshaped view of."""
    found: dict[Value, int] = {}
    for v in graph.outputs:
        base = unshaped(v)
        found[base] = found.get(base, 0) + 1
    return {base for base, count in found.items() if count == 1}


def unshaped(v: Value) -> Value:
    """What a value is a reshaped view of."""
    while v.op == "reshape":
        v = v.args[0]
    return v


def schedule(graph: Graph) -> list[Value]:
    """The applications in the order in which they run: of the arguments the one with the longest history first, so that what is quickly
    made is made where it is needed."""
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
