"""The backward of a Function of the user's, run while the function around it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.autograd.backward import TensorLane
from symgrad.compiler.builder import apply
from symgrad.compiler.custom import custom, holes, undifferentiable
from symgrad.compiler.ir import Value
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
    mode = local.mode
    recording, mode.recording = mode.recording, True
    followed, capture.follow = capture.follow, False  # zeros have no truth
    try:
        found = row.pullback(TensorLane(), node, tuple(gs), list(needs))  # type: ignore[misc]
    finally:
        mode.recording, capture.follow = recording, followed
    return [None if g is None else capture.value(g) for g, need in zip(found, needs, strict=True) if need]
