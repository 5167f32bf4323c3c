"""Batching of loops and branches: the body gets the new dimension wherever values depend on it.

    cond with a batched condition          ->  where(truth, one branch, the other)
    while_loop with a batched condition    ->  runs while any slice continues; finished slices keep their carries
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from symgrad.compiler.autodiff.batch import Arg, batched
from symgrad.compiler.autodiff.pull import dependents
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import TRANSFORMS
from symgrad.compiler.ir.graph import Graph, Value, input_value, row_of
from symgrad.compiler.ir.subgraph import inline

_COUNT = np.dtype(np.int64)


def batch_loop(v: Value, args: Sequence[Arg], size: int) -> tuple[Value, ...]:
    """Return the outputs of a loop or branch, each with the batch dimension in front."""
    return {"scan": _scan, "while_loop": _while, "cond": _cond}[v.op](v, list(args), size)


def _batched_inputs(body: Graph, carries: int, given: Iterable[int]) -> tuple[list[int], set[Value]]:
    """Return the inputs of a body that get the batch dimension, and all values that depend on them."""
    found = set(given)
    while True:
        reached = dependents(body.values, [body.inputs[i] for i in found])
        more = {i for i in range(carries) if body.outputs[i] in reached} - found
        if not more:
            return sorted(found), reached
        found |= more


def _batched_body(body: Graph, found: Sequence[int], outputs: Sequence[Value], size: int) -> tuple[list[Value], list[Value]]:
    """Return the inputs and `outputs` of a body in which the inputs `found`, and all these outputs, have the batch dimension."""
    inputs = [input_value(i, (size, *x.shape) if i in found else x.shape, x.dtype) for i, x in enumerate(body.inputs)]
    return inputs, batched(outputs, {body.inputs[i]: inputs[i] for i in found}, size)


def _with_batch_axis(arg: Arg, size: int) -> Value:
    value, has = arg
    return value if has else xp.expand(value, shape=(size, *value.shape))


def _swapped(x: Value) -> Value:
    """Swap the batch dimension and that of the steps."""
    return xp.transpose(x, dim0=0, dim1=1)


def _scan(v: Value, args: list[Arg], size: int) -> tuple[Value, ...]:
    body, n = v.attrs["body"], v.attrs["carries"]
    moving = n + v.attrs["slices"]
    found, reached = _batched_inputs(body, n, (i for i, (_, has) in enumerate(args) if has))
    lively = [i for i, y in enumerate(body.outputs) if (i in found if i < n else y in reached)]
    inputs, grown = _batched_body(body, found, [body.outputs[i] for i in lively], size)
    outputs = list(body.outputs)
    for i, y in zip(lively, grown, strict=True):
        outputs[i] = y
    operands = [
        _with_batch_axis(a, size) if i in found and i < n else _swapped(a[0]) if i in found and i < moving else a[0] for i,
        a in enumerate(args)
    ]
    results = apply(row_of(v), tuple(operands), {**v.attrs, "body": Graph(inputs, outputs, body.labels)})
    return tuple(
        _with_batch_axis((r, False), size) if i not in lively else r if i < n else _swapped(r) for i, r in enumerate(results)
    )


def _while(v: Value, args: list[Arg], size: int) -> tuple[Value, ...]:
    body, condition, n = v.attrs["body"], v.attrs["condition"], v.attrs["carries"]
    found, _ = _batched_inputs(body, n, (i for i, (_, has) in enumerate(args) if has))
    if condition.outputs[0] in dependents(condition.values, [body.inputs[i] for i in found]):
        return _while_any(v, args, size)
    inputs, grown = _batched_body(body, found, [body.outputs[i] for i in found if i < n], size)
    outputs = list(body.outputs)
    for i, y in zip((i for i in found if i < n), grown, strict=True):
        outputs[i] = y
    operands = tuple(_with_batch_axis(a, size) if i in found else a[0] for i, a in enumerate(args))
    programs = {"body": Graph(inputs, outputs, body.labels), "condition": Graph(inputs, condition.outputs, body.labels)}
    results = apply(row_of(v), operands, {**v.attrs, **programs})
    return tuple(_with_batch_axis((r, i in found), size) for i, r in enumerate(results))


def _while_any(v: Value, args: list[Arg], size: int) -> tuple[Value, ...]:
    body, condition, n = v.attrs["body"], v.attrs["condition"], v.attrs["carries"]
    found = sorted({*range(n), *(i for i, (_, has) in enumerate(args) if has)})
    inputs, (truth, *new) = _batched_body(body, found, (*condition.outputs, *body.outputs), size)
    outputs = [xp.where(xp.reshape(truth, shape=(size, *(1,) * (y.ndim - 1))), y, x) for y, x in zip(new, inputs, strict=False)]
    going = xp.ne(xp.sum(xp.cast(truth, dtype=_COUNT), axis=(0,), keepdims=False), 0)
    operands = tuple(_with_batch_axis(a, size) if i < n else a[0] for i, a in enumerate(args))
    programs = {"body": Graph(inputs, outputs, body.labels), "condition": Graph(inputs, (going,), body.labels)}
    return apply(row_of(v), operands, {**v.attrs, **programs})  # type: ignore[no-any-return]


def _cond(v: Value, args: list[Arg], size: int) -> tuple[Value, ...]:
    true, false = v.attrs["true"], v.attrs["false"]
    (truth, differs), *others = args
    found = [i for i, (_, has) in enumerate(others) if has]
    inputs, grown = _batched_body(true, found, (*true.outputs, *false.outputs), size)
    yes, no = grown[: len(true.outputs)], grown[len(true.outputs) :]
    operands = [a for a, _ in others]
    if not differs:
        programs = {"true": Graph(inputs, yes, true.labels), "false": Graph(inputs, no, true.labels)}
        return apply(row_of(v), (truth, *operands), programs)  # type: ignore[no-any-return]
    both = inline(Graph(inputs, grown, true.labels), operands)
    half = len(yes)
    return tuple(
        xp.where(xp.reshape(truth, shape=(size, *(1,) * (a.ndim - 1))), a, b) for a, b in zip(both[:half], both[half:], strict=True)
    )


TRANSFORMS["batch"] = batch_loop
