"""Forward derivatives of loops and branches, of any order: Taylor coefficients, of which the first is the jvp.

A loop carries the coefficients of its carries, and a branch returns them with its results, so that nothing is saved or run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Any

from symgrad.compiler.autodiff.jets import Coefficient, Jet
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import COND, SCAN, TRANSFORMS, WHILE
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.subgraph import labels, subgraph, zeros
from symgrad.compiler.loops.vjp import varying_inputs

Series = Sequence[Coefficient]
"""The coefficients 1 to n of one value."""
Results = tuple[list[Value], list[Series]]
"""The results of a loop or a branch, and their coefficients."""


def through_control(v: Value, args: tuple[Any, ...], series: Sequence[Series], order: int) -> Results:
    """Return the results of a loop or a branch with their coefficients, given its arguments and theirs."""
    return _CONTROL[v.op](args, series, order, **v.attrs)


def _varies(series: Series) -> bool:
    return any(c is not None for c in series)


def _given(series: Sequence[Series]) -> set[int]:
    return {i for i, s in enumerate(series) if _varies(s)}


def _filled(series: Series, like: Value) -> list[Value]:
    return [zeros(xp, like) if c is None else c for c in series]


class _Body:
    """A body with the coefficients of its varying inputs; `wide` appends the coefficients of each part to it."""

    def __init__(self, body: Graph, varying: Sequence[int], order: int) -> None:
        free = count(len(body.inputs))
        self.inputs = {i: [input_value(next(free), body.inputs[i].shape, body.inputs[i].dtype) for _ in range(order)] for i in varying}
        jet = Jet({body.inputs[i]: series for i, series in self.inputs.items()}, order, free)
        self.series = jet.series(body.outputs)
        self.values = [jet.at(v, 0) for v in body.outputs]

    def wide(self, parts: Sequence[Sequence[int]], of: Callable[[int], Any], series: Callable[[int], Sequence[Any]]) -> list[Any]:
        """Return, for each part, its items and then the coefficients of its varying items."""
        return [x for part in parts for x in (*map(of, part), *(c for i in part if i in self.inputs for c in series(i)))]

    def filled(self, outputs: Sequence[int]) -> list[Value]:
        """Return all coefficients of some outputs."""
        return [c for i in outputs for c in _filled(self.series[i], self.values[i])]


def _split(found: Sequence[Value], outputs: Sequence[int], order: int) -> dict[int, list[Value]]:
    """Return the coefficients of each of `outputs`, of which `found` has those of one after the other."""
    rest = iter(found)
    return {i: list(islice(rest, order)) for i in outputs}


def _scan(
    args: Sequence[Value], series: Sequence[Series], order: int, *, body: Graph, carries: int, slices: int, length: int, reverse: bool
) -> Results:
    moving, total = carries + slices, len(body.inputs)
    made = _Body(body, varying_inputs(body, carries, _given(series)), order)
    parts = range(carries), range(carries, moving), range(moving, total)
    inputs = made.wide(parts, body.inputs.__getitem__, made.inputs.__getitem__)
    carried = [i for i in made.inputs if i < carries]
    stacked = [i for i in range(carries, len(made.values)) if _varies(made.series[i])]
    n, m = carries + order * len(carried), slices + order * sum(carries <= i < moving for i in made.inputs)
    outputs = [*made.values[:carries], *made.filled(carried), *made.values[carries:], *made.filled(stacked)]
    operands = made.wide(parts, args.__getitem__, lambda i: _filled(series[i], args[i]))
    wide = subgraph(inputs, outputs, labels(n, m, len(inputs) - n - m))
    found = apply(SCAN, tuple(operands), {"body": wide, "carries": n, "slices": m, "length": length, "reverse": reverse})
    end = n + len(made.values) - carries
    last = _split(found[carries:n], carried, order) | _split(found[end:], stacked, order)
    return [*found[:carries], *found[n:end]], [last.get(i, [None] * order) for i in range(len(made.values))]


def _while(
    args: Sequence[Value], series: Sequence[Series], order: int, *, condition: Graph, body: Graph, carries: int, max_steps: int | None
) -> Results:
    made = _Body(body, varying_inputs(body, carries, _given(series)), order)
    parts = range(carries), range(carries, len(body.inputs))
    inputs = made.wide(parts, body.inputs.__getitem__, made.inputs.__getitem__)
    carried = [i for i in made.inputs if i < carries]
    n = carries + order * len(carried)
    names = labels(n, 0, len(inputs) - n)
    programs = {
        "body": subgraph(inputs, (*made.values, *made.filled(carried)), names),
        "condition": subgraph(inputs, condition.outputs, names),
    }
    operands = made.wide(parts, args.__getitem__, lambda i: _filled(series[i], args[i]))
    found = apply(WHILE, tuple(operands), {**programs, "carries": n, "max_steps": max_steps})
    last = _split(found[carries:], carried, order)
    return list(found[:carries]), [last.get(i, [None] * order) for i in range(carries)]


def _cond(args: Sequence[Value], series: Sequence[Series], order: int, *, true: Graph, false: Graph) -> Results:
    varying = sorted(i - 1 for i in _given(series))
    branches = [_Body(branch, varying, order) for branch in (true, false)]
    moved = [i for i in range(len(true.outputs)) if any(_varies(b.series[i]) for b in branches)]
    inputs = [*true.inputs, *(c for i in varying for c in branches[0].inputs[i])]
    names = labels(0, 0, len(inputs))
    programs = {name: subgraph(inputs, [*b.values, *b.filled(moved)], names) for name, b in zip(("true", "false"), branches, strict=True)}
    found = apply(COND, (*args, *(c for i in varying for c in _filled(series[i + 1], args[i + 1]))), programs)
    last = _split(found[len(true.outputs) :], moved, order)
    return list(found[: len(true.outputs)]), [last.get(i, [None] * order) for i in range(len(true.outputs))]


_CONTROL: dict[str, Callable[..., Results]] = {"scan": _scan, "while_loop": _while, "cond": _cond}


TRANSFORMS["jets"] = through_control
