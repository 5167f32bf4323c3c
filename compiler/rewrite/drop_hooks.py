"""hooked(x, ...) -> x: forward derivatives do not see the hooks of tensors, as in PyTorch."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.custom import HOOKED
from symgrad.compiler.ir.graph import Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite


def has_hooks(graph: Graph) -> bool:
    """Whether gradients go through hooks of tensors, in loops and branches, too."""
    return any(v.op == HOOKED.name for v in walk(graph))


def drop_hooks(graph: Graph) -> Graph:
    """The graph without the hooks of its tensors."""
    return rewrite(graph, _change) if has_hooks(graph) else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    return args[:1] if v.op == HOOKED.name else None
