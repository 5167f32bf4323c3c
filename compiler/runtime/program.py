"""A program: one trace of a function, and the kernels compiled from it.

A program has effects (`runner`), or none. Without effects it runs as one operation on tensors (`operation`), which is recorded and has
derivatives. Either may have path conditions: then it is one path through a function that branches on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from symgrad.compiler.backends.base import Kernel, make_kernel
from symgrad.compiler.guards.guard import Guards
from symgrad.compiler.inputs.signature import Call, ExampleArguments
from symgrad.compiler.inputs.sources import ensure_on_device, launch
from symgrad.compiler.inputs.wrt import WrtSelection
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.nan_origin import active_nan_watch, check_nans
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.rewrite.pipeline import DERIVED, TRACED, TRACED_STEP
from symgrad.compiler.runtime.assumption_checks import AssumptionChecks
from symgrad.compiler.runtime.autograd_op import AutogradOp
from symgrad.compiler.runtime.derivative_graphs import derivative_graph
from symgrad.compiler.runtime.effects_runner import CACHE_MISS as CACHE_MISS, EffectsRunner
from symgrad.compiler.runtime.path_outcomes import PathOutcomes
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import at_lines
from symgrad.compiler.trace.effects import Effects
from symgrad.compiler.trace.trace import Trace
from symgrad.device_tensor import storage_of, tensor_from_storage
from symgrad.ops.promotion import kind
from symgrad.pytree import LEAF, unflatten
from symgrad.tensor import Tensor


class Program:
    """One trace, and the kernels compiled from it so far.

    A program for derivatives (`derives`) has the results alone in its graph; the values of path conditions are computed before a kernel
    runs. In every other program they are outputs of the graph after the results and the values of the effects.
    """

    def __init__(
        self, traced: Trace, call: Call, name: str, options: Options = DEFAULT, times: dict[str, float] | None = None, *,
        effects: Effects | None = None, derives: bool = False
    ) -> None:
        self.captured, self.structure = traced.captured, traced.structure  # not the trace itself, which holds every tensor of the run
        self.call, self.example_arguments = call.without_values(), ExampleArguments(call)
        self.name, self.times, self.options, self.lines = name, {} if times is None else times, options, traced.capture.lines
        self.guards = Guards(traced)
        self.requires_grad = self.guards.requires_grad
        """True if a captured tensor requires grad."""
        self.effects = effects if effects is not None and effects.any else None
        self.path = PathOutcomes(traced.path, self.effects is not None and bool(self.effects.draws))
        self.count = len(traced.graph.outputs)
        """Number of results."""
        self.checks_path = bool(traced.path.values) and not derives
        """True if a run finds out whether the path conditions hold; the program is then not differentiated."""
        self.graph = self._simplified(traced.graph, traced.path.values if self.checks_path else ())
        self.wrt = tuple([i for i, x in enumerate(self.graph.inputs) if kind(x.dtype) in "fc"])
        conditions = len(traced.path.values)
        self.condition_values = self.graph.outputs[len(self.graph.outputs) - conditions :] if self.checks_path else traced.path.values
        """The values of the path conditions."""
        self._condition_kernel: Kernel | None = None
        self.has_all_derivatives = not (traced.capture.effects and traced.capture.differentiated)
        """True if the graph has all derivatives. If the call has run backward itself, the derivatives that it did not ask for are cut off,
        as in eager code."""
        self.assumptions = AssumptionChecks(traced) if options.check_assumptions else None
        """Checks at every run what the function assumes; None unless that is asked for."""
        self.lock: Any = nullcontext()
        """Held during a run with effects: the lock of the compiled function."""
        self.has_run = False
        """True once a call has run the program, which then is compiled."""
        self.runner = None if self.effects is None else EffectsRunner(
            traced, self.effects, self.graph, self.path, name, options, self.assumptions
        )
        self.operation: Any = None if self.runner is not None else self._make_operation()
        """The AutogradOp of the graph; None for a program with effects."""
        self._kernels: dict[Any, Kernel] = {}
        self.choices: dict[Any, WrtSelection] = {}
        """Resolved `wrt` arguments, by what the caller passed."""
        self.sparse_plans: dict[Any, list[Any]] = {}
        """Plans of sparse derivatives, by the derivative and its inputs (see `function/sparse.py`)."""

    def _simplified(self, graph: Graph, conditions: Sequence[Any]) -> Graph:
        """Return the graph with the values of effects and conditions among its outputs, after the passes for traces."""
        effects = self.effects
        outputs = (*graph.outputs, *(() if effects is None else effects.values), *conditions)
        passes = TRACED if effects is None or effects.keeps_history else TRACED_STEP
        with stage("simplify", self.times):
            return passes.run(Graph(graph.inputs, outputs, graph.labels) if len(outputs) > self.count else graph, self.options.without)

    def _make_operation(self) -> AutogradOp:
        arguments = range(len(self.graph.inputs) - len(self.captured))
        donated = arguments if self.options.donate and not self.checks_path else ()  # another path may need them
        operation = AutogradOp(self.graph, self.name, self.options, donated, self.lines)
        operation.resident_inputs = range(len(arguments), len(self.graph.inputs))
        return operation

    @property
    def ignores_aliasing(self) -> bool:
        """True if the program is valid whichever arguments share memory: it writes to none of them."""
        return self.runner is None or min(self.runner.inputs.written, default=len(self.graph.inputs)) >= self.runner.inputs.arguments

    def check_guards(self, tensors: Sequence[Any]) -> bool:
        """True if everything that the program depends on, besides the values of tensors, is unchanged."""
        return self.guards.check(tensors) and (self.runner is None or self.runner.check_state(tensors))

    def explain_failure(self, tensors: Sequence[Any]) -> str | None:
        """Return why this program did not fit the latest call; None if no reason is known."""
        changed = None if self.runner is None else self.runner.explain_grad(tensors)
        return changed or self.guards.explain_failure(tensors) or self.path.failure

    def share_kernels(self, other: Program) -> bool:
        """Use the kernels of another program and return True if both can use the same ones: the guard that failed made no difference to the
        graph."""
        if self.graph != other.graph or self.checks_path != other.checks_path:
            return False
        if self.runner is None or other.runner is None:
            if self.runner is other.runner:
                self.operation, self._kernels = other.operation, other._kernels
            return self.runner is other.runner
        if self.runner.kernel_key != other.runner.kernel_key:
            return False
        self.runner.share_kernels(other.runner)
        return True

    def takes_path(self, inputs: Sequence[Tensor]) -> bool:
        """True if Python would take the path of this program for derivatives."""
        if not self.path.expected:
            return True
        if self._condition_kernel is None:
            graph = verify(Graph(self.graph.inputs, self.condition_values, self.graph.labels))
            self._condition_kernel = make_kernel(graph, "conditions", options=self.options)
        return self.path.hold(self._condition_kernel.launch([t._storage for t in inputs]))

    def try_run(self, tensors: Sequence[Tensor]) -> Any:
        """Return the results for arguments of the right types; CACHE_MISS, without effects, if the guards fail or Python would take
        another path."""
        if self.runner is None:
            return self.run(tensors) if self.guards.check(tensors) else CACHE_MISS
        with self.lock:
            return self.run(tensors) if self.guards.check(tensors) and self.runner.check_state(tensors) else CACHE_MISS

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Run the program, whose guards hold; return the results, or CACHE_MISS if Python would take another path."""
        if self.runner is not None:
            found = self.runner.run(tensors)
            if found is CACHE_MISS:
                return CACHE_MISS
        else:
            captured = self.captured
            for t in captured:
                ensure_on_device(t, self.operation.kernel)
            if self.assumptions is not None and not self.checks_path:  # the kernel may reuse the memory of its inputs
                self.check_assumptions((*tensors, *captured))
            found = self.operation(*tensors, *captured)
            if self.checks_path:
                if not self.path.hold(map(storage_of, found[self.count :])):
                    return CACHE_MISS
                if self.assumptions is not None:
                    self.check_assumptions((*tensors, *captured))
        return found[0] if self.structure is LEAF else unflatten(self.structure, found[: self.count])

    def check_assumptions(self, tensors: Sequence[Tensor]) -> None:
        """Raise AssumptionError if an input, or a value computed from them, is not what the function assumes, if that is to be checked."""
        if self.assumptions is not None:
            self.assumptions.check([storage_of(t) for t in tensors])

    def inputs(self, call: Call) -> list[Tensor]:
        return [*call.tensors(), *self.captured]

    def kernel(self, what: str = "forward", wrt: tuple[int, ...] = (), backend: str | None = None) -> Kernel:
        """Return the kernel of the function or of a derivative, for the back end in the options or another one."""
        options = self.options if backend is None else replace(self.options, backend=backend)
        if what == "forward" and options == self.options:
            return self.operation.kernel if self.runner is None else self.runner.kernel
        key = self._key(what, wrt, options.backend)
        if key not in self._kernels:
            with stage("differentiate", self.times), at_lines(self.lines):
                graph = self.graph
                if what != "forward":
                    graph = DERIVED.run(derivative_graph(what, graph, wrt, self.call.scalar_types), options.without)
            resident = () if self.operation is None else self.operation.resident_inputs
            self._kernels[key] = make_kernel(graph, what, options=options, resident_inputs=resident)
        return self._kernels[key]

    def compute(self, what: str, wrt: tuple[int, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the kernel of the function or a derivative; return its outputs as tensors without history."""
        if self._key(what, wrt, self.options.backend) in self._kernels:
            return self._computed(self.kernel(what, wrt), tensors)
        with compiling(self.name if what == "forward" else f"{self.name}, {what}", self.options.verbose):
            return self._computed(self.kernel(what, wrt), tensors)

    def _computed(self, kernel: Kernel, tensors: Sequence[Tensor]) -> list[Tensor]:
        for t in self.captured:
            ensure_on_device(t, kernel)
        if (watch := active_nan_watch()) is not None:
            check_nans(watch, kernel.graph, [t._storage for t in tensors], self.lines, f"{self.name}, {kernel.name}")
        return [tensor_from_storage(a) for a in launch(kernel, tensors)[1]]

    def _key(self, what: str, wrt: tuple[int, ...], backend: str) -> Any:
        return what, wrt, backend, self.call.scalar_types
