"""A user-defined Function as a value of a graph: the results of its forward, with its own backward.

    custom(*results, *operands, *saved; backward, results, operands, reads)      returns the results
        backward(*cotangents of the results, *results that it reads, *saved)   ->  cotangents of the operands

Its backward is Python code, which runs once, when the function is traced, on placeholders for the cotangents.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import LITERAL, Graph, Value, input_value, toposort
from symgrad.compiler.ir.subgraph import inline, subgraph, zeros
from symgrad.ops.shapes import unbroadcast
from symgrad.ops.spec import Meta, Row

_HOLES = 10**6
"""Placeholders of cotangents and results are inputs with indices that no program reaches."""


def holes(likes: Sequence[Any]) -> list[Value]:
    """Return placeholders for the cotangents of results."""
    return [input_value(_HOLES + i, x.shape, x.dtype) for i, x in enumerate(likes)]


def result_holes(likes: Sequence[Any]) -> list[Value]:
    """Return placeholders for the results that a backward reads: differentiating them differentiates the Function itself."""
    return [input_value(2 * _HOLES + i, x.shape, x.dtype) for i, x in enumerate(likes)]


def hooked(value: Value, cotangent: Value) -> Value:
    """Return the value with a hook on its cotangent; `cotangent` is the hook's result, computed from `holes([value])` and
    `result_holes([value])`."""
    (result,) = custom([value], [value], [cotangent], HOOKED)
    return result


def custom(
    results: Sequence[Value], operands: Sequence[Value], cotangents: Sequence[Value | None], row: Row | None = None
) -> tuple[Value, ...]:
    """Return the results with a custom backward: `cotangents` of the operands, computed from `holes(results)` and `result_holes(results)`;
    None where an operand has no derivative."""
    wanted = [(x, g) for x, g in zip(operands, cotangents, strict=True) if g is not None]
    unknown = holes(results)
    outputs = [xp.cast(unbroadcast(xp, g, x.shape), dtype=x.dtype) for x, g in wanted]  # sums a larger cotangent
    below = set(toposort(outputs))
    read = {i: x for i, x in enumerate(result_holes(results)) if x in below}
    given = [*unknown, *read.values()]
    saved = _saved(outputs, given)
    names = [*(f"g{i}" for i in range(len(unknown))), *(f"y{i}" for i in read), *(f"s{i}" for i in range(len(saved)))]
    backward = subgraph((*given, *saved), outputs, names)
    attrs = {"backward": backward, "results": len(results), "operands": len(wanted), "reads": tuple(read)}
    return apply(row or CUSTOM, (*results, *(x for x, _ in wanted), *saved), attrs)  # type: ignore[no-any-return]


def revalued(numbers: Value, history: Value) -> Value:
    """Return the values of `numbers` with the derivatives of `history`: the result of a write without history. Infinities and NaN in
    `history` do not reach the result, as they would in numbers + (history - detach(history))."""
    fixed = xp.detach(numbers)
    if fixed is xp.detach(history):
        return history
    (result,) = custom([fixed], [history], holes([fixed]))
    return result


def _saved(outputs: Sequence[Value], unknown: Sequence[Value]) -> list[Value]:
    """Return the values that the outputs read and that depend neither on cotangents nor on results."""
    order = toposort(outputs)
    moving = set(unknown)
    for v in order:
        if any(a in moving for a in v.args):
            moving.add(v)
    read = {a: None for v in order if v in moving for a in v.args if a is not None and a not in moving and a.op != LITERAL}
    read |= {v: None for v in outputs if v not in moving and v.op != LITERAL}
    return list(read)


def _type(*args: Any, backward: Graph, results: int, operands: int, reads: tuple[int, ...]) -> tuple[Meta, ...]:
    return tuple(Meta(tuple(x.shape), np.dtype(x.dtype)) for x in args[:results])


def _first(*args: Any, backward: Graph, results: int, operands: int, reads: tuple[int, ...]) -> Any:
    return tuple(args[:results])


def _compose(xp: Any, *args: Any, backward: Graph, results: int, operands: int, reads: tuple[int, ...]) -> Any:
    return tuple(args[:results])


def _pullback(backend: Any, node: Any, g: Any, needs: Sequence[bool]) -> list[Any]:
    args, outs = backend.arguments(node)
    results, operands = node.attrs["results"], node.attrs["operands"]
    given = [zeros(backend.xp, out) if one is None else one for one, out in zip(g, outs, strict=True)]
    known = [outs[i] for i in node.attrs["reads"]]
    saved = args[results + operands :]
    return [None] * results + inline(node.attrs["backward"], (*given, *known, *saved)) + [None] * len(saved)


def _never(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a row with a pullback has no rules to call")


CUSTOM = Row(
    "custom", ("*args",), _first, (_never,), (frozenset(("args",)),), "each", _type, pullback=_pullback,
    attrs=("backward", "results", "operands", "reads"), outputs=0, complex="own", compose=_compose,
)  # fmt: skip

HOOKED = dataclasses.replace(CUSTOM, name="hooked")
"""CUSTOM for one value that is its own operand: its backward is a hook."""


@functools.cache
def undifferentiable(row: Row) -> Row:
    """Return the row of a Function's result without a rule: it returns its first argument, and has no derivative in the others."""
    return dataclasses.replace(
        row, numpy=lambda x, *others, line: x, type=lambda x, *others, line: Meta(x.shape, x.dtype), attrs=("line",), outputs=1,
        compose=lambda xp, x, *others, line: x,
    )  # fmt: skip
