"""Sparse derivatives of compiled functions: the positions of the nonzeros are found once, and one kernel computes the values.

The positions depend on the program alone, unless it reads index tensors: then also on the numbers in these, and there is one plan for each
of their contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.algebra.band import Constants
from symgrad.compiler.algebra.listed_rows import PlaceReader
from symgrad.compiler.algebra.sparse_values import SparseBlock, first_derivative, second_derivatives, sparse_block
from symgrad.compiler.autodiff.jacobian import require_real
from symgrad.compiler.backends.base import Kernel, make_kernel
from symgrad.compiler.function.sparse_matrices import MATRICES
from symgrad.compiler.inputs.sources import ensure_on_device, launch
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.nan_origin import active_nan_watch, check_nans
from symgrad.compiler.rewrite.pipeline import DERIVED
from symgrad.compiler.runtime.executables import LaunchTarget, Unflatten, make_target
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import at_lines
from symgrad.errors import TraceError
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array

if TYPE_CHECKING:
    from symgrad.compiler.function.points import DerivativePoint

_MAX_PLANS = 16


def form_of(sparse: object) -> str:
    """Return the matrix format that `sparse=` asks for; raise ValueError for others."""
    if sparse is True:
        return "csr"
    if isinstance(sparse, str) and sparse in MATRICES:
        return sparse
    close = get_close_matches(sparse, MATRICES, 1) if isinstance(sparse, str) else []
    hint = f"did you mean {close[0]!r}? It" if close else "it"
    raise ValueError(f"sparse={sparse!r}: {hint} is True, {', '.join(map(repr, MATRICES))}, or False for a dense derivative")


def find_plan(point: DerivativePoint, what: str) -> Plan:
    """Return the plan of a derivative for the index tensors at a point; make it if there is none."""
    program = point.program
    if not isinstance(program, Program):
        raise TraceError("this call cannot be compiled and runs eagerly; only compiled functions have sparse derivatives")
    plans: list[Plan] = program.sparse_plans.setdefault((what, point.chosen), [])
    for plan in plans:
        if plan.fits(point.inputs):
            return plan
    with compiling(f"{program.name}, sparse {what}", program.options.verbose):
        plan = Plan(point, what)
    plans.insert(0, plan)
    del plans[_MAX_PLANS:]
    return plan


class Plan:
    """The positions of the nonzeros of a derivative, and the kernel that computes their values."""

    def __init__(self, point: DerivativePoint, what: str) -> None:
        program = point.program
        graph: Graph = program.graph
        constants = Constants(len(graph.inputs))
        used: set[int] = set()
        with stage("sparsity", program.times), at_lines(program.lines):
            self.blocks = _blocks(graph, what, point, constants, used)
        self._contents = [(i, _contents(point.inputs[i])) for i in sorted(used)]
        self._program = program
        self._made: dict[str, list[Callable[[Any], Any]]] = {}
        self._constants = [wrap(a) for a in constants.arrays]
        self._graph = _graph_of_values(graph, self.blocks, constants)
        self._kernel: Kernel | None = None

    def fits(self, inputs: Sequence[Tensor]) -> bool:
        """True if the index tensors among the inputs have the contents that the plan was made for."""
        return all(_contents(inputs[i]) == known for i, known in self._contents)

    def matrices(self, point: DerivativePoint, form: str) -> list[Any]:
        """Return the blocks of the derivative at a point as sparse matrices, in the order of the dense ones."""
        return [assemble(vector) for assemble, vector in zip(self.assemblies(form), self.compute(point), strict=True)]

    def target(self, form: str, arrange: Unflatten) -> LaunchTarget | None:
        """Return the launch target of calls like the one that the plan was made for; None if they take the slow path."""
        program = self._program
        if self._contents or not self._graph.outputs or program.path.expected:
            return None
        target = make_target(self.kernel, program, None, "numpy")
        if target is None:
            return None
        assemblies, computed = self.assemblies(form), [block.value is not None for block in self.blocks]

        def assemble(found: Any) -> Any:
            vectors = iter((found,) if target.single else found)
            if form == "bcoo" and target.on_device:
                (found if target.single else found[0]).block_until_ready()  # the results of one run are ready together
            return arrange([make(next(vectors) if some else None) for make, some in zip(assemblies, computed, strict=True)])

        target.as_arrays = assemble  # it reads or awaits the results, so the kernel has read its operands when it returns
        target.captured = (*program.captured, *self._constants)
        target.types = target.types[: len(target.types) - len(self._constants)]
        return target

    def compute(self, point: DerivativePoint) -> list[Any]:
        """Return the values of the nonzeros of each block, where the kernel computes them; None for a block of numbers."""
        if not self._graph.outputs:
            return [None for _ in self.blocks]
        program, kernel = self._program, self.kernel
        for t in (*program.captured, *self._constants):
            ensure_on_device(t, kernel)
        tensors = [*point.inputs, *self._constants]
        if (watch := active_nan_watch()) is not None:
            check_nans(watch, kernel.graph, [t._storage for t in tensors], program.lines, f"{program.name}, {kernel.name}")
        found = iter(launch(kernel, tensors)[1])
        return [None if block.value is None else next(found) for block in self.blocks]

    @property
    def kernel(self) -> Kernel:
        """The kernel that computes the values; its outputs are the vectors of the blocks that are not constant."""
        if self._kernel is None:
            program, count = self._program, len(self._program.graph.inputs)
            options = program.options
            with at_lines(program.lines):
                graph = DERIVED.run(self._graph, options.without)
            resident = range(count - len(program.captured), count + len(self._constants))
            self._kernel = make_kernel(graph, "sparse", options=options, resident_inputs=resident)
        return self._kernel

    def assemblies(self, form: str) -> list[Callable[[Any], Any]]:
        """Return the functions that make matrices from the values of the blocks."""
        if form not in self._made:
            self._made[form] = [MATRICES[form](block) for block in self.blocks]
        return self._made[form]


def _blocks(graph: Graph, what: str, point: DerivativePoint, constants: Constants, used: set[int]) -> list[SparseBlock]:
    chosen = [graph.inputs[i] for i in point.chosen]
    require_real("a Jacobian" if what == "jacobian" else "a Hessian", (*graph.outputs, *chosen))
    if what == "jacobian":
        parts = [first_derivative(graph, y, x) for y in graph.outputs for x in chosen]
    else:
        parts = [part for y in graph.outputs for part in second_derivatives(graph, y, chosen)]
    arrays: list[Array] = []

    def read() -> list[Array]:
        if not arrays:
            arrays.extend(np.asarray(t._storage) for t in point.inputs)
        return arrays

    found = []
    for part in parts:
        places = PlaceReader(graph.inputs, read, part.x)
        found.append(sparse_block(part, constants, places))
        used |= places.used
    return found


def _graph_of_values(graph: Graph, blocks: Sequence[SparseBlock], constants: Constants) -> Graph:
    count = len(graph.inputs)
    places = [input_value(count + k, a.shape, a.dtype) for k, a in enumerate(constants.arrays)]
    labels = (*graph.labels, *(f"places{k}" for k in range(len(places))))
    return Graph((*graph.inputs, *places), [block.value for block in blocks if block.value is not None], labels)


def _contents(t: Tensor) -> bytes:
    return np.asarray(t._storage).tobytes()
