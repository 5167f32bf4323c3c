"""aᵀ @ v -> v @ a: XLA materializes the transpose of a matrix before it multiplies it by a vector.

    transpose(a) @ v  -> v @ a
    v @ transpose(a)  -> a @ v

Both sides add up the same products, so that only the time differs.
"""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite


def matvec_without_transpose(graph: Graph) -> Graph:
    """Return the graph without products of a transposed matrix and a vector."""
    return rewrite(graph, _change) if any(_change(v, v.args) is not None for v in walk(graph) if v.op == "matmul") else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if v.op != "matmul":
        return None
    x, y = args
    if y.ndim == 1 and _is_transposed(x):
        return xp.matmul(y, x.args[0])
    if x.ndim == 1 and _is_transposed(y):
        return xp.matmul(y.args[0], x)
    return None


def _is_transposed(x: Value) -> bool:
    return x.op == "transpose" and x.ndim == 2 and x.attrs["dim0"] != x.attrs["dim1"]
