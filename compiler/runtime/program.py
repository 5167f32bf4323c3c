"""One trace of a function without effects, and the kernels compiled from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from symgrad.compiler.autodiff import jacobian, pull as differentiate
from symgrad.compiler.backends.base import Kernel, make_kernel
from symgrad.compiler.guards.guard import Guards
from symgrad.compiler.inputs.pytree import LEAF, unflatten
from symgrad.compiler.inputs.signature import Call, ExampleArguments
from symgrad.compiler.inputs.sources import ensure_on_device, launch
from symgrad.compiler.inputs.wrt import WrtSelection
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.nan_origin import active_nan_watch, check_nans
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.rewrite.stable import stabilise
from symgrad.compiler.runtime.autograd_op import AutogradOp
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import at_lines
from symgrad.compiler.trace.trace import Trace
from symgrad.device_tensor import tensor_from_storage
from symgrad.ops.promotion import kind, promote_types
from symgrad.tensor import Tensor

CACHE_MISS = object()
"""Sentinel: guards failed; try the next cache entry."""


class PureProgram:
    """One trace, and the kernels compiled from it so far."""

    def __init__(
        self, traced: Trace, call: Call, name: str, options: Options = DEFAULT, times: dict[str, float] | None = None
    ) -> None:
        self.captured, self.structure = traced.captured, traced.structure  # not the trace itself, which holds every tensor of the run
        self.call, self.example_arguments = call.without_values(), ExampleArguments(call)
        self.name, self.times = name, {} if times is None else times
        self.count = len(traced.graph.outputs)
        with stage("simplify", self.times):
            self.graph = verify(stabilise(traced.graph))
        self.wrt = tuple(i for i, x in enumerate(self.graph.inputs) if kind(x.dtype) in "fc")
        self.operation = AutogradOp(self.graph, name, options, range(len(self.graph.inputs) - len(self.captured)) if options.donate else ())
        self.operation.lines = traced.capture.lines
        self.operation.resident_inputs = range(len(self.graph.inputs) - len(self.captured), len(self.graph.inputs))
        self.has_all_derivatives = not (traced.capture.effects and traced.capture.differentiated)
        """True if the graph has all derivatives. If the call has run backward itself, the derivatives that it did not ask for are cut off,
        as in eager code."""
        self.guards = Guards(traced)
        self.requires_grad = self.guards.requires_grad
        """True if a captured tensor requires grad."""
        self.expected_outcomes = traced.path.expected_outcomes
        self.condition_values = traced.path.values
        """The values of the path conditions; `expected_outcomes` are their outcomes on this path."""
        self._kernels: dict[Any, Kernel] = {}
        self.choices: dict[Any, WrtSelection] = {}
        """Resolved `wrt` arguments, by what the caller passed."""

    def check_guards(self, leaves: Sequence[Any] = ()) -> bool:
        """True if everything that the program depends on, besides tensors, is unchanged."""
        return self.guards.check(leaves)

    def share_kernels(self, other: PureProgram) -> None:
        """Use the kernels of a program with the same graph: the guard that failed made no difference to the graph."""
        self.operation, self._kernels = other.operation, other._kernels

    def takes_path(self, inputs: Sequence[Tensor]) -> bool:
        """True if Python would take this path: all path conditions have the expected outcomes."""
        if not self.expected_outcomes:
            return True
        if "taken" not in self._kernels:
            graph = verify(Graph(self.graph.inputs, self.condition_values, self.graph.labels))
            self._kernels["taken"] = make_kernel(graph, "conditions", options=self.operation.options)
        found = self._kernels["taken"].launch([t._storage for t in inputs])
        return all(a.item() == answer for a, answer in zip(found, self.expected_outcomes, strict=True))

    def try_run(self, tensors: Sequence[Tensor]) -> Any:
        """Return the results for arguments of the right types; CACHE_MISS if the guards fail."""
        return self.run(tensors) if self.guards.check(tensors) else CACHE_MISS

    def run(self, tensors: Sequence[Tensor]) -> Any:
        captured = self.captured
        for t in captured:
            ensure_on_device(t, self.operation.kernel)
        results = self.operation(*tensors, *captured)
        return results[0] if self.structure is LEAF else unflatten(self.structure, results)

    def inputs(self, call: Call) -> list[Tensor]:
        return [*call.tensors(), *self.captured]

    def kernel(self, what: str, wrt: tuple[int, ...], backend: str | None = None) -> Kernel:
        """Return the kernel of the function or of a derivative, for the back end in the options or another one."""
        options = self.operation.options if backend is None else replace(self.operation.options, backend=backend)
        if what == "forward" and options == self.operation.options:
            return self.operation.kernel
        key = self._key(what, wrt, options.backend)
        if key not in self._kernels:
            with stage("differentiate", self.times), at_lines(self.operation.lines):
                graph = self.graph if what == "forward" else verify(self._derived(what, wrt))
            self._kernels[key] = make_kernel(graph, what, options=options, resident_inputs=self.operation.resident_inputs)
        return self._kernels[key]

    def compute(self, what: str, wrt: tuple[int, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the kernel of the function or a derivative; return its outputs as tensors without history."""
        if self._key(what, wrt, self.operation.options.backend) in self._kernels:
            return self._computed(self.kernel(what, wrt), tensors)
        with compiling(self.name if what == "forward" else f"{self.name}, {what}", self.operation.options.verbose):
            return self._computed(self.kernel(what, wrt), tensors)

    def _computed(self, kernel: Kernel, tensors: Sequence[Tensor]) -> list[Tensor]:
        for t in self.captured:
            ensure_on_device(t, kernel)
        if (watch := active_nan_watch()) is not None:
            check_nans(watch, kernel.graph, [t._storage for t in tensors], self.operation.lines, f"{self.name}, {kernel.name}")
        return [tensor_from_storage(a) for a in launch(kernel, tensors)[1]]

    def _key(self, what: str, wrt: tuple[int, ...], backend: str) -> Any:
        return what, wrt, backend, self.call.scalar_types

    def _derived(self, what: str, wrt: tuple[int, ...]) -> Graph:
        if what not in DERIVATIVE_GRAPHS:
            raise ValueError(f"there is 'forward', {', '.join(map(repr, DERIVATIVE_GRAPHS))}, and no {what!r}")
        graph = DERIVATIVE_GRAPHS[what](self.graph, wrt)
        floats = {i for i, cls in enumerate(self.call.scalar_types) if cls is float}
        return _typed_as_results(graph, self.graph, what, [i in floats for i in wrt]) if floats.intersection(wrt) else graph


def _typed_as_results(derived: Graph, graph: Graph, what: str, floats: Sequence[bool]) -> Graph:
    """Cast derivatives with respect to Python floats to the dtype of the result. Programs read such arguments as float64, but in eager code
    they have no dtype."""
    if what == "jvp":  # a tangent of the result already has its dtype
        return derived
    count, first = len(floats), len(graph.outputs) if what == "value_and_grad" else 0
    each = count * count if what == "hessian" else count
    outputs = list(derived.outputs)
    types = [v.dtype for v in graph.outputs]
    if what == "vjp":  # one sum over all results
        types = [functools.reduce(promote_types, types)]
    for k in range(len(outputs) - first):
        like = types[k // each]
        if floats[k % count] and kind(like) == kind(outputs[first + k].dtype) == "f":
            outputs[first + k] = xp.cast(outputs[first + k], dtype=like)
    return Graph(derived.inputs, outputs, derived.labels)


def _value_and_grad(graph: Graph, wrt: tuple[int, ...]) -> Graph:
    gradient = differentiate.grad(graph, wrt)
    return Graph(gradient.inputs, (*graph.outputs, *gradient.outputs), gradient.labels)


DERIVATIVE_GRAPHS: dict[str, Callable[[Graph, tuple[int, ...]], Graph]] = {
    "vjp": differentiate.vjp,
    "jvp": differentiate.jvp,
    "grad": differentiate.grad,
    "value_and_grad": _value_and_grad,
    "jacobian": jacobian.jacobian,
    "hessian": jacobian.hessian,
    "hvp": jacobian.hvp,
}
"""The graphs of derivatives that `PureProgram.kernel` compiles, by name."""
