"""The cost model of loops: XLA's time to compile the layers one after the other, against its time for loops and their stacks.

XLA compiles equal kernels once, so another equal layer costs little, and a plain net of hundreds of layers compiles in the time that loops
take. If elementwise code connects the layers, XLA fuses the code of all previous layers into every kernel, and its time grows with the
square of the number of layers: 40 layers of `sin(x) @ x / 10 + tanh(x)` take 9 s one after the other, 1 s as a loop. The constants are
seconds, measured on one core with `benchmarks/compiling.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.loops.reroll.segments import Carry, Column, Loop, SameRepeat

_VALUE = 0.0003
"""One more value in an equal layer, for JAX and XLA together."""
_PAIR = 6e-8
"""Each pair of values, wherever they are: 20,000 values take more than ten times as long as 2,000."""
_ELEMENTWISE = 0.25
"""Weight of an elementwise value, since XLA fuses several into one kernel."""
_SQUARE = 0.007
"""Each pair of layers that elementwise code connects."""
_LOOPS = 0.5
_ROLE = 0.025
"""One value of a loop's body."""
_PLACE = 0.0005
"""One row of a stack that is built or unbound."""
_PLACES = 1e-7
"""Each pair of such rows, wherever they are."""


def is_profitable(graph: Graph, loops: Sequence[Loop]) -> bool:
    """True if XLA compiles faster with the loops."""
    return _saved(graph, loops) > _LOOPS + _ROLE * sum(len(loop.roles) for loop in loops) + _stacking(graph, loops)


def _saved(graph: Graph, loops: Sequence[Loop]) -> float:
    values = sum(map(_weight, graph.values))
    left = values - sum(_weight(v) for loop in loops for v in loop.place)
    connected = sum(loop.length**2 for loop in loops if _leads_through(loop))
    return _VALUE * (values - left) + _PAIR * (values**2 - left**2) + _SQUARE * connected


def _weight(v: Value) -> float:
    return _ELEMENTWISE if v.row is not None and v.row.elementwise else 1


def _stacking(graph: Graph, loops: Sequence[Loop]) -> float:
    places = sum(v in loop.place for v in graph.outputs for loop in loops) + sum(map(_columns, loops))
    return _PLACE * places + _PLACES * places**2


def _columns(loop: Loop) -> int:
    return loop.length * len({x for operands in loop.operands.values() for x in operands if isinstance(x, Column)})


def _leads_through(loop: Loop) -> bool:
    """True if elementwise functions, other than sums, connect one repeat to the next, and the loop has other kernels besides. Without
    these, the whole loop is one fused kernel, which would run at half the speed as a loop."""
    if all(v.row is not None and (v.row.elementwise or v.row.view) for v in loop.roles.values()):
        return False
    found: dict[int, int] = {}
    """For each role that a carry reaches through elementwise code, the number of functions on the way."""
    for role, v in loop.roles.items():
        if v.row is None or not v.row.elementwise:
            continue
        reached = [0 if isinstance(x, Carry) else found.get(x.role, -1) if isinstance(x, SameRepeat) else -1 for x in loop.operands[role]]
        if max(reached, default=-1) >= 0:
            found[role] = max(reached) + (v.op not in _SUMS)
    carried = {x.role for operands in loop.operands.values() for x in operands if isinstance(x, Carry)}
    return any(found.get(role, 0) > 0 for role in carried)


_SUMS = frozenset({"add", "sub", "neg", "cast"})
