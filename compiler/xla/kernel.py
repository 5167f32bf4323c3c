"""A graph as a compiled function of NumPy arrays.

JAX's global configuration is never touched: 64-bit types are served under a context that is local to the call and the thread, and
whatever the user has set makes no difference to a kernel. A call returns when the work is done, since XLA may read the inputs' memory,
which anybody may write to afterwards, until then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir import Graph, type_text
from symgrad.compiler.passes.constants import constants
from symgrad.compiler.passes.decompose import decompose
from symgrad.compiler.verify import verify
from symgrad.compiler.xla.cache import kept
from symgrad.compiler.xla.emit import default_name, module, source
from symgrad.errors import GraphError
from symgrad.typing import Array


class Kernel:
    """Call with one array for each input of the graph; gives one array for each output."""

    def __init__(self, graph: Graph, name: str = "forward") -> None:
        self.graph = graph = verify(constants(decompose(graph, lambda row: row.jax is None)))
        self.name = name
        self.wide = _has_64_bit(graph)
        self.function = _jitted(graph, name)
        self.compiled = False

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        with _x64(self.wide), contextlib.nullcontext() if self.compiled else kept(self.graph.hash):
            results = self.function(*arrays)
            results = results if isinstance(results, tuple) else (results,)
            copies = [np.array(r) for r in results]  # waits for the result; a copy, so that it can be written to
        self.compiled = True
        for array, v in zip(copies, self.graph.outputs, strict=True):
            if array.dtype != v.dtype or array.shape != v.shape:
                raise GraphError(f"the kernel gave {type_text(array)} where its graph says {type_text(v)}")
        return copies

    def source(self) -> str:
        return source(self.graph, self.name)


def _has_64_bit(graph: Graph) -> bool:
    dtypes = {d for v in (*graph.inputs, *graph.values) for d in (v.dtype if isinstance(v.dtype, tuple) else (v.dtype,))}
    return any(d.itemsize == 16 or (d.itemsize == 8 and d.kind != "c") for d in dtypes)


def _jitted(graph: Graph, name: str) -> Callable[..., Any]:
    import jax

    for v in graph.values:
        name_in_jax = default_name(v)
        if name_in_jax is not None and not hasattr(jax.numpy, name_in_jax):
            raise GraphError(f"row {v.op!r} has no lowering to JAX: give it a jax column, or a composition of rows that have one")
    scope: dict[str, Any] = {}
    exec(compile(module(graph, name), f"<symgrad {graph.hash[:12]}>", "exec"), scope)  # our own syntax tree, never text
    return jax.jit(scope[name])


def _x64(enabled: bool) -> Any:
    import jax

    return jax.enable_x64(enabled)
