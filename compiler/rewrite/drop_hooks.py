"""hooked(x, ...) -> x: tensor hooks do not apply in forward mode, as in PyTorch."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.custom import HOOKED
from symgrad.compiler.ir.graph import Graph, Value
from symgrad.compiler.rewrite.rewrite import rewrite


def has_hooks(graph: Graph) -> bool:
    """True if the graph, or a loop or branch in it, has a tensor hook."""
    return HOOKED.name in graph.ops


def drop_hooks(graph: Graph) -> Graph:
    """Return the graph without tensor hooks."""
    return rewrite(graph, _change) if has_hooks(graph) else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    return args[:1] if v.op == HOOKED.name else None
