"""Merge equal loops, and remove what no result depends on. For kernels.

    two loops on the same operands, one of which has all carries of the other  ->  one loop, with the results of both
    a carry, result, slice or operand that no result depends on                ->  removed

Merging makes value and gradient cheap: the loop that stacks the residuals of a pullback also computes the value. A while_loop with a known
bound is merged into the scan over all its steps, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.control_flow import COND, SCAN, WHILE, is_control
from symgrad.compiler.ir.graph import INPUT, OUTPUT, Graph, Value, intern, output, row_of, toposort
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import labels, reintern, subgraph, substitute
from symgrad.compiler.loops.vjp import bounded_step


def merge_loops(graph: Graph) -> Graph:
    """Return the graph, and recursively its nested graphs, with equal loops merged and unused parts removed."""
    if not any(map(is_control, graph.values)):
        return graph
    graph = _prune(_merged(graph))
    return _merge_inside(graph)


def _merge_inside(graph: Graph) -> Graph:
    """Apply `merge_loops` to the bodies of loops and to branches."""

    def merged(v: Value, args: tuple[Any, ...]) -> Value:
        if not is_control(v):
            return reintern(v, args)
        attrs = {k: merge_loops(x) if isinstance(x, Graph) else x for k, x in v.attrs.items()}
        return intern(v.op, v.row, args, attrs, v.shape, v.dtype)

    return Graph(graph.inputs, interpret(graph.outputs, {}, merged, project=output, order=graph.values), graph.labels)


# merging equal loops


@dataclass(frozen=True)
class _Loop:
    """A scan, or a while_loop, which has a condition and no length."""

    value: Value
    body: Graph
    carries: int
    slices: int
    length: int | None
    reverse: bool
    condition: Value | None = None

    @property
    def kind(self) -> Any:
        return self.length, self.reverse

    def part(self, i: int) -> int:
        """Return 0 if input i is a carry, 1 if it is a slice, 2 if it is shared."""
        return (i >= self.carries) + (i >= self.carries + self.slices)


def _loop(v: Value) -> _Loop:
    attrs = v.attrs
    if v.op == SCAN.name:
        return _Loop(v, attrs["body"], attrs["carries"], attrs["slices"], attrs["length"], attrs["reverse"])
    return _Loop(v, attrs["body"], attrs["carries"], 0, None, False, attrs["condition"].outputs[0])


def _merged(graph: Graph) -> Graph:
    while True:
        found = [_loop(v) for v in graph.values if is_control(v) and v.op != COND.name]
        pairs = ((small, large) for small in found for large in found if small.value is not large.value)
        merged = next((m for m in (_merge_pair(small, large) for small, large in pairs) if m is not None), None)
        if merged is None:
            return graph
        graph = Graph(graph.inputs, substitute(graph.outputs, merged), graph.labels)


def _merge_pair(small: _Loop, large: _Loop) -> dict[Value, Value] | None:
    """Return replacements for the outputs of both loops if the large loop computes all carries of the small one, else None."""
    if small.kind != large.kind:
        if small.condition is None or large.length is None or small.value.attrs["max_steps"] != large.length:
            return None
        step = bounded_step(small.value.attrs["condition"], small.body, small.carries)
        small = replace(small, body=step, length=large.length, condition=None)
    ways = _input_map(small, large)
    if ways is None or small.value in set(toposort([large.value])):
        return None
    outputs = _as_in(small, large, ways, small.body.outputs)
    if any(y is not large.body.outputs[ways[i]] for i, y in enumerate(outputs[: small.carries])):
        return None
    if small.condition is not None and _as_in(small, large, ways, [small.condition])[0] is not large.condition:
        return None
    body = _with_results(large, outputs[small.carries :])
    whole = intern(large.value.op, large.value.row, large.value.args, {**large.value.attrs, "body": body}, *_types(large, body))
    places = {y: large.carries + j for j, y in enumerate(body.outputs[large.carries :])}
    found = [*(ways[i] for i in range(small.carries)), *(places[y] for y in outputs[small.carries :])]
    new = {output(small.value, i): output(whole, j) for i, j in enumerate(found)}
    return new | {output(large.value, i): output(whole, i) for i in range(len(large.body.outputs))}


def _input_map(small: _Loop, large: _Loop) -> dict[int, int] | None:
    """Map each input of the small body to one of the large body with the same operand, or return None; no two carries share one."""
    ways: dict[int, int] = {}
    for i, a in enumerate(small.value.args):
        taken = set(ways.values()) if i < small.carries else ()
        same = (j for j, b in enumerate(large.value.args) if b is a and large.part(j) == small.part(i) and j not in taken)
        j = next(same, None)
        if j is None:
            return None
        ways[i] = j
    return ways


def _as_in(small: _Loop, large: _Loop, ways: dict[int, int], values: Sequence[Value]) -> list[Value]:
    """Return values of the small body as values of the large one."""
    return substitute(values, {x: large.body.inputs[ways[i]] for i, x in enumerate(small.body.inputs)})


def _with_results(large: _Loop, results: Iterable[Value]) -> Graph:
    given = large.body.outputs
    more = dict.fromkeys(y for y in results if not any(y is known for known in given[large.carries :]))
    return Graph(large.body.inputs, (*given, *more), large.body.labels)


def _types(large: _Loop, body: Graph) -> tuple[Any, Any]:
    new = body.outputs[len(large.body.outputs) :]
    shapes = tuple((large.length, *y.shape) for y in new)
    return (*large.value.shape, *shapes), (*large.value.dtype, *(y.dtype for y in new))


# removing unused parts


def _prune(graph: Graph) -> Graph:
    while True:
        smaller = _dedupe(graph)
        if smaller == graph:
            return graph
        graph = smaller


def _dedupe(graph: Graph) -> Graph:
    used: dict[Value, set[int]] = {}
    for v in graph.values:
        if v.op == OUTPUT:
            used.setdefault(v.args[0], set()).add(v.attrs["index"])

    def needed(v: Value, args: tuple[Any, ...]) -> Any:
        if not is_control(v):
            return reintern(v, args)
        return (_branch if v.op == COND.name else _needed)(v, args, sorted(used.get(v, ())))

    return Graph(graph.inputs, interpret(graph.outputs, {}, needed, project=_output, order=graph.values), graph.labels)


def _output(whole: Value | dict[int, Value], index: int) -> Value:
    return whole[index] if isinstance(whole, dict) else output(whole, index)


def _needed(v: Value, args: tuple[Any, ...], used: list[int]) -> dict[int, Value]:
    """Return the used outputs by index, of a loop that is reduced to them."""
    loop = _loop(v)
    body, n = loop.body, loop.carries
    outputs, inputs = _reduced(loop, used)
    firsts, slices = sum(i < n for i in outputs), sum(n <= i < n + loop.slices for i in inputs)
    names = labels(firsts, slices, len(inputs) - firsts - slices)
    given = [body.inputs[i] for i in inputs]
    attrs = {**v.attrs, "body": subgraph(given, [body.outputs[i] for i in outputs], names), "carries": firsts}
    attrs |= {"slices": slices} if loop.condition is None else {"condition": subgraph(given, [loop.condition], names)}
    results = apply(SCAN if loop.condition is None else WHILE, tuple(args[i] for i in inputs), attrs)
    return dict(zip(outputs, results, strict=True))


def _reduced(loop: _Loop, used: list[int]) -> tuple[list[int], list[int]]:
    """Return the outputs and inputs of a body that the used outputs need, in this step or in a later one; by position."""
    body, n = loop.body, loop.carries
    ends = [] if loop.condition is None else [loop.condition]
    kept = set(used)
    while True:
        read = _read([*(body.outputs[i] for i in kept), *ends])
        more = {i for i in read if i < n} - kept
        if not more:
            return sorted(kept), sorted(read | {i for i in kept if i < n})
        kept |= more


def _branch(v: Value, args: tuple[Any, ...], used: list[int]) -> dict[int, Value]:
    branches = {name: v.attrs[name] for name in ("true", "false")}
    read = sorted(_read([branch.outputs[i] for branch in branches.values() for i in used]))
    names = labels(0, 0, len(read))
    attrs = {k: subgraph([b.inputs[i] for i in read], [b.outputs[i] for i in used], names) for k, b in branches.items()}
    return dict(zip(used, apply(row_of(v), (args[0], *(args[i + 1] for i in read)), attrs), strict=True))


def _read(values: Sequence[Value]) -> set[int]:
    """Return the positions of the inputs that values depend on."""
    return {v.attrs["index"] for v in toposort(values) if v.op == INPUT}
