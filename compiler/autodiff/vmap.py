"""The graph of one example run for all examples at once, by ordinary operations."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, Value, input_value, walk
from symgrad.compiler.ir.replay import replay_recorded
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor


def batched_run(graph: Graph, tensors: Sequence[Tensor], shared: Sequence[Tensor], formula: bool) -> list[Tensor] | None:
    """The results for all slices of `tensors`, which stand for the first inputs of the graph; None if they cannot be had that way. A
    `formula` can be written for rows of the table only."""
    size, count = tensors[0]._array.shape[0], len(tensors)
    inputs = [input_value(i, (size, *x.shape) if i < count else x.shape, x.dtype) for i, x in enumerate(graph.inputs)]
    outputs = batched(graph.outputs, dict(zip(graph.inputs[:count], inputs, strict=False)), size, last=False)
    whole = Graph(inputs, outputs)
    return None if formula and not all(map(_is_ours, walk(whole))) else replay_recorded(whole, (*tensors, *shared))


def _is_ours(v: Value) -> bool:
    return v.row is None or v.row is TABLE.get(v.op) or is_control(v)
