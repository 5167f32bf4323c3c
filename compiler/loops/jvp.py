"""Forward-mode derivatives, value by value: the JVP of graphs with loops and branches.

A loop carries its tangents, and a branch returns them with its results, so that nothing is saved or run twice. Every other row uses the
transpose of its pullback, which is derived once for each kind of application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from symgrad.compiler.autodiff.pull import is_differentiable as leads_on, jvp
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import COND, SCAN, TRANSFORMS, WHILE, has_cotangents, is_control
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, input_value, intern, output
from symgrad.compiler.ir.subgraph import inline, labels, subgraph, zeros
from symgrad.compiler.loops.vjp import varying_inputs

JvpResult = tuple[list[Value], list[Any]]
"""The results of an application, and their tangents: None where a result has none."""


class JvpGraph:
    """A graph with tangents: of the inputs `wrt` (positions), and thus of the outputs."""

    def __init__(self, graph: Graph, wrt: Sequence[int]) -> None:
        start = len(graph.inputs)
        self.tangents = [input_value(start + i, graph.inputs[w].shape, graph.inputs[w].dtype) for i, w in enumerate(wrt)]
        self._value: dict[Value, Any] = {}
        self._tangent: dict[Value, Any] = {graph.inputs[w]: t for w, t in zip(wrt, self.tangents, strict=True)}
        for v in graph.values:
            self._push(v)
        self.values = [self._value.get(v, v) for v in graph.outputs]
        self.results = [self._tangent.get(v) for v in graph.outputs]

    def _push(self, v: Value) -> None:
        if v.op in (INPUT, LITERAL):
            self._value[v] = v
            return
        if v.op == OUTPUT:
            (whole,), index = v.args, v.attrs["index"]
            self._value[v] = self._value[whole][index]
            self._tangent[v] = self._tangent[whole][index]
            return
        args = tuple(None if a is None else self._value[a] for a in v.args)
        tangents = [self._tangent.get(a) if a is not None and leads_on(v, i) else None for i, a in enumerate(v.args)]
        values, found = _jvp_of(v, args, tangents)
        single = not isinstance(v.dtype, tuple)
        self._value[v], self._tangent[v] = (values[0], found[0]) if single else (values, found)


def pushforward(graph: Graph, wrt: Sequence[int]) -> tuple[list[Value], list[Value]]:
    """Return inputs for the tangents of `wrt`, numbered after those of the graph, and the tangents of the outputs."""
    forward = JvpGraph(graph, wrt)
    return forward.tangents, _filled(forward.results, graph.outputs)


def _filled(tangents: Sequence[Any], like: Sequence[Any]) -> list[Value]:
    return [zeros(xp, v) if t is None else t for t, v in zip(tangents, like, strict=True)]


def _jvp_of(v: Value, args: tuple[Any, ...], tangents: list[Any]) -> JvpResult:
    if is_control(v) and any(t is not None for t in tangents):
        return _LOOPS[v.op](args, tangents, **v.attrs)
    same = intern(v.op, v.row, args, v.attrs, v.shape, v.dtype)
    values = _outputs(same)
    if all(t is None for t in tangents):
        return values, [None] * len(values)
    slots = list(dict.fromkeys(a for a in args if a is not None and a.op != LITERAL))
    wrt = tuple(i for i, a in enumerate(slots) if any(b is a and t is not None for b, t in zip(args, tangents, strict=True)))
    small = _rule(subgraph(slots, (same,), labels(0, 0, len(slots))).outputs[0], len(slots), wrt)
    given = {a: t for a, t in zip(args, tangents, strict=True) if t is not None}
    found = inline(small, [*slots, *(given[slots[i]] for i in wrt)])
    return values, [t if has_cotangents(value) else None for t, value in zip(found, values, strict=True)]


def _outputs(v: Value) -> list[Value]:
    return [output(v, i) for i in range(len(v.dtype))] if isinstance(v.dtype, tuple) else [v]


@lru_cache(maxsize=4096)
def _rule(v: Value, slots: int, wrt: tuple[int, ...]) -> Graph:
    """Return the JVP of one application to inputs, as a graph of the inputs and the tangents of `wrt`."""
    known = {a.attrs["index"]: a for a in v.args if a is not None and a.op == INPUT}
    return jvp(Graph([known[i] for i in range(slots)], _outputs(v)), wrt)


def _given(tangents: Sequence[Any]) -> set[int]:
    return {i for i, t in enumerate(tangents) if t is not None}


class _Body:
    """A body with the tangents of its varying inputs; `wide` appends the tangents of each part to it."""

    def __init__(self, body: Graph, found: Sequence[int]) -> None:
        self.body, self.found = body, found
        self.forward = JvpGraph(body, found)
        self.tangent = dict(zip(found, self.forward.tangents, strict=True))

    def wide(self, parts: Sequence[Sequence[int]], of: Callable[[int], Any], tangent: Callable[[int], Any]) -> list[Any]:
        """Return, for each part, its items and then the tangents of its varying items."""
        return [x for part in parts for x in (*map(of, part), *(tangent(i) for i in part if i in self.tangent))]


def _scan(
    args: Sequence[Value], tangents: Sequence[Any], *, body: Graph, carries: int, slices: int, length: int, reverse: bool
) -> JvpResult:
    moving, total = carries + slices, len(body.inputs)
    made = _Body(body, varying_inputs(body, carries, _given(tangents)))
    parts = range(carries), range(carries, moving), range(moving, total)
    inputs = made.wide(parts, body.inputs.__getitem__, made.tangent.__getitem__)
    values, results = made.forward.values, made.forward.results
    lively = [i for i in range(carries, len(values)) if results[i] is not None]
    moved = _filled([results[i] for i in range(carries) if i in made.tangent], [values[i] for i in range(carries) if i in made.tangent])
    n, m = carries + len(moved), slices + sum(carries <= i < moving for i in made.found)
    outputs = [*values[:carries], *moved, *values[carries:], *(results[i] for i in lively)]
    operands = made.wide(parts, args.__getitem__, lambda i: zeros(xp, args[i]) if tangents[i] is None else tangents[i])
    wide = subgraph(inputs, outputs, labels(n, m, len(inputs) - n - m))
    found = apply(SCAN, tuple(operands), {"body": wide, "carries": n, "slices": m, "length": length, "reverse": reverse})
    firsts = [i for i in made.found if i < carries]
    last = dict(zip(firsts, found[carries:n], strict=True)) | dict(zip(lively, found[n + len(values) - carries :], strict=True))
    return [*found[:carries], *found[n : n + len(values) - carries]], [last.get(i) for i in range(len(values))]


def _while(
    args: Sequence[Value], tangents: Sequence[Any], *, condition: Graph, body: Graph, carries: int, max_steps: int | None
) -> JvpResult:
    made = _Body(body, varying_inputs(body, carries, _given(tangents)))
    parts = range(carries), range(carries, len(body.inputs))
    inputs = made.wide(parts, body.inputs.__getitem__, made.tangent.__getitem__)
    firsts = [i for i in made.found if i < carries]
    moved = _filled([made.forward.results[i] for i in firsts], [body.outputs[i] for i in firsts])
    names = labels(carries + len(firsts), 0, len(inputs) - carries - len(firsts))
    programs = {"body": subgraph(inputs, (*made.forward.values, *moved), names), "condition": subgraph(inputs, condition.outputs, names)}
    operands = made.wide(parts, args.__getitem__, lambda i: zeros(xp, args[i]) if tangents[i] is None else tangents[i])
    found = apply(WHILE, tuple(operands), {**programs, "carries": carries + len(firsts), "max_steps": max_steps})
    last = dict(zip(firsts, found[carries:], strict=True))
    return list(found[:carries]), [last.get(i) for i in range(carries)]


def _cond(args: Sequence[Value], tangents: Sequence[Any], *, true: Graph, false: Graph) -> JvpResult:
    found = sorted(i - 1 for i in _given(tangents))
    branches = [JvpGraph(branch, found) for branch in (true, false)]
    lively = [i for i, pair in enumerate(zip(*(b.results for b in branches), strict=True)) if any(t is not None for t in pair)]
    inputs = [*true.inputs, *branches[0].tangents]
    programs = {}
    for name, branch in zip(("true", "false"), branches, strict=True):
        outputs = [*branch.values, *_filled([branch.results[i] for i in lively], [branch.values[i] for i in lively])]
        programs[name] = subgraph(inputs, outputs, labels(0, 0, len(inputs)))
    results = apply(COND, (*args, *(tangents[i + 1] for i in found)), programs)
    count = len(true.outputs)
    last = dict(zip(lively, results[count:], strict=True))
    return list(results[:count]), [last.get(i) for i in range(count)]


_LOOPS: dict[str, Callable[..., JvpResult]] = {"scan": _scan, "while_loop": _while, "cond": _cond}


TRANSFORMS["jvp"] = pushforward
