"""Loops and branches over a batch: the graphs inside get the dimension where what they read has it, and run once for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler.builder import apply, xp
from symgrad.compiler.control.rows import COND, SCAN, WHILE
from symgrad.compiler.ir import Graph, Value, input_value, literal
from symgrad.compiler.passes.batch import flow, rule, whole
from symgrad.errors import GraphError

Args = Sequence[tuple[Any, bool]]


def _inside(graph: Graph, has: Sequence[bool], size: int) -> tuple[list[Value], list[tuple[Value, bool]]]:
    """Inputs and outputs of a graph of which some inputs have the dimension."""
    ends = [input_value(i, (size, *x.shape), x.dtype) if one else x for i, (x, one) in enumerate(zip(graph.inputs, has, strict=True))]
    given = {x: end for x, end, one in zip(graph.inputs, ends, has, strict=True) if one}
    return ends, flow(graph.outputs, given, size)


def _settled(body: Graph, has: Sequence[bool], carries: int, size: int) -> list[bool]:
    """Which inputs of a body have the dimension: a carry has it as soon as what becomes of it has."""
    known = list(has)
    while True:
        _, outputs = _inside(body, known, size)
        grown = [one or outputs[i][1] for i, one in enumerate(known[:carries])]
        if grown == known[:carries]:
            return known
        known[:carries] = grown


def _first_two(x: Value) -> Any:
    return xp.transpose(x, dim0=0, dim1=1)


@rule("scan")
def _scan(v: Value, args: Args, size: int) -> Any:
    body, carries, end = v.attrs["body"], v.attrs["carries"], v.attrs["carries"] + v.attrs["slices"]
    has = _settled(body, [one for _, one in args], carries, size)
    inputs, outputs = _inside(body, has, size)
    results = [whole(y, one, size) if i >= carries or has[i] else y for i, (y, one) in enumerate(outputs)]
    operands = [whole(a, one, size) if has[i] else a for i, (a, one) in enumerate(args)]
    operands[carries:end] = [_first_two(a) if one else a for a, one in args[carries:end]]
    found = apply(SCAN, tuple(operands), {**v.attrs, "body": Graph(inputs, results, body.labels)})
    return tuple(_first_two(y) if i >= carries else whole(y, has[i], size) for i, y in enumerate(found))


@rule("while_loop")
def _while(v: Value, args: Args, size: int) -> Any:
    condition, body, carries = v.attrs["condition"], v.attrs["body"], v.attrs["carries"]
    has = _settled(body, [one for _, one in args], carries, size)
    asked, ((truth, differs),) = _inside(condition, has, size)
    if differs:
        raise GraphError("a while loop that ends at different times for the parts of a batch cannot be run for all of them at once")
    inputs, outputs = _inside(body, has, size)
    results = [whole(y, one, size) if has[i] else y for i, (y, one) in enumerate(outputs)]
    operands = tuple(whole(a, one, size) if has[i] else a for i, (a, one) in enumerate(args))
    inner = {"condition": Graph(asked, (truth,), condition.labels), "body": Graph(inputs, results, body.labels)}
    return tuple(whole(y, has[i], size) for i, y in enumerate(apply(WHILE, operands, {**v.attrs, **inner})))


@rule("cond")
def _cond(v: Value, args: Args, size: int) -> Any:
    (truth, differs), *operands = args
    has = [one for _, one in operands]
    branches = {name: _inside(v.attrs[name], has, size) for name in ("true", "false")}
    graphs = {name: Graph(ends, [whole(y, one, size) for y, one in ys], v.attrs[name].labels) for name, (ends, ys) in branches.items()}
    given = tuple(a for a, _ in operands)
    if not differs:
        return apply(COND, (truth, *given), graphs)
    yes, no = (apply(COND, (literal(way, bool), *given), graphs) for way in (True, False))  # both, and a choice for each part
    return tuple(xp.where(xp.reshape(truth, shape=(size, *(1,) * (a.ndim - 1))), a, b) for a, b in zip(yes, no, strict=True))
