"""Who runs a graph: XLA, or NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from symgrad.compiler.ir import Graph
from symgrad.compiler.options import DEFAULT, Options
from symgrad.typing import Array


class Kernel(Protocol):
    """A graph that can be run: call it with one array for each input, it gives a new one for each output."""

    graph: Graph
    """As it is run: rows that the back end does not know are written as what they are made of."""
    name: str

    def __call__(self, arrays: Sequence[Array]) -> list[Array]: ...

    def source(self) -> str: ...


def make_kernel(graph: Graph, name: str = "forward", options: Options = DEFAULT) -> Kernel:
    """A kernel of the back end that the options ask for."""
    from symgrad.compiler.xla.kernel import Kernel as XlaKernel

    return XlaKernel(graph, name)
