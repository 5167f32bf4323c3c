"""The passes from a trace to a formula or a kernel, in order.

    trace -> TRACED (or UNROLLED) -> differentiate -> DERIVED -> formula: FORMULA -> SymPy
                                                              -> XLA: XLA         -> emit
                                                              -> NumPy: NUMPY     -> emit

A `Stage` is an ordered tuple of named passes. `stage.run(graph, off)` verifies what each pass returns; an illegal graph is an error that
names the pass. `PIPELINES` has the stages of each target by name; a back end from outside adds its own with `register`.
`print(PIPELINES["xla"])` shows all passes and rules.

A pass is given as a function or, because this module is below loops, algebra and back ends, as "module:function", which is imported when
the pass first runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.rewrite.assumptions import assumed_elements, assumed_values, drop_assumptions
from symgrad.compiler.rewrite.decompose import decompose, decompose_without_lowering
from symgrad.compiler.rewrite.domain import within_domain
from symgrad.compiler.rewrite.kernel import drop_stop_gradients, matvec_without_transpose
from symgrad.compiler.rewrite.legalize_dtypes import legalize_dtypes
from symgrad.compiler.rewrite.legalize_empty import legalize_small_reductions
from symgrad.compiler.rewrite.masks import finite_behind_masks
from symgrad.compiler.rewrite.round_constants import fold_constants
from symgrad.compiler.rewrite.short import choices, short
from symgrad.compiler.rewrite.stable import WITHOUT_NAME, accurate, stabilise
from symgrad.compiler.rewrite.table import Hits, Table
from symgrad.compiler.rewrite.upcast_half import widen_half
from symgrad.errors import GraphError

Off = Collection[str]
"""Names of rules, tables and passes that are switched off."""


@dataclass(frozen=True)
class PassRun:
    """One run of a pass: whether it changed the graph, how often each rule of a table was applied or each change was made, or that it was
    switched off."""

    stage: str
    name: str
    changed: bool = False
    hits: tuple[tuple[str, int], ...] = ()
    off: bool = False


@dataclass(frozen=True, eq=False)
class Pass:
    """A function from graph to graph, or a table of rules, under a name."""

    name: str
    function: Callable[..., Graph] | str
    """The function, or "module:function"."""
    text: str = ""
    """What the pass does, if it can be switched off; then it reports what it did, as tables of rules do."""
    ops: frozenset[str] = frozenset()
    """The pass changes only graphs that have one of these rows; empty if it may change others."""

    @cached_property
    def _loaded(self) -> Callable[..., Graph]:
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        loaded: Callable[..., Graph] = getattr(import_module(module), name)
        return loaded

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of a table; empty for other passes."""
        return self.function.rules if isinstance(self.function, Table) else ()

    def run(self, graph: Graph, off: Off, hits: Hits) -> Graph:
        """Return the changed graph, or the graph itself."""
        if self.ops and self.ops.isdisjoint(graph.ops):
            return graph
        return self._loaded(graph, off, hits) if isinstance(self.function, Table) or self.text else self._loaded(graph)

    def __str__(self) -> str:
        title = f"{self.name}: {self.text}" if self.text else self.name
        return "\n".join([title, *(f"    {rule.name}: {rule}" for rule in self.rules)])


@dataclass(frozen=True, eq=False)
class Stage:
    """Passes that run one after the other."""

    name: str
    passes: tuple[Pass, ...] = ()
    off: tuple[str, ...] = ()
    """Rules of the passes that this stage leaves out."""

    def run(self, graph: Graph, off: Off = ()) -> Graph:
        """Return the verified graph after all passes but those in `off`. Raise GraphError that names the pass if one returns an illegal
        graph. `history(result)` tells what the passes did."""
        given, runs, off = graph, list(history(graph)), (*off, *self.off)
        for each in self.passes:
            if each.name in off:
                runs.append(PassRun(self.name, each.name, off=True))
                continue
            if each.ops and each.ops.isdisjoint(graph.ops):
                runs.append(PassRun(self.name, each.name))
                continue
            hits: Hits = {}
            found = each.run(graph, off, hits)
            runs.append(PassRun(self.name, each.name, found is not graph and found != graph, tuple(hits.items())))
            graph = graph if found is graph else _verified(found, graph, f"pass {each.name!r} ({self.name})")
        if graph is given:
            verify(graph)
        return _with_history(graph, tuple(runs)) if self.passes else graph

    def __str__(self) -> str:
        lines = [line for each in self.passes for line in str(each).splitlines()]
        return "\n".join([f"{self.name}:", *(f"    {line}" for line in lines)])


def _verified(graph: Graph, given: Graph, maker: str) -> Graph:
    """Return the graph, or raise GraphError that names its maker, unless that was given an illegal graph already."""
    try:
        return verify(graph)
    except GraphError as error:
        verify(given)
        raise GraphError(f"{maker} made an illegal graph: {error}") from error


def _with_history(graph: Graph, runs: tuple[PassRun, ...]) -> Graph:
    """Return a copy of the graph that remembers its passes: the same graph may go through several pipelines."""
    copy = Graph.__new__(Graph)
    copy.__dict__.update(graph.__dict__, passes=runs)
    return copy


def history(graph: Graph) -> tuple[PassRun, ...]:
    """Return what the passes that made a graph did, in order."""
    found: tuple[PassRun, ...] = graph.__dict__.get("passes", ())
    return found


STABLE = Pass("stable", stabilise)
ACCURATE = Pass("accurate", accurate)
MASKS = Pass("masks", finite_behind_masks)
_ASSUME = frozenset(("assume",))
ASSUMED_ELEMENTS = Pass("assumed_elements", assumed_elements, ops=_ASSUME)
ASSUMED_VALUES = Pass("assumed_values", assumed_values, ops=_ASSUME)
DROP_ASSUMPTIONS = Pass("drop_assumptions", drop_assumptions, ops=_ASSUME)
SPECTRAL = Pass(
    "spectral", "symgrad.compiler.autodiff.spectral:spectral",
    "V diag(h) V' of eigh and U diag(h) V' of svd have a derivative at equal values",
    frozenset(("eigh", "svd")),
)  # fmt: skip
STOP_GRADIENTS = Pass("stop_gradients", drop_stop_gradients)
DECOMPOSE = Pass("decompose", decompose)
HOIST = Pass("hoist", "symgrad.compiler.loops.hoist:hoist", "what all steps of a loop compute alike is computed once")
MERGE_LOOPS = Pass("merge_loops", "symgrad.compiler.loops.simplify:merge_loops")
ONE_HOT = Pass(
    "one_hot", "symgrad.compiler.algebra.one_hot:one_hot", "products with one-hot matrices read and add rows: one_hot(i, n) W -> W[i]",
    frozenset(("one_hot",)),
)  # fmt: skip
CONTRACT = Pass("contract", "symgrad.compiler.algebra.contract:contract", "contractions in the order of least cost: (A B) x -> A (B x)")
SOLVE = Pass(
    "solve", "symgrad.compiler.algebra.solve:solve", "inv(A) b -> solve(A, b), and one decomposition for each matrix",
    frozenset(("inv", "solve", "det", "slogdet")),
)  # fmt: skip
SOLVE_STRUCTURED = Pass(
    "solve_structured", "symgrad.compiler.algebra.solve:solve_structured", "systems of triangular and definite matrices as such", _ASSUME
)
OF_ASSUMPTIONS = frozenset((ASSUMED_ELEMENTS.name, ASSUMED_VALUES.name, DROP_ASSUMPTIONS.name, SOLVE_STRUCTURED.name))
"""The names of the passes that change only graphs with an `assume`."""
FOLD_CONSTANTS = Pass("fold_constants", fold_constants)

TRACED = Stage("trace", (STABLE, ASSUMED_ELEMENTS, MASKS, SPECTRAL, HOIST))
"""The program of a compiled function, before derivatives are taken."""
TRACED_STEP = Stage("trace", (STABLE, ASSUMED_ELEMENTS, MASKS, SPECTRAL, HOIST, STOP_GRADIENTS))
"""The same for a program that differentiates itself and leaves no history, such as a training step."""
UNROLLED = Stage(
    "trace", (Pass("unroll", "symgrad.compiler.loops.unroll:unroll"), STABLE, ASSUMED_ELEMENTS, MASKS), WITHOUT_NAME
)
"""The program of a formula, before derivatives are taken. It keeps log(1 + x²) and other forms whose stable function has no name in
mathematics."""
DERIVED = Stage("derivative", (STABLE, MASKS))
"""Derivatives of a program: `vjp`, `grad`, `jacobian` and others."""
DERIVED_FORMULA = Stage("derivative", (STABLE, MASKS), WITHOUT_NAME)
"""Derivatives of the program of a formula."""
FORMULA = Stage(
    "formula",
    (Pass("short", short), Pass("choices", choices), ACCURATE, ASSUMED_ELEMENTS, ASSUMED_VALUES, CONTRACT, Pass("domain", within_domain),
     DROP_ASSUMPTIONS, DECOMPOSE),
    ("sign_of_definite",),
)  # fmt: skip
"""A formula shows log det A in place of the logarithm of |det A|, also if A is positive definite."""
XLA = Stage("xla", (
    ACCURATE,
    STOP_GRADIENTS,
    MERGE_LOOPS,
    ASSUMED_ELEMENTS,
    ASSUMED_VALUES,
    ONE_HOT,
    CONTRACT,
    SOLVE,
    DROP_ASSUMPTIONS,
    Pass("widen_half", widen_half),
    Pass("legalize_small_reductions", legalize_small_reductions),
    Pass("decompose_without_lowering", decompose_without_lowering),
    Pass("matvec", matvec_without_transpose),
    FOLD_CONSTANTS,
    Pass("legalize_dtypes", legalize_dtypes),
    Pass("check_lowering", "symgrad.compiler.backends.xla.function:check_lowering"),
    Pass("roll", "symgrad.compiler.loops.reroll.reroll:roll"),
))  # fmt: skip
NUMPY = Stage("numpy", (
    ACCURATE,
    MERGE_LOOPS,
    ASSUMED_ELEMENTS,
    ASSUMED_VALUES,
    ONE_HOT,
    CONTRACT,
    SOLVE_STRUCTURED,
    DROP_ASSUMPTIONS,
    Pass("legalize", "symgrad.compiler.backends.numpy.legalize:legalize"),
    Pass("drop_kept_dimensions", "symgrad.compiler.backends.numpy.legalize:drop_kept_dimensions"),
    FOLD_CONSTANTS,
))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages from trace to formula or kernel."""

    name: str
    lowered: Stage
    """Passes on the way to the formula or to the kernel's source."""
    traced: Stage = TRACED
    derived: Stage = DERIVED
    """Passes on derivatives, which are skipped for the function itself."""

    def __str__(self) -> str:
        return "\n".join(map(str, (self.traced, self.derived, self.lowered)))


PIPELINES = {
    each.name: each for each in (Pipeline("formula", FORMULA, UNROLLED, DERIVED_FORMULA), Pipeline("xla", XLA), Pipeline("numpy", NUMPY))
}
"""The pipelines by name."""


def register(pipeline: Pipeline) -> None:
    """Add the pipeline of a back end, whose `Backend.pipeline` has its name. Raise ValueError if the name is taken."""
    if pipeline.name in PIPELINES:
        raise ValueError(f"a pipeline {pipeline.name!r} is registered already")
    PIPELINES[pipeline.name] = pipeline


def switches() -> dict[str, str]:
    """Return the names that can be switched off, with what they do: rules, the tables that hold them, and some passes."""
    found: dict[str, str] = {}
    stages: list[Any] = [stage for pipeline in PIPELINES.values() for stage in (pipeline.traced, pipeline.derived, pipeline.lowered)]
    for each in (each for stage in stages for each in stage.passes if each.rules or each.text):
        found[each.name] = each.text or "the rules " + ", ".join(rule.name for rule in each.rules)
        found.update({rule.name: str(rule) for rule in each.rules})
    return found
