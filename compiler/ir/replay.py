"""Run a graph again in any `xp`: on arrays, as recorded tensors, or as part of another graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.application import apply, constant
from symgrad.compiler.ir import builder
from symgrad.compiler.ir.graph import Graph, Value, row_of
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.runner import runner
from symgrad.compiler.ir.subgraph import inline
from symgrad.ops.namespace import raw
from symgrad.tensor import Tensor


def replay(xp: Any, graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Return the outputs of a graph for these operands, in the representation of `xp`."""
    if xp is raw:
        return runner(graph)(operands)
    return inline(graph, operands) if xp is builder.xp else replay_recorded(graph, operands)


def replay_recorded(graph: Graph, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return the outputs as tensors computed by ordinary eager ops, so that they have a history and are visible to a tracer."""
    return interpret(graph.outputs, dict(zip(graph.inputs, operands, strict=True)), _apply, leaf=_constant, order=graph.values)


def _apply(v: Value, args: tuple[Any, ...]) -> Any:
    return apply(row_of(v), args, dict(v.attrs))


def _constant(v: Value) -> Tensor:
    return constant(np.asarray(v.value, v.dtype), v.value)
