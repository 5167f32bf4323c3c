"""Run a graph many times with NumPy: kernels and argument positions are looked up once, not on each run as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import LITERAL, Graph, Value, row_of, walk
from symgrad.compiler.ir.interpret import evaluate, interpret
from symgrad.ops.variants import is_half
from symgrad.typing import Array

ndarray = np.ndarray


@lru_cache(maxsize=128)
def runner(graph: Graph) -> Callable[[Sequence[Array]], list[Array]]:
    """Return a function from arrays to outputs. The graph must be verified, and the arrays must have the types of its inputs."""
    if any(is_half(d) for v in walk(graph) for d in (v.dtype if isinstance(v.dtype, tuple) else (v.dtype,))):
        return partial(evaluate, graph)  # computes in float32 and rounds
    return _Steps(graph).run


class _Steps:
    """Kernels with the positions of their arguments in a list of all values: None, literals, inputs, results."""

    def __init__(self, graph: Graph) -> None:
        literals = [v for v in graph.values if v.op == LITERAL]
        self.start: list[Any] = [None, *(np.asarray(v.value, v.dtype) for v in literals)]
        place: dict[Value, Any] = {v: i for i, v in enumerate([*literals, *graph.inputs], start=1)}
        self.next = len(place) + 1
        self.steps: list[tuple[Any, list[int], dict[str, Any]]] = []
        self.ends: list[int] = interpret(graph.outputs, place, self._add, order=graph.values)

    def _add(self, v: Value, args: tuple[int | None, ...]) -> int | range:
        """Add the kernel of an application; return the position of its result, or the positions of its outputs."""
        kernel, several = row_of(v).numpy, isinstance(v.dtype, tuple)
        self.steps.append((partial(_several, kernel) if several else kernel, [i or 0 for i in args], dict(v.attrs)))
        place, self.next = self.next, self.next + (len(v.dtype) if several else 1)
        return range(place, self.next) if several else place

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        known = [*self.start, *arrays]
        for kernel, args, attrs in self.steps:
            found = kernel(*[known[i] for i in args], **attrs)
            if found.__class__ is tuple:
                known += found
            else:
                known.append(found if found.__class__ is ndarray else np.asarray(found))
        return [known[i] for i in self.ends]


def _several(kernel: Callable[..., Any], /, *arrays: Array, **attrs: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, kernel(*arrays, **attrs)))
