"""f(f(f(x, w₀), w₁), w₂) -> scan(f, x, stack(w₀, w₁, w₂)): equal layers become a loop.

XLA's compile time grows with the program, and faster than linearly if values of one layer are read in many others, as in residual nets; a
loop has its body once. Values that differ between layers are stacked and read slice by slice, the loop stacks values that later code
reads, and a stack that one loop returns is passed to the next unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import SCAN
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value
from symgrad.compiler.loops.reroll.cost_model import is_profitable
from symgrad.compiler.loops.reroll.layers import MIN_REPEATS, GraphRebuilder, find_loops, loop_body
from symgrad.compiler.loops.reroll.outline import outline
from symgrad.compiler.loops.reroll.segments import Carry, Column, Loop, Shared
from symgrad.ops.joining import region

_FEW = 4
"""Up to this many rows of a stack are read individually; more are unbound at once."""


def roll(graph: Graph, least: int = MIN_REPEATS, pays: Callable[[Graph, Sequence[Loop]], bool] = is_profitable) -> Graph:
    """Return the graph with each chain of at least `least` equal layers as a loop if `pays` says so, else as calls of one function."""
    loops = find_loops(graph, least)
    if not loops:
        return graph
    return _Builder(graph, loops).graph() if pays(graph, loops) else outline(graph, loops)


def _external_operands(loop: Loop) -> tuple[list[Carry], list[Column], list[Shared]]:
    """Return what a loop reads from outside, each once, but for literals."""
    operands = list(dict.fromkeys(x for operands in loop.operands.values() for x in operands))
    shared = [x for x in operands if isinstance(x, Shared) and x.value.op != LITERAL]
    return [x for x in operands if isinstance(x, Carry)], [x for x in operands if isinstance(x, Column)], shared


class _Builder(GraphRebuilder):
    def __init__(self, source: Graph, loops: Sequence[Loop]) -> None:
        super().__init__(source, loops)
        self.read = self._read()
        self.reverse: dict[Loop, bool] = {}
        self.stacks: dict[tuple[Loop, int], Value] = {}
        self.rows: dict[Value, Sequence[Value]] = {}

    def _read(self) -> dict[tuple[Loop, int], dict[Value, bool]]:
        """Return, for each role, its values that are read outside, with True if read individually."""
        found: dict[tuple[Loop, int], dict[Value, bool]] = {}
        for v, singly in self.external_reads():
            loop = self.owner[v]
            read = found.setdefault((loop, loop.place[v][1]), {})
            read[v] = read.get(v, False) or singly
        return found

    # values outside of loops

    def inside(self, v: Value) -> Value:
        """Return one row of a stack."""
        loop = self.owner[v]
        _, role = loop.place[v]
        stack, t = self.stacks[loop, role], self.position(v)
        if sum(self.read[loop, role].values()) <= _FEW:
            return xp.getitem(stack, index=region(stack.shape, 0, t))
        if stack not in self.rows:
            self.rows[stack] = xp.unbind(stack, axis=0)
        return self.rows[stack][t]

    def position(self, v: Value) -> int:
        loop = self.owner[v]
        k, _ = loop.place[v]
        return loop.length - 1 - k if self.reverse[loop] else k

    # loops

    def replace(self, loop: Loop) -> None:
        self.reverse[loop] = reverse = self._is_backwards(loop)
        carries, columns, shared = _external_operands(loop)
        given = [self.new[x.init] for x in carries]
        given += [self.stacked(x.values[::-1] if reverse else x.values) for x in columns]
        given += [self.new[x.value] for x in shared]
        kept = [r for r in loop.roles if self._is_kept(loop, r, carries)]
        one = loop_body(loop, [*carries, *columns, *shared], [*(x.role for x in carries), *kept])
        attrs = {"body": one, "carries": len(carries), "slices": len(columns), "length": loop.length, "reverse": reverse}
        found = apply(SCAN, tuple(given), attrs)
        for x, last in zip(carries, found, strict=False):
            self._note_last(loop, x.role, last)
        self.stacks.update({(loop, r): stack for r, stack in zip(kept, found[len(carries) :], strict=True)})

    def _note_last(self, loop: Loop, role: int, last: Value) -> None:
        """Enter the last carry as the new value of the role in the last repeat, if that is read outside."""
        v = next((v for v in self.read.get((loop, role), ()) if loop.place[v][0] == loop.length - 1), None)
        if v is not None:
            self.new[v] = last

    def _is_kept(self, loop: Loop, role: int, carries: Sequence[Carry]) -> bool:
        """True if the values of a role are stacked: not if only the last one is read and a carry returns it anyway."""
        read = self.read.get((loop, role), {})
        only_last = all(loop.place[v][0] == loop.length - 1 for v in read)
        return bool(read) and not (only_last and any(x.role == role for x in carries))

    def _is_backwards(self, loop: Loop) -> bool:
        """True if most columns are stacked in the opposite order."""
        votes = 0
        for x in (x for operands in loop.operands.values() for x in operands if isinstance(x, Column)):
            first, last = self._rank(x.values[0]), self._rank(x.values[-1])
            votes += (first > last) - (first < last)
        return votes > 0

    def _rank(self, v: Value) -> int:
        return self.position(v) if v in self.owner else v.attrs["index"] if v.op == INPUT else 0

    def stacked(self, values: Sequence[Value]) -> Value:
        """Return values stacked along a new first axis. Stacks that a loop returned are reused."""
        parts: list[Value] = []
        singles: list[Value] = []
        for stack, first, last, run in self._stretches(values):
            if stack is None:
                singles += run
                continue
            parts += [xp.stack(*map(self.new.__getitem__, singles), axis=0)] if singles else []
            singles = []
            parts.append(stack if last - first == stack.shape[0] else xp.getitem(stack, index=region(stack.shape, 0, (first, last, 1))))
        parts += [xp.stack(*map(self.new.__getitem__, singles), axis=0)] if singles else []
        return parts[0] if len(parts) == 1 else xp.cat(*parts, axis=0)

    def _stretches(self, values: Sequence[Value]) -> list[tuple[Value | None, int, int, list[Value]]]:
        """Return runs (stack, start, stop, values) of adjacent rows of one stack; other values are runs of their own, without a stack."""
        found: list[tuple[Value | None, int, int, list[Value]]] = []
        for v in values:
            loop = self.owner.get(v)
            stack = None if loop is None else self.stacks.get((loop, loop.place[v][1]))
            t = 0 if stack is None else self.position(v)
            if stack is not None and found and found[-1][0] is stack and found[-1][2] == t:
                _, first, _, run = found.pop()
                found.append((stack, first, t + 1, [*run, v]))
            else:
                found.append((stack, t, t + 1, [v]))
        return found
