"""The pullbacks of loops and branches.

    scan         a scan in the opposite direction, of the body's pullback; a forward scan stacks its residuals
    while_loop   with a known bound, the pullback of a scan over all possible steps, each a branch: continue or stay
    cond         a branch of the pullbacks of both branches

Cotangents of shared inputs are accumulated as carries. Integers have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from symgrad.compiler.autodiff.pull import dependents, is_differentiable as leads_on, pull
from symgrad.compiler.ir import builder
from symgrad.compiler.ir.control_flow import COND, PULLBACK_RULES, SCAN, has_cotangents
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, input_value
from symgrad.compiler.ir.subgraph import apply, labels, subgraph, zeros
from symgrad.errors import GraphError

_CHEAP_ROWS = frozenset(("cast", "detach", "expand"))
"""Rows besides views that are recomputed rather than saved, if their argument is not larger."""


def varying_inputs(body: Graph, carries: int, given: set[int]) -> list[int]:
    """Return the inputs of a body that depend on the inputs `given`, in this step or in a later one."""
    found = set(given)
    while True:
        reached = dependents(body.values, [body.inputs[i] for i in found], leads_on)
        more = {i for i in range(carries) if body.outputs[i] in reached and has_cotangents(body.inputs[i])} - found
        if not more:
            return sorted(found)
        found |= more


def _pulled(graph: Graph, gs: dict[int, Value], wrt: Sequence[int]) -> list[Value]:
    """Return the cotangents of the inputs `wrt` from those of the outputs, `gs`; both by position."""
    cotangents: dict[Value, Value] = {}
    for i, g in gs.items():
        v = graph.outputs[i]
        cotangents[v] = builder.xp.add(cotangents[v], g) if v in cotangents else g
    return pull(cotangents, [graph.inputs[i] for i in wrt])


def _arrived(graph: Graph, g: Sequence[Any]) -> list[int]:
    """Return the positions of outputs that have a cotangent."""
    return [i for i, (v, one) in enumerate(zip(graph.outputs, g, strict=True)) if one is not None and has_cotangents(v)]


class _Residuals:
    """The values of the forward steps that a pullback reads: those to be `stacked`, and inputs that are `shared` by all steps."""

    def __init__(self, body: Graph, moving: int, outputs: Sequence[Value]) -> None:
        self.stacked: list[Value] = []
        self.shared: list[Value] = []
        self._steps = set(body.values) | set(body.inputs)
        self._changing = dependents(body.values, body.inputs[:moving])
        self._shared = set(body.inputs[moving:])
        self._seen: set[Value] = set()
        self._find(outputs)

    def _find(self, outputs: Sequence[Value]) -> None:
        pending = list(reversed(outputs))
        while pending:
            v = pending.pop()
            if v in self._seen or v.op == LITERAL:
                continue
            self._seen.add(v)
            if v in self._shared:
                self.shared.append(v)
            elif v in self._steps and v in self._changing and not _is_cheap(v):
                self.stacked.append(v)
            else:
                pending += [a for a in reversed(v.args) if a is not None]


def _is_cheap(v: Value) -> bool:
    """True if a value is better recomputed than saved: it has several outputs, or is a view of a value that is not larger."""
    if isinstance(v.dtype, tuple):
        return True
    if v.row is None or not (v.row.view or v.op in _CHEAP_ROWS):
        return False
    (x, *_) = v.args
    return not isinstance(x.dtype, tuple) and x.size * x.dtype.itemsize <= v.size * v.dtype.itemsize


def _pull_scan(
    xp: Any, g: Any, out: Any, args: Any, needs: Any, *, body: Graph, carries: int, slices: int, length: int, reverse: bool
) -> list[Any]:
    moving = carries + slices
    found = varying_inputs(body, carries, {i for i, need in enumerate(needs) if need and has_cotangents(body.inputs[i])})
    if not found:
        return [None] * len(needs)
    firsts, taken, rest = _sorted(found, carries, moving)
    number = count(len(body.inputs))
    seeds = {i: _input(body.outputs[i], number) for i in firsts}
    given = {i: _input(body.outputs[i], number) for i in _arrived(body, g) if i >= carries}
    sums = {i: _input(body.inputs[i], number) for i in rest}
    pulled = dict(zip(found, _pulled(body, seeds | given, found), strict=True))
    outputs = [*(pulled[i] for i in firsts), *(builder.xp.add(sums[i], pulled[i]) for i in rest), *(pulled[i] for i in taken)]
    saved = _Residuals(body, moving, outputs)
    stacks = _stacks(xp, out, args, saved.stacked, body=body, carries=carries, slices=slices, length=length, reverse=reverse)
    starts = [zeros(xp, body.inputs[i]) if i in rest or g[i] is None else g[i] for i in (*firsts, *rest)]
    inputs = [*seeds.values(), *sums.values(), *saved.stacked, *given.values(), *saved.shared]
    n, m = len(starts), len(stacks) + len(given)
    back = subgraph(inputs, outputs, labels(n, m, len(saved.shared)))
    operands = [*starts, *stacks, *(g[i] for i in given), *(args[v.attrs["index"]] for v in saved.shared)]
    attrs = {"body": back, "carries": n, "slices": m, "length": length, "reverse": not reverse}
    results = dict(zip((*firsts, *rest, *taken), apply(xp, SCAN, operands, attrs), strict=True))
    return [results.get(i) if need else None for i, need in enumerate(needs)]


def _sorted(found: Sequence[int], carries: int, moving: int) -> tuple[list[int], list[int], list[int]]:
    """Split positions into those of carries, slices and shared inputs."""
    return [i for i in found if i < carries], [i for i in found if carries <= i < moving], [i for i in found if i >= moving]


def _input(like: Value, number: Any) -> Value:
    return input_value(next(number), like.shape, like.dtype)


def _stacks(xp: Any, out: Any, args: Any, wanted: Sequence[Value], *, body: Graph, carries: int, slices: int, **how: Any) -> list[Any]:
    """Return `wanted` values of a body in all steps, stacked: from the slices, from the results, or from a scan that stacks more."""
    known: dict[Value, Any] = {} if out is None else dict(zip(body.outputs[carries:], out[carries:], strict=True))
    known |= dict(zip(body.inputs[carries : carries + slices], args[carries:], strict=False))
    more = [v for v in wanted if v not in known]
    if more:
        longer = Graph(body.inputs, (*body.outputs, *more), body.labels)
        results = apply(xp, SCAN, args, {"body": longer, "carries": carries, "slices": slices, **how})
        known |= dict(zip(more, results[len(body.outputs) :], strict=True))
    return [known[v] for v in wanted]


def bounded_step(condition: Graph, body: Graph, carries: int) -> Graph:
    """Return one step of a loop that may have ended: the body if the condition holds, else the unchanged carries."""
    stay = Graph(body.inputs, body.inputs[:carries], body.labels)
    return Graph(body.inputs, builder.apply(COND, (condition.outputs[0], *body.inputs), {"true": body, "false": stay}), body.labels)


def _pull_while(
    xp: Any, g: Any, out: Any, args: Any, needs: Any, *, condition: Graph, body: Graph, carries: int, max_steps: int | None
) -> list[Any]:
    if max_steps is None:
        raise GraphError(
            "a while_loop has no derivative in reverse unless it is known how many steps to remember: pass max_steps=..., use scan or"
            " fori_loop with a fixed number of steps, or differentiate forwards (jvp)"
        )
    step = bounded_step(condition, body, carries)
    return _pull_scan(xp, g, out, args, needs, body=step, carries=carries, slices=0, length=max_steps, reverse=False)


def _pull_cond(xp: Any, g: Any, out: Any, args: Any, needs: Any, *, true: Graph, false: Graph) -> list[Any]:
    wrt = [i for i, need in enumerate(needs[1:]) if need and has_cotangents(true.inputs[i])]
    arrived = _arrived(true, g)
    if not wrt or not arrived:
        return [None] * len(needs)
    number = count(len(true.inputs))
    gs = {i: _input(true.outputs[i], number) for i in arrived}
    pulled = [_pulled(branch, gs, wrt) for branch in (true, false)]
    read = {v for v in Graph(true.inputs, (*pulled[0], *pulled[1])).values if v.op == INPUT}
    chosen = [i for i, x in enumerate(true.inputs) if x in read]
    inputs = [*(true.inputs[i] for i in chosen), *gs.values()]
    branches = [subgraph(inputs, outputs, labels(0, 0, len(inputs))) for outputs in pulled]
    operands = [args[0], *(args[i + 1] for i in chosen), *(g[i] for i in arrived)]
    results = dict(zip(wrt, apply(xp, COND, operands, dict(zip(("true", "false"), branches, strict=True))), strict=True))
    return [None, *(results.get(i) for i in range(len(true.inputs)))]


PULLBACK_RULES.update(scan=_pull_scan, while_loop=_pull_while, cond=_pull_cond)
