"""scan(f, c, x) -> f(f(c, x₀), x₁): unrolls short loops, and turns branches into where(). For formulas only.

The formula of a short loop is that of its steps; a longer loop stays a function of tensors under its own name. A while_loop with a small
bound on its steps becomes that many branches.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, Value, row_of
from symgrad.compiler.ir.subgraph import inline
from symgrad.compiler.loops.vjp import bounded_step
from symgrad.compiler.rewrite.rewrite import rewrite

_MAX_OPERATIONS = 200
"""Largest number of operations that a loop may unroll to."""


def unroll(graph: Graph) -> Graph:
    """Return the graph without branches and short loops."""
    return rewrite(graph, _change) if any(map(is_control, graph.values)) else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if not is_control(v):
        return None
    attrs: dict[str, Any] = {k: unroll(x) if isinstance(x, Graph) else x for k, x in v.attrs.items()}
    if v.op == "cond":
        return _chosen(args[0], *(inline(attrs[name], args[1:]) for name in ("true", "false")))
    if v.op == "while_loop" and attrs["max_steps"] is not None:
        step = unroll(bounded_step(attrs["condition"], attrs["body"], attrs["carries"]))
        attrs |= {"body": step, "slices": 0, "length": attrs["max_steps"], "reverse": False}
    if attrs.get("length") is None or attrs["length"] * len(attrs["body"].values) > _MAX_OPERATIONS:
        return apply(row_of(v), args, dict(v.attrs))
    return _steps(args, attrs["body"], attrs["carries"], attrs["slices"], attrs["length"], attrs["reverse"])


def _chosen(truth: Value, yes: list[Value], no: list[Value]) -> tuple[Value, ...]:
    return tuple(a if a is b else xp.where(truth, a, b) for a, b in zip(yes, no, strict=True))


def _steps(args: tuple[Any, ...], body: Graph, carries: int, slices: int, length: int, reverse: bool) -> tuple[Value, ...]:
    now, given, shared = list(args[:carries]), args[carries : carries + slices], args[carries + slices :]
    rows: list[list[Value]] = []
    for t in reversed(range(length)) if reverse else range(length):
        found = inline(body, [*now, *(xp.getitem(x, index=(t,)) for x in given), *shared])
        now = found[:carries]
        rows.append(found[carries:])
    if reverse:
        rows.reverse()
    empty = [xp.expand(xp.cast(0, dtype=y.dtype), shape=(0, *y.shape)) for y in body.outputs[carries:]]
    return *now, *(xp.stack(*column, axis=0) for column in zip(*rows, strict=True)), *(empty if not length else ())
