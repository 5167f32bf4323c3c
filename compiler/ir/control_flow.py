"""The rows of structured control flow. Graphs are attributes, and their inputs have this order:

    scan(*carries, *slices, *shared; body, carries, slices, length, reverse)      returns the last carries, then stacked results
        body(*carries, *one place of each slice, *shared)   ->  new carries, results
    while_loop(*carries, *shared; condition, body, carries, max_steps)            returns the last carries
        condition(*carries, *shared)  ->  boolean           body(*carries, *shared)   ->  new carries
    cond(truth, *operands; true, false)                                           returns the results of the branch
        true(*operands), false(*operands)                   ->  results of the same types
    call(*operands; body)                                                         returns the results of the body
        body(*operands)                                     ->  results

Slices are taken along the first axis, and results are stacked along it. `max_steps` is a known bound on the number of steps, or None; the
condition alone ends the loop. All these rows have several outputs, even if there is only one. A call is created for a kernel only, after
all passes; no pass handles it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Graph, Value, type_text
from symgrad.compiler.ir.runner import runner
from symgrad.engine import call
from symgrad.errors import GraphError
from symgrad.mode import local
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row
from symgrad.typing import Array

PULLBACK_RULES: dict[str, Callable[..., Any]] = {}
"""The pullback of each row by name; registered by `symgrad.compiler.loops.vjp`, which may import this file but not the reverse."""
TRANSFORMS: dict[str, Callable[..., Any]] = {}
"""Transforms of loops and branches, `jets` and `batch`; registered by the modules of `symgrad.compiler.loops`."""


# types


def _meta(x: Any) -> Meta:
    return Meta(tuple(x.shape), np.dtype(x.dtype))


def _expect(what: str, wanted: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise GraphError unless both have the same types."""
    if len(wanted) != len(given):
        raise GraphError(f"{what}: {len(wanted)} are wanted, {len(given)} are given")
    for i, (w, g) in enumerate(zip(wanted, given, strict=True)):
        if _meta(w) != _meta(g):
            raise GraphError(f"{what}: number {i} should be {type_text(w)}, and is {type_text(g)}")


def _program(name: str, graph: Any) -> Graph:
    if not isinstance(graph, Graph):
        raise GraphError(f"{name} is a graph, got {graph!r}")
    return graph


def _count(name: str, n: Any, most: int | None = None) -> int:
    if type(n) is not int or n < 0 or (most is not None and n > most):
        raise GraphError(f"{name} is not a valid count: {n!r}")
    return n


def _scan_type(*operands: Any, body: Graph, carries: int, slices: int, length: int, reverse: bool) -> tuple[Meta, ...]:
    inputs, outputs = _program("body", body).inputs, body.outputs
    end = _count("carries", carries, len(operands)) + _count("slices", slices, len(operands) - carries)
    _count("length", length)
    if type(reverse) is not bool:
        raise GraphError(f"reverse is True or False, got {reverse!r}")
    for i, x in enumerate(operands[carries:end]):
        if not x.shape or x.shape[0] != length:
            raise GraphError(f"slice {i} of a scan of length {length} is {type_text(x)}")
    taken = [Meta(tuple(x.shape[1:]), x.dtype) for x in operands[carries:end]]
    _expect("the inputs of a scan's body", inputs, [*operands[:carries], *taken, *operands[end:]])
    _expect("the carries that a scan's body gives", inputs[:carries], outputs[:carries])
    return (*map(_meta, outputs[:carries]), *(Meta((length, *y.shape), y.dtype) for y in outputs[carries:]))


def _while_type(*operands: Any, condition: Graph, body: Graph, carries: int, max_steps: int | None) -> tuple[Meta, ...]:
    _count("carries", carries, len(operands))
    if max_steps is not None:
        _count("max_steps", max_steps)
    _expect("the inputs of a loop's condition", _program("condition", condition).inputs, operands)
    _expect("the inputs of a loop's body", _program("body", body).inputs, operands)
    _expect("the result of a loop's condition", (Meta((), np.dtype(bool)),), condition.outputs)
    _expect("the carries that a loop's body gives", body.inputs[:carries], body.outputs)
    return tuple(map(_meta, body.outputs))


def _cond_type(truth: Any, *operands: Any, true: Graph, false: Graph) -> tuple[Meta, ...]:
    _expect("the condition of a branch", (Meta((), np.dtype(bool)),), (truth,))
    _expect("the inputs of the true branch", _program("true", true).inputs, operands)
    _expect("the inputs of the false branch", _program("false", false).inputs, operands)
    _expect("the results of the two branches", true.outputs, false.outputs)
    return tuple(map(_meta, true.outputs))


def _call_type(*operands: Any, body: Graph) -> tuple[Meta, ...]:
    _expect("the inputs of a function", _program("body", body).inputs, operands)
    return tuple(map(_meta, body.outputs))


# kernels


def _without_warnings(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel so that kernels inside it are called directly: the warning-free context is already active and cannot be entered
    twice."""

    @functools.wraps(kernel)
    def run(*arrays: Array, **attrs: Any) -> Any:
        mode = local.mode
        before, mode.run = mode.run, call
        try:
            return tuple(np.array(a) for a in kernel(*arrays, **attrs))  # copies: a result never shares memory with an operand
        finally:
            mode.run = before

    return run


def _fitted(inputs: Sequence[Value], arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays in the dtypes of the inputs: the interpreter may have cast half precision to float32, for kernels that compute."""
    return [np.asarray(a, x.dtype) for a, x in zip(arrays, inputs, strict=True)]


@_without_warnings
def _run_scan(*arrays: Array, body: Graph, carries: int, slices: int, length: int, reverse: bool) -> Any:
    operands = _fitted(body.inputs, arrays)
    now, sliced, shared = operands[:carries], operands[carries : carries + slices], operands[carries + slices :]
    stacked = [np.empty((length, *y.shape), y.dtype) for y in body.outputs[carries:]]
    step = runner(body)
    for t in reversed(range(length)) if reverse else range(length):
        found = step([*now, *(x[t, ...] for x in sliced), *shared])
        now = found[:carries]
        for whole, y in zip(stacked, found[carries:], strict=True):
            whole[t] = y
    return *now, *stacked


@_without_warnings
def _run_while(*arrays: Array, condition: Graph, body: Graph, carries: int, max_steps: int | None) -> Any:
    operands = _fitted(body.inputs, arrays)
    now, shared = operands[:carries], operands[carries:]
    goes_on, step = runner(condition), runner(body)
    while goes_on([*now, *shared])[0]:
        now = step([*now, *shared])
    return now


@_without_warnings
def _run_cond(truth: Array, *arrays: Array, true: Graph, false: Graph) -> Any:
    return runner(true if truth else false)(_fitted(true.inputs, arrays))


@_without_warnings
def _run_call(*arrays: Array, body: Graph) -> Any:
    return runner(body)(_fitted(body.inputs, arrays))


# rows


def _pullback(backend: Any, node: Any, g: Any, needs: Sequence[bool]) -> list[Any]:
    args, out = backend.arguments(node)
    return PULLBACK_RULES[node.row.name](backend.xp, g, out, args, needs, **node.attrs)  # type: ignore[no-any-return]


def _never(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a row with a pullback has no rules to call")


def _row(name: str, kernel: Callable[..., Any], type: Callable[..., Any], attrs: str) -> Row:
    return Row(
        name, ("*operands",), kernel, (_never,), (frozenset(("operands",)),), "each", type,
        pullback=_pullback, attrs=tuple(attrs.split()), outputs=0, complex="own",
    )  # fmt: skip


SCAN = _row("scan", _run_scan, _scan_type, "body carries slices length reverse")
WHILE = _row("while_loop", _run_while, _while_type, "condition body carries max_steps")
COND = _row("cond", _run_cond, _cond_type, "true false")
CONTROL = {row.name: row for row in (SCAN, WHILE, COND)}
CALL = _row("call", _run_call, _call_type, "body")


def is_control(v: Value) -> bool:
    """True if a value is a loop or a branch."""
    return v.row is not None and CONTROL.get(v.op) is v.row


def has_cotangents(x: Any) -> bool:
    """True if values of this dtype have cotangents."""
    return kind(x.dtype) in "fc"
