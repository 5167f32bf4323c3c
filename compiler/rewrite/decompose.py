"""mse_loss(x, y) -> mean((x - y)²): replaces fused rows by their compositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, Value, row_of, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.ops.spec import Row


def decompose(graph: Graph, wanted: Callable[[Row], bool] = lambda row: True) -> Graph:
    """Replace each wanted row that has a composition by it, recursively."""

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        row = row_of(v)
        return row.compose(xp, *args, **v.attrs) if row.compose is not None and wanted(row) else None

    while any([v.row is not None and v.row.compose is not None and wanted(v.row) for v in walk(graph)]):
        graph = rewrite(graph, change)
    return graph


def decompose_without_lowering(graph: Graph) -> Graph:
    """Replace each row that has a composition and no lowering to JAX."""
    return decompose(graph, lambda row: row.jax is None)
