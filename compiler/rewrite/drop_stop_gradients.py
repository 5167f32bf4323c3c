"""detach(x) -> x: detach only matters to derivatives that are still to be taken."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.graph import Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite


def drop_stop_gradients(graph: Graph) -> Graph:
    """Return the graph without `detach`. For kernels only, which are not differentiated any further."""
    return rewrite(graph, _change) if any(v.op == "detach" for v in walk(graph)) else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    return args[0] if v.op == "detach" else None
