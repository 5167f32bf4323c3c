"""One trace of a function without effects, and the kernels that were made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler import differentiate
from symgrad.compiler.backend import Kernel, make_kernel
from symgrad.compiler.capture import Trace
from symgrad.compiler.ir import Graph
from symgrad.compiler.operation import Operation
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.passes.stabilise import stabilise
from symgrad.compiler.signature import Call
from symgrad.compiler.sources import settle
from symgrad.compiler.tree import LEAF, unflatten
from symgrad.compiler.verify import verify
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor, wrap


class Program:
    """One trace, and the kernels that were made of it so far."""

    def __init__(self, traced: Trace, name: str, options: Options = DEFAULT) -> None:
        self.captured, self.structure = traced.captured, traced.structure  # not the trace itself, which holds every tensor of the run
        self.graph = verify(stabilise(traced.graph))
        self.wrt = tuple(i for i, x in enumerate(self.graph.inputs) if kind(x.dtype) in "fc")
        self.operation = Operation(self.graph, name, options)
        self.dependencies = traced.capture.dependencies
        self._kernels: dict[Any, Kernel] = {}

    def holds(self) -> bool:
        """Whether what the program depends on besides tensors is as it was."""
        return all(read() == value for read, value in self.dependencies)

    def run(self, inputs: Sequence[Tensor]) -> Any:
        for t in self.captured:
            settle(t, self.operation.kernel)
        results = self.operation(*inputs)
        return results[0] if self.structure is LEAF else unflatten(self.structure, results)

    def inputs(self, call: Call) -> list[Tensor]:
        given = [x if isinstance(x, Tensor) else wrap(x) for x in call.leaves]
        return [*given, *self.captured]

    def kernel(self, what: str, wrt: tuple[int, ...]) -> Kernel:
        if what == "forward":
            return self.operation.kernel
        if (what, wrt) not in self._kernels:
            self._kernels[what, wrt] = make_kernel(verify(self._derived(what, wrt)), what, self.operation.options)
        return self._kernels[what, wrt]

    def _derived(self, what: str, wrt: tuple[int, ...]) -> Graph:
        if what == "vjp":
            return differentiate.vjp(self.graph, wrt)
        if what not in ("grad", "value_and_grad"):
            raise ValueError(f"there is source of 'forward', 'vjp', 'grad' and 'value_and_grad', not of {what!r}")
        gradient = differentiate.grad(self.graph, wrt)
        values = self.graph.outputs if what == "value_and_grad" else ()
        return Graph(gradient.inputs, (*values, *gradient.outputs), gradient.labels)
