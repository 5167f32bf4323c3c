"""Inspection methods of a compiled function: formula, source, HLO, cost, and all of it together.

Everything is about the latest program: that of the last call, or of the last derivative.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.compiler.backends.base import BACKENDS, Kernel
from symgrad.compiler.function.inspect.cost import Cost, cost_of
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.requires_grad import trace_for_derivatives
from symgrad.compiler.inputs.signature import Call, Signature, Spec
from symgrad.compiler.inputs.wrt import WrtSelection, select_wrt
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.options import Options
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.trace.trace import trace
from symgrad.compiler.trace.tracer import PathConditions
from symgrad.errors import FormulaError, TraceError

if TYPE_CHECKING:
    from symgrad.compiler.function.inspect.explain import Explanation
    from symgrad.compiler.symbolic.derivation import Derivation


class Inspection:
    """Mixin with the inspection methods of a compiled function."""

    options: Options
    signature: Signature
    _name: str
    _latest: Program | None

    def source(self, what: str = "forward", wrt: Any = None, backend: str | None = None) -> str:
        """Return the source of the latest program, as the back end emits it, on JAX or NumPy: "forward", or a derivative ("vjp", "jvp",
        "grad", "value_and_grad", "jacobian", "hessian", "hvp", "taylor 8") with respect to all inputs or to `wrt`."""
        return self._kernel(what, wrt, backend).source()

    def graph(self) -> Graph:
        """Return the frozen graph of the latest program."""
        return self._traced().graph

    def formula(self, wrt: Any = None, order: int = 1, notation: str = "auto", *, output: int | None = None) -> Derivation:
        """Return the closed form of the latest program and of its derivatives, as `derive` does; `output` selects one of several
        results."""
        from symgrad.compiler.symbolic.derivation import Derivation
        from symgrad.compiler.symbolic.derive import DerivationRequest, derived

        program = self._traced()
        chosen = _inputs_with_grads(program) if wrt is None else ()
        if order and not chosen:
            program, chosen = self._differentiated(program, "formula", wrt)
        graph = one_result(program, output)
        lowered, found = derived(graph, chosen, DerivationRequest(wrt, order, notation, self.options.without), _path(program))
        name = self._name if self._name.isidentifier() else "f"
        return Derivation(name, lowered, found, chosen, isinstance(wrt, (str, int)), self._values(program), program.path.expected)

    def hlo(self, what: str = "forward", wrt: Any = None, *, optimized: bool = True) -> str:
        """Return the HLO text of a kernel: optimized, as it runs, or with `optimized=False` the StableHLO that it is compiled from."""
        made: Any = self._kernel(what, wrt)
        kernel: Any = getattr(made, "chosen", made)  # for "auto", the kernel of the selected back end
        if not hasattr(kernel, "compiled"):
            title = BACKENDS[made.choice.backend if kernel is not made else self.options.backend].title
            raise TraceError(f"{self._name} is run by {title} (backend={self.options.backend!r}), so there is no HLO: see source()")
        return str(kernel.compiled.as_text() if optimized else kernel.stablehlo())

    def cost(self, what: str = "forward", wrt: Any = None) -> Cost:
        """Return the FLOPs, bytes accessed and memory of a kernel, as XLA counts them."""
        return cost_of(self._kernel(what, wrt))

    def explain(self, what: str = "forward", wrt: Any = None) -> Explanation:
        """Return a page about the latest program, or about one of its derivatives, for a terminal or a notebook."""
        from symgrad.compiler.function.inspect.explain import explain

        return explain(self, self._traced(), self._kernel(what, wrt), what, wrt)

    def _traced(self) -> Program:
        if self._latest is None:
            raise TraceError(
                f"{self._name} has no program yet: call it once, programs are made for the types of the arguments; a function that is never"
                " compiled, since it leaves tensors behind, has none"
            )
        return self._latest

    def _kernel(self, what: str, wrt: Any, backend: str | None = None) -> Kernel:
        program = self._traced()
        if what == "forward":
            return program.kernel(backend=backend)
        if program.runner is not None:
            raise TraceError(f'{self._name} has effects: its kernel is the whole step ("forward"), of which there is no {what!r}')
        program, chosen = self._differentiated(program, what, wrt)
        if program.checks_path:
            raise TraceError(f"{self._name} takes other paths for other values: call {what}(...) with arguments first, to say which")
        return program.kernel(what, program.wrt if wrt is None else chosen, backend)

    def _differentiated(
        self, program: Program, what: str, wrt: Any
    ) -> tuple[Program, tuple[int, ...]]:
        """Return the program and the inputs in `wrt`; traced again, for the same arguments or types, unless these inputs required grad."""
        if program.runner is not None:
            return program, self._chosen(program, wrt)

        def make(call: Call) -> Program:
            return (
                program if call.mode_override == program.call.mode_override and program.has_all_derivatives
                else self._retraced(program, call, what)
            )

        choose = lambda made: self._choice_of(made, wrt)
        places = self.signature.named_arguments(program.call)
        found, choice = trace_for_derivatives(program.call, wrt, places, make, choose)
        return found, choice.inputs

    def _retraced(self, program: Program, call: Call, what: str) -> Program:
        """Trace a program's function again: with the example arguments of the last trace if they still exist, or else with their types."""
        given = program.example_arguments()
        how: dict[str, Any] = {} if given is None else {"allow_branches": True, "inline_scalars": False}
        known = self.signature.names(), tensor_names(self.signature.function)
        leaves = call.leaves if given is None else given
        try:
            traced = trace(
                self.signature.caller(call), leaves, call.labels, *known, **how, requires_grad=call.requires_grad,
                captured_with_grad=call.captured_with_grad
            )
        except TraceError as error:
            if given is not None:
                raise
            raise TraceError(f"{error}. Its arguments are gone: call {what}(...) with arguments first, to say which path") from error
        return Program(traced, call, self._name, self.options, derives=True)

    def _choice_of(self, program: Program, wrt: Any) -> WrtSelection:
        inputs = [Spec(x.shape, x.dtype) for x in program.graph.inputs]
        return select_wrt(wrt, self.signature.named_arguments(program.call), program.graph.labels, inputs, len(program.call.leaves))

    def _chosen(self, program: Program, wrt: Any) -> tuple[int, ...]:
        return self._choice_of(program, wrt).inputs

    def _values(self, program: Program) -> Any:
        from symgrad.compiler.symbolic.derive import CallSource

        if program.runner is None and not program.checks_path:
            return CallSource(
                self.signature, replace(program.call, effects=False, mode_override=None, captured_with_grad=()), program.captured
            )
        return _NotRunnable(program.graph.labels, len(program.call.leaves))


class _NotRunnable:
    """Stands in for the arguments of a formula that cannot be run, because its program has effects."""

    captured: tuple[Any, ...] = ()
    constants: tuple[int, ...] = ()

    def __init__(self, labels: tuple[str, ...], arguments: int) -> None:
        self.labels, self.arguments = labels, arguments

    def _refuse(self, *args: Any) -> Any:
        raise FormulaError("the formula of a step with effects is there to be read: it cannot be run without them")

    arrays = given = run = _refuse


def one_result(program: Program, output: int | None) -> Graph:
    graph = program.graph
    results = graph.outputs[: program.count]
    if output is None and len(results) != 1:
        raise FormulaError(f"a formula is of one result, and there are {len(results)}: say which, formula(output=0)")
    if not -len(results) <= (output or 0) < len(results):
        raise FormulaError(f"output={output}: there are {len(results)} results")
    return Graph(graph.inputs, (results[output or 0],), graph.labels)


def _inputs_with_grads(program: Program) -> tuple[int, ...]:
    """Return the inputs that get gradients from a step: by default its formula is differentiated with respect to these."""
    return tuple(i for i, slope in program.effects.grads if slope is not None) if program.effects is not None else ()


def _path(program: Program) -> PathConditions:
    return PathConditions(list(program.condition_values), list(program.path.expected))
