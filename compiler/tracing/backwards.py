"""The backward of a Function of the user's, and hooks that replace gradients, run while the function around them is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.autograd.backward import TensorLane
from symgrad.compiler.graph.builder import apply
from symgrad.compiler.graph.custom import custom, holes, undifferentiable
from symgrad.compiler.graph.ir import Value
from symgrad.errors import TraceError
from symgrad.mode import local
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, wrap


def follow_backward(capture: Any, row: Row, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Give the results of a Function, whose forward was traced, the derivatives that its own backward computes."""
    found = [t for t in results if isinstance(t, Tensor) and t._requires_grad]
    if not found:
        return
    values = [capture.value(t) for t in found]
    needs = [isinstance(a, Tensor) and a._requires_grad for a in args]
    operands = [capture.value(a) for a, need in zip(args, needs, strict=True) if need]
    try:
        cotangents = _backward(capture, row, found, holes(values), needs)
    except TraceError as error:  # it matters only if somebody asks for a derivative
        new: Any = tuple(apply(undifferentiable(row), (v, *operands), {"line": str(error)}) for v in values)
    else:
        new = custom(values, operands, cotangents)
    for t, value in zip(found, new, strict=True):
        capture.enter(t, value)


def _backward(
    capture: Any, row: Row, results: Sequence[Tensor], unknown: Sequence[Value], needs: Sequence[bool]
) -> list[Value | None]:
    """The cotangents that a Function's own backward gives to the arguments that need one, for cotangents that nobody knows yet."""
    node = results[0]._node.node
    gs: list[Any] = [None] * len(node.shape)
    for t, value in zip(results, unknown, strict=True):
        g = gs[t._node.index] = wrap(np.zeros(value.shape, value.dtype), True)
        capture.enter(g, value)
    found = _unseen(capture, lambda: row.pullback(TensorLane(), node, tuple(gs), list(needs)))  # type: ignore[misc]
    return [None if g is None else capture.value(g) for g, need in zip(found, needs, strict=True) if need]


def _unseen(capture: Any, run: Callable[[], Any]) -> Any:
    """What the user's code makes of gradients that have no values yet."""
    mode = local.mode
    recording, mode.recording = mode.recording, True
    followed, capture.follow = capture.follow, False  # zeros have no truth
    try:
        return run()
    finally:
        mode.recording, capture.follow = recording, followed


def follow_hook(capture: Any, t: Tensor, hook: Callable[[Tensor], Any], how: str) -> None:
    """A hook of a tensor that the function made: from here on it is an identity with a backward of its own."""
    value = capture.value(t)
    if any(value is a for v in capture.lines for a in v.args):
        capture.unheard(f"{how} comes after a use of its tensor, in which derivatives would not see it; register it before")
        return
    (unknown,) = holes([value])
    g = wrap(np.zeros(value.shape, value.dtype), True)
    capture.enter(g, unknown)
    try:
        found = _unseen(capture, lambda: hook(g))
    except TraceError as error:
        capture.unheard(f"no graph can follow a hook: {error}")
        return
    (new,) = custom([value], [value], [capture.value(g if found is None else found)])
    box = capture.boxes[id(t._array)]
    box.value = new
    if box.node is not None:
        capture.nodes[box.node] = new
