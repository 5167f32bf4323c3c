"""The equal layers of a program: find them, order them, build one as a graph, and rebuild the program without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from symgrad.compiler.ir.graph import LITERAL, Graph, Value, input_value, intern, output
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import reintern
from symgrad.compiler.loops.reroll.repeats import OpNumbering, levels, longest_path, periodic_runs, roots
from symgrad.compiler.loops.reroll.segments import Carry, Column, GraphInfo, Loop, SameRepeat, Shared, find_loop

MIN_REPEATS = 6
"""Smallest number of equal layers that is replaced."""
_MULTIPLES = 3
"""Periods are also tried in multiples up to this, for layers of which only every second or third is equal."""


def find_loops(graph: Graph, least: int) -> list[Loop]:
    """Return the chains of at least `least` equal layers, none of which depends on itself."""
    codes = OpNumbering()
    code = {v: codes.of(v) for v in graph.values}
    users: dict[Value, list[Value]] = {v: [] for v in graph.values}
    for v in graph.values:
        for a in v.args:
            if a is not None:
                users[a].append(v)
    found: list[Loop] = []
    taken: dict[Value, Loop] = {}
    program = GraphInfo(graph.values, users, frozenset(graph.outputs), taken, code)
    while new := _along_longest_path(graph, program, found, least):
        found += new
    return found


def _along_longest_path(graph: Graph, program: GraphInfo, found: list[Loop], least: int) -> list[Loop]:
    """Return more loops along the longest path through values outside of loops. The last is found first, since it includes values that
    only it reads."""
    level = levels(program.values, program.in_loops)
    path = longest_path(level)
    new: list[Loop] = []
    for start, stop, period in reversed(periodic_runs([program.codes[v] for v in path], least + 1)):
        for multiple in range(1, _MULTIPLES + 1):
            if stop - start < (least + 1) * period * multiple:
                break
            loop = find_loop(program, roots(path, (start, stop, period * multiple), level), least)
            if loop is not None and in_order(graph, [*found, *new, loop]) is not None:
                new.append(loop)
                program.in_loops.update(dict.fromkeys(loop.place, loop))
                break
    return new


def in_order(graph: Graph, loops: Sequence[Loop]) -> list[Value | Loop] | None:
    """Return values and loops in topological order; None if a loop would depend on itself."""
    owner: dict[Value, Any] = {v: loop for loop in loops for v in loop.place}
    order: list[Value | Loop] = []
    state: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(owner.get(v, v), False) for v in reversed(graph.outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            state[node] = True
            order.append(node)
        elif node not in state:
            state[node] = False
            stack.append((node, True))
            reads = node.external_values() if isinstance(node, Loop) else [a for a in node.args if a is not None]
            for a in reversed(reads):
                a = owner.get(a, a)
                if state.get(a) is False:
                    return None
                if a not in state:
                    stack.append((a, False))
    return order


class GraphRebuilder:
    """Base class that rebuilds a graph with its equal layers replaced."""

    def __init__(self, source: Graph, loops: Sequence[Loop]) -> None:
        self.source, self.order = source, in_order(source, loops) or []
        self.owner: dict[Value, Loop] = {v: loop for loop in loops for v in loop.place}
        self.new: dict[Value, Value] = _NewValues(self.inside)

    def graph(self) -> Graph:
        for node in self.order:
            if isinstance(node, Loop):
                self.replace(node)
            else:
                interpret((), self.new, reintern, project=output, order=(node,))
        return Graph(self.source.inputs, [self.new[v] for v in self.source.outputs], self.source.labels)

    def replace(self, loop: Loop) -> None:
        """Build the replacement of a loop's equal layers."""
        raise NotImplementedError

    def inside(self, v: Value) -> Value:
        """Return the new value of a value inside of a loop, when it is first read outside."""
        raise KeyError(v)

    def external_reads(self) -> Iterator[tuple[Value, bool]]:
        """Iterate over the values of loops that are outputs or read outside of the repeat that computes them, with True if read
        individually, False if read as part of a column."""
        for v, singly in self._all_external_reads():
            if v in self.owner:
                yield v, singly

    def _all_external_reads(self) -> Iterator[tuple[Value, bool]]:
        for v in self.source.outputs:
            yield v, True
        for node in self.order:
            if not isinstance(node, Loop):
                yield from ((a, True) for a in node.args if a is not None)
                continue
            for operand in (x for operands in node.operands.values() for x in operands):
                if isinstance(operand, Column):
                    yield from ((v, False) for v in operand.values)
                elif isinstance(operand, (Shared, Carry)):
                    yield operand.value if isinstance(operand, Shared) else operand.init, True


class _NewValues(dict[Value, Value]):
    """The new value of each value; those that are read outside of their loop are made on demand."""

    def __init__(self, make: Callable[[Value], Value]) -> None:
        self._make = make

    def __missing__(self, v: Value) -> Value:
        self[v] = made = self._make(v)
        return made


def loop_body(loop: Loop, inputs: Sequence[Any], results: Sequence[int], labels: Sequence[str] | None = None) -> Graph:
    """Return one repeat as a graph of `inputs`, with the roles `results` as outputs."""
    ends = [input_value(i, like.shape, like.dtype) for i, like in enumerate(map(_like, inputs))]
    known = dict(zip(inputs, ends, strict=True))
    new: dict[int, Value] = {}

    def operand(x: Any) -> Value | None:
        if isinstance(x, SameRepeat):
            return new[x.role]
        if isinstance(x, Shared) and x.value.op == LITERAL:
            return x.value
        return None if x is None else known[x]

    for role, v in loop.roles.items():
        new[role] = intern(v.op, v.row, tuple(map(operand, loop.operands[role])), v.attrs, v.shape, v.dtype)
    return Graph(ends, [new[r] for r in results], labels)


def _like(x: Any) -> Value:
    return x.init if isinstance(x, Carry) else x.values[0] if isinstance(x, Column) else x.value
