"""Does a loop pay? XLA's time to compile the same values one after the other, against its time for loops and their stacks.

XLA makes equal kernels once, so that another equal layer costs it little, and a plain net of hundreds of layers compiles in the time that
loops take. Where elementwise code leads from layer to layer it writes the code of all layers before into every kernel, and its time grows
with the square of the layers: 40 layers of `sin(x) @ x / 10 + tanh(x)` take 9 s one after the other, 1 s as a loop. The constants are
seconds, as they were measured on one core with `benchmarks/compiling.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.graph.ir import Graph
from symgrad.compiler.passes.segments import Carry, Column, Loop, Within

_VALUE = 0.0003
"""Of one more value of a layer that is there already, for JAX and XLA together."""
_PAIR = 6e-8
"""Of two values, wherever they are: the time for 20,000 values is more than ten times that for 2,000."""
_SQUARE = 0.007
"""Of two layers that elementwise code connects."""
_LOOPS = 0.5
_ROLE = 0.025
"""Of one value of a loop's body."""
_PLACE = 0.0025
"""Of one place of a stack that is made or taken apart."""


def pays(graph: Graph, loops: Sequence[Loop]) -> bool:
    """Whether XLA is faster with the loops."""
    rows = sum(v in loop.place for v in graph.outputs for loop in loops)
    return _saved(len(graph.values), loops) > _LOOPS + _PLACE * rows + sum(map(_cost, loops))


def _saved(values: int, loops: Sequence[Loop]) -> float:
    left = values - sum(len(loop.place) for loop in loops)
    connected = sum(loop.length**2 for loop in loops if _leads_through(loop))
    return _VALUE * (values - left) + _PAIR * (values**2 - left**2) + _SQUARE * connected


def _cost(loop: Loop) -> float:
    columns = {x for operands in loop.operands.values() for x in operands if isinstance(x, Column)}
    return _ROLE * len(loop.roles) + _PLACE * loop.length * len(columns)


def _leads_through(loop: Loop) -> bool:
    """Whether functions of single elements, and more than sums, lead from one repeat to the next, past others that are kernels of their
    own: without such, all of it is one kernel, and as a loop it would run at half the speed."""
    if all(v.row is not None and (v.row.elementwise or v.row.view) for v in loop.roles.values()):
        return False
    found: dict[int, int] = {}
    """Of each role that a carry reaches that way, how many functions there are."""
    for role, v in loop.roles.items():
        if v.row is None or not v.row.elementwise:
            continue
        reached = [0 if isinstance(x, Carry) else found.get(x.role, -1) if isinstance(x, Within) else -1 for x in loop.operands[role]]
        if max(reached, default=-1) >= 0:
            found[role] = max(reached) + (v.op not in _SUMS)
    carried = {x.role for operands in loop.operands.values() for x in operands if isinstance(x, Carry)}
    return any(found.get(role, 0) > 0 for role in carried)


_SUMS = frozenset({"add", "sub", "neg", "cast"})
