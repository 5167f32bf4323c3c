"""f(f(f(x, w₀), w₁), w₂) -> call(f, call(f, call(f, x, w₀), w₁), w₂): equal layers become calls of one function.

XLA inlines the function and computes what it would have computed without it. But the source is emitted, traced and lowered once for all
layers, and a reader reads one layer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from symgrad.compiler.ir.builder import again, apply
from symgrad.compiler.ir.control_flow import CALL
from symgrad.compiler.ir.graph import LITERAL, Graph, Value
from symgrad.compiler.loops.reroll.layers import GraphRebuilder, loop_body
from symgrad.compiler.loops.reroll.segments import Carry, Column, Loop, Shared

_CALL_COST = 2
"""Cost to JAX of one call, in operations."""
_FUNCTION_COST = 20
"""Cost to JAX of one function, in operations."""


def outline(graph: Graph, loops: Sequence[Loop]) -> Graph:
    """Return the graph with the repeats of these loops as calls, where that is profitable."""
    loops = [loop for loop in loops if _is_profitable(loop)]
    return _Builder(graph, loops).graph() if loops else graph


def _is_profitable(loop: Loop) -> bool:
    """True if there is less to trace. Loops with literals that differ between layers are refused: as operands, JAX would turn them into
    arrays one by one."""
    columns = (x for operands in loop.operands.values() for x in operands if isinstance(x, Column))
    if any(v.op == LITERAL for x in columns for v in x.values):
        return False
    return (loop.length - 1) * sum(map(_operations, loop.roles.values())) > loop.length * _CALL_COST + _FUNCTION_COST


def _operations(v: Value) -> int:
    """Return the approximate number of JAX operations of a value."""
    return 1 if v.row is not None and (v.row.elementwise or v.row.view) else 2


class _Builder(GraphRebuilder):
    def __init__(self, source: Graph, loops: Sequence[Loop]) -> None:
        super().__init__(source, loops)
        self.read = {(self.owner[v], self.owner[v].place[v][1]) for v, _ in self.external_reads()}
        """Pairs of a loop and a role whose values are read outside."""
        self.label = dict(zip(source.inputs, source.labels, strict=True))

    def replace(self, loop: Loop) -> None:
        read = (x for operands in loop.operands.values() for x in operands if isinstance(x, (Carry, Column, Shared)))
        inputs = [x for x in dict.fromkeys(read) if not (isinstance(x, Shared) and x.value.op == LITERAL)]
        carried = {x.role for x in inputs if isinstance(x, Carry)}
        results = [r for r in loop.roles if r in carried or (loop, r) in self.read]
        function = loop_body(loop, inputs, results, [self._name(x) for x in inputs])
        at = {place: v for v, place in loop.place.items()}
        given: dict[int, Value] = {}
        found: tuple[Value, ...] = ()
        for k in range(loop.length):
            args = tuple([self._operand(x, k, given) for x in inputs])
            found = again(found[0].args[0], args) if found else apply(CALL, args, {"body": function})
            given = dict(zip(results, found, strict=True))
            self.new.update((at[k, role], v) for role, v in given.items())

    def _operand(self, x: Carry | Column | Shared, k: int, before: dict[int, Value]) -> Value:
        if isinstance(x, Carry) and k:
            return before[x.role]
        return self.new[x.init if isinstance(x, Carry) else x.value if isinstance(x, Shared) else x.values[k]]

    def _name(self, x: Carry | Column | Shared) -> str:
        """Return the name of an input inside the function: `weight` for net_0_weight, net_2_weight and so on; empty if the labels share no
        ending."""
        values = (x.value,) if isinstance(x, Shared) else x.values if isinstance(x, Column) else ()
        paths = [re.split("[._]", self.label.get(v, ""))[::-1] for v in values]
        alike = takewhile(lambda words: len(set(words)) == 1, zip(*paths, strict=False))
        return "_".join([word for word, *_ in alike][::-1])
