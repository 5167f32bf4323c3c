"""Find repetition in a program: along the longest path through its graph the same operations recur, layer by layer."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.attributes import key_of
from symgrad.compiler.ir.graph import INPUT, LITERAL, Value

MAX_PERIOD = 2000
"""Largest number of operations of a layer along the path."""


class OpNumbering:
    """A number for each kind of application: the same row, attributes and types, whatever the operands."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def of(self, v: Value) -> int:
        types = [None if x is None else (x.shape, x.dtype) for x in v.args]
        key = (v.op, id(v.row), key_of(v.attrs) if v.attrs else None, v.shape, v.dtype, *types)
        return self.known.setdefault(key, len(self.known))


def is_leaf(v: Value) -> bool:
    return v.op in (INPUT, LITERAL)


def levels(values: Sequence[Value], left_out: Container[Value]) -> dict[Value, int]:
    """Return the length of the longest chain of applications up to each value; `values` are in topological order, and those in `left_out`
    count as leaves."""
    level: dict[Value, int] = {}
    for v in values:
        level[v] = 0 if is_leaf(v) or v in left_out else 1 + max([level[a] for a in v.args if a is not None], default=0)
    return level


def longest_path(level: Mapping[Value, int]) -> list[Value]:
    """Return the longest chain of values, each an argument of the next."""
    path: list[Value] = []
    v: Value | None = max(level, key=level.__getitem__, default=None)
    while v is not None and level[v]:
        path.append(v)
        v = next((a for a in v.args if a is not None and level[a] == level[path[-1]] - 1), None)
    return path[::-1]


def periodic_runs(codes: Sequence[int], least: int) -> list[tuple[int, int, int]]:
    """Return the non-overlapping runs (start, stop, period) in which a sequence has at least `least` periods."""
    return _runs(np.asarray(codes), 0, least)


def _runs(codes: Any, offset: int, least: int) -> list[tuple[int, int, int]]:
    found = [_longest(codes, period) for period in range(1, min(len(codes) // least, MAX_PERIOD) + 1)]
    found = [(start, stop, period) for start, stop, period in found if stop - start >= least * period]
    if not found:
        return []
    most = max(stop - start for start, stop, _ in found)
    start, stop, period = next(run for run in found if run[1] - run[0] >= 0.9 * most)  # a multiple of a period is a period, too
    before, after = _runs(codes[:start], offset, least), _runs(codes[stop:], offset + stop, least)
    return [*before, (offset + start, offset + stop, period), *after]


def _longest(codes: Any, period: int) -> tuple[int, int, int]:
    """Return the longest run with this period."""
    edges = np.flatnonzero(np.concatenate([[True], codes[:-period] != codes[period:], [True]]))
    lengths = np.diff(edges)
    i = int(np.argmax(lengths))
    return int(edges[i]), int(edges[i] + lengths[i] - 1 + period), period


def roots(path: Sequence[Value], run: tuple[int, int, int], level: Mapping[Value, int]) -> list[Value]:
    """Return one value of each repeat: the one at which the fewest values are passed to the next repeat."""
    start, stop, period = run
    middle = start + (stop - start) // 2 // period * period
    offsets = [i for i in range(period) if not isinstance(path[middle + i].dtype, tuple)]
    offset = min(offsets, key=lambda i: _crossing(path[middle + i - period : middle + i + period + 1 : period], level), default=None)
    return [] if offset is None else list(path[start + offset : stop : period])


def _crossing(three: Sequence[Value], level: Mapping[Value, int]) -> int:
    """Return how many values between the first two are read between the last two."""
    before, here, after = three
    seen: set[Value] = {here}
    found = 0
    stack = [after]
    while stack:
        for a in stack.pop().args:
            if a is None or a in seen:
                continue
            seen.add(a)
            if level[a] >= level[here]:
                stack.append(a)
            elif level[a] >= level[before]:
                found += 1
    return found
