"""Run a graph many times with NumPy: kernels and argument positions are looked up once, not on each run as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, row_of, walk
from symgrad.compiler.ir.interpret import evaluate
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
        place: dict[Value, int] = {v: i for i, v in enumerate([*literals, *graph.inputs], start=1)}
        self.steps: list[tuple[Any, list[int], dict[str, Any]]] = []
        for v in graph.values:
            if v.op not in (INPUT, LITERAL):
                place[v] = len(place) + 1
                self.steps.append(_step(v, [0 if a is None else place[a] for a in v.args]))
        self.ends = [place[v] for v in graph.outputs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        known = [*self.start, *arrays]
        for kernel, args, attrs in self.steps:
            found = kernel(*[known[i] for i in args], **attrs)
            known.append(found if found.__class__ is ndarray or found.__class__ is tuple else np.asarray(found))
        return [known[i] for i in self.ends]


def _step(v: Value, args: list[int]) -> tuple[Any, list[int], dict[str, Any]]:
    if v.op == OUTPUT:
        return _chosen, args, {"index": v.attrs["index"]}
    if isinstance(v.dtype, tuple):
        return partial(_several, row_of(v).numpy), args, dict(v.attrs)
    return row_of(v).numpy, args, dict(v.attrs)


def _chosen(whole: tuple[Array, ...], index: int) -> Array:
    return whole[index]


def _several(kernel: Callable[..., Any], /, *arrays: Array, **attrs: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, kernel(*arrays, **attrs)))
