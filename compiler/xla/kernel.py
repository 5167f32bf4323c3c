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
from symgrad.compiler.xla.cache import kept
from symgrad.compiler.xla.emit import source
from symgrad.compiler.xla.function import function, lowered
from symgrad.errors import GraphError
from symgrad.typing import Array


class Kernel:
    """Call with one array for each input of the graph; gives one array for each output."""

    def __init__(self, graph: Graph, name: str = "forward") -> None:
        self.graph = graph = lowered(graph)
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

    return jax.jit(function(graph, name))


def _x64(enabled: bool) -> Any:
    import jax

    return jax.enable_x64(enabled)
