"""A graph as a Python function on JAX arrays, defined by the emitted source."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

from symgrad.compiler.backends.xla.emit import default_name, module
from symgrad.compiler.ir.graph import Graph, walk
from symgrad.compiler.rewrite.pipeline import XLA, Off
from symgrad.errors import GraphError

KERNEL_ONLY = ("stop_gradients", "roll")
"""Passes for kernels alone: without them JAX may still differentiate the function, and equal layers stay as they are."""
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def is_wide(dtype: Any) -> bool:
    """True if JAX has the dtype only with x64 enabled."""
    return bool(dtype.itemsize == 16 or (dtype.itemsize == 8 and dtype.kind != "c"))


def lowered(graph: Graph, off: Off = KERNEL_ONLY) -> Graph:
    """Return the graph in rows that have a lowering; raise GraphError if there is none."""
    return XLA.run(graph, off)


def check_lowering(graph: Graph) -> Graph:
    """Return the graph; raise GraphError if a row has no lowering."""
    import jax

    for v in walk(graph):
        name_in_jax = default_name(v)
        if name_in_jax is not None and not hasattr(jax.numpy, name_in_jax):
            raise GraphError(f"row {v.op!r} has no lowering to JAX: give it a jax column, or a composition of rows that have one")
    return graph


def function(graph: Graph, name: str, narrow: bool = False) -> Callable[..., Any]:
    """Return the function that the source of a lowered graph defines; if `narrow`, with 32-bit dtypes in place of 64-bit ones."""
    tree = _Narrow().visit(module(graph, name)) if narrow else module(graph, name)
    scope: dict[str, Any] = {v.row.foreign.name: v.row.foreign for v in walk(graph) if v.row is not None and v.row.foreign is not None}
    exec(compile(tree, f"<symgrad {graph.hash[:12]}>", "exec"), scope)  # a syntax tree that the emitter built, never text
    return _as_emitted(scope[name])


def _as_emitted(source: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs the same however strict the user's JAX settings are: it relies on broadcasting, and casts explicitly
    where needed."""
    import jax

    @functools.wraps(source)
    def run(*arrays: Any) -> Any:
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return source(*arrays)

    return run


class _Narrow(ast.NodeTransformer):
    """Rewrite jnp.float64 -> jnp.float32, 'float64' -> 'float32'."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "jnp":
            node.attr = _NARROW.get(node.attr, node.attr)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            node.value = _NARROW.get(node.value, node.value)
        return node
