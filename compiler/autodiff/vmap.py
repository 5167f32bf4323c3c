"""Run the graph of one example for all examples at once, with ordinary ops."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.compiler.autodiff.batch import batched
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, Value, input_value, walk
from symgrad.compiler.ir.replay import replay_recorded
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor


def batched_run(graph: Graph, tensors: Sequence[Tensor], shared: Sequence[Tensor], formula: bool) -> list[Tensor] | None:
    """Return the results for all slices of `tensors`, which are the first inputs of the graph. With `formula`, return None if the batched
    graph uses rows that are not in the op table, for which no formula can be written."""
    size, count = tensors[0]._array.shape[0], len(tensors)
    inputs = [input_value(i, (size, *x.shape) if i < count else x.shape, x.dtype) for i, x in enumerate(graph.inputs)]
    outputs = batched(graph.outputs, dict(zip(graph.inputs[:count], inputs, strict=False)), size, last=False)
    whole = Graph(inputs, outputs)
    return None if formula and not all(map(_is_ours, walk(whole))) else replay_recorded(whole, (*tensors, *shared))


def _is_ours(v: Value) -> bool:
    return v.row is None or v.row is TABLE.get(v.op) or is_control(v)
