"""Segment a program into repeats: match values of the same role, and classify what each role reads from outside.

A repeat is everything that depends on one root but not yet on the next. Values of different repeats have the same role if they are the
same application to values of the same roles. A role reads from outside its repeat either a value that all repeats share, the value of a
role in the previous repeat (a carry), or a different value in each repeat (a column). A role for which none of these holds is removed,
together with all roles that depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.graph import Value
from symgrad.compiler.loops.reroll.repeats import is_leaf


@dataclass(frozen=True)
class Shared:
    """The same value in every repeat."""

    value: Value

    def external_values(self) -> tuple[Value, ...]:
        return (self.value,)


@dataclass(frozen=True)
class Carry:
    """The value of a role in the previous repeat; `init` in the first one."""

    role: int
    init: Value

    def external_values(self) -> tuple[Value, ...]:
        return (self.init,)


@dataclass(frozen=True)
class Column:
    """A different value in every repeat."""

    values: tuple[Value, ...]

    def external_values(self) -> tuple[Value, ...]:
        return self.values


@dataclass(frozen=True)
class SameRepeat:
    """The value of a role in the same repeat."""

    role: int

    def external_values(self) -> tuple[Value, ...]:
        return ()


Operand = Shared | Carry | Column | SameRepeat | None


@dataclass(eq=False)
class Loop:
    """A run of equal repeats."""

    length: int
    roles: dict[int, Value]
    """Each role with one of its values, in topological order."""
    operands: dict[int, list[Operand]]
    place: dict[Value, tuple[int, int]]
    """The repeat and the role of each value that the loop computes."""

    def external_values(self) -> list[Value]:
        """Return the values that the loop reads."""
        operands = (x for operands in self.operands.values() for x in operands if x is not None)
        return list(dict.fromkeys(v for x in operands for v in x.external_values()))


@dataclass(frozen=True)
class GraphInfo:
    """The values of a graph in topological order, their users, the graph's outputs, the values already in other loops, and operation
    codes."""

    values: Sequence[Value]
    users: Mapping[Value, Sequence[Value]]
    outputs: Collection[Value]
    in_loops: dict[Value, Any]
    codes: Mapping[Value, int]


def find_loop(program: GraphInfo, roots: Sequence[Value], least: int) -> Loop | None:
    """Return the loop whose repeats end at `roots`, each of which depends on the one before; None if fewer than `least` are equal."""
    repeat = _repeats(program, roots)
    table = _roles(program, repeat, len(roots) - 1)
    middle = len(table) // 2
    if not table or roots[middle + 1] not in table[middle].roles:
        return None
    end = table[middle].roles[roots[middle + 1]]
    for wanted in (set(table[middle].values), _needed(table[middle], end)):
        first, last = _stretch(table, wanted)
        if last - first >= least:
            return _Finder(program, table[first:last], wanted, end).loop()
    return None


class _Repeat:
    """The values of one repeat, by role."""

    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self.roles: dict[Any, int] = {}


def _repeats(program: GraphInfo, roots: Sequence[Value]) -> dict[Value, int]:
    """Return the repeat that each value belongs to: the number of roots that it depends on; 0 is before the first root."""
    number = {v: i for i, v in enumerate(roots)}
    after: dict[Value, int] = {}
    repeat: dict[Value, int] = {}
    for v in program.values:
        repeat[v] = max((after[a] for a in v.args if a is not None), default=0)
        after[v] = number[v] + 1 if v in number else repeat[v]
    for v in reversed(program.values):  # a value before the first root that one repeat alone reads belongs to that repeat
        if repeat[v] == 0 and not is_leaf(v) and v not in number and v not in program.in_loops and v not in program.outputs:
            readers = {repeat[u] if u not in program.in_loops else 0 for u in program.users[v]}
            if len(readers) == 1:
                repeat[v] = readers.pop()
    return repeat


def _roles(program: GraphInfo, repeat: Mapping[Value, int], count: int) -> list[_Repeat]:
    known: dict[Any, int] = {}
    found = [_Repeat() for _ in range(count)]
    seen: Counter[Any] = Counter()
    for v in program.values:
        k = repeat[v]
        if not 1 <= k <= count or is_leaf(v) or v in program.in_loops:
            continue
        here = found[k - 1]
        key = program.codes[v], tuple(None if a is None else here.roles.get(a, -1) for a in v.args)
        role = known.setdefault((key, seen[k, key]), len(known))  # the first of equal values in one repeat matches the first in another
        seen[k, key] += 1
        here.values[role], here.roles[v] = v, role
    return found


def _needed(repeat: _Repeat, role: int) -> set[int]:
    """Return the roles that `role` depends on within its repeat, and itself."""
    found: set[int] = set()
    stack = [role]
    while stack:
        r = stack.pop()
        if r not in found:
            found.add(r)
            stack += [repeat.roles[a] for a in repeat.values[r].args if a in repeat.roles]
    return found


def _stretch(table: Sequence[_Repeat], wanted: set[int]) -> tuple[int, int]:
    """Return the range of repeats around the middle that have all wanted roles."""
    first = last = len(table) // 2
    while first > 0 and wanted <= table[first - 1].values.keys():
        first -= 1
    while last < len(table) and wanted <= table[last].values.keys():
        last += 1
    return first, last


class _Finder:
    """Removes roles until the remaining ones form a loop."""

    def __init__(self, program: GraphInfo, table: Sequence[_Repeat], wanted: set[int], end: int) -> None:
        self.program, self.table, self.end = program, table, end
        self.like = table[len(table) // 2]
        self.wanted = {r: v for r, v in self.like.values.items() if r in wanted}

    def loop(self) -> Loop | None:
        while self.end in self.wanted:
            place = {repeat.values[r]: (k, r) for k, repeat in enumerate(self.table) for r in self.wanted}
            operands = {r: [self.operand(r, j, place) for j in range(len(v.args))] for r, v in self.wanted.items()}
            bad = {r for r in self.wanted if any(x is _MISMATCH for x in operands[r]) or self.leaves_whole(r, place)}
            if not bad:
                return Loop(len(self.table), self.wanted, operands, place)
            self.wanted = {r: v for r, v in self.wanted.items() if r not in bad}
        return None

    def operand(self, r: int, j: int, place: Mapping[Value, tuple[int, int]]) -> Any:
        a = self.like.values[r].args[j]
        if a is None:
            return None
        if a in self.like.roles:
            return SameRepeat(self.like.roles[a]) if self.like.roles[a] in self.wanted else _MISMATCH
        column = tuple(repeat.values[r].args[j] for repeat in self.table)
        if isinstance(a.dtype, tuple):
            return _MISMATCH  # an application with several outputs cannot cross repeats
        if all(x is a for x in column):
            return Shared(a)
        places = [place.get(x) for x in column]
        _, role = places[1] or (0, -1)
        if role in self.wanted and places[1:] == [(k, role) for k in range(len(column) - 1)]:
            return Carry(role, column[0])
        return _MISMATCH if any(places) else Column(column)

    def leaves_whole(self, r: int, place: Mapping[Value, tuple[int, int]]) -> bool:
        """True if the role is an application with several outputs that is read outside of its repeat."""
        return isinstance(self.like.values[r].dtype, tuple) and any(
            place.get(u, (-1,))[0] != k for k, repeat in enumerate(self.table) for u in self.program.users[repeat.values[r]]
        )


_MISMATCH = object()
