"""The state of a running trace: its options, its inputs, the storages of tensors, and what each group of events notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.compiler.guards.array_uses import Site
from symgrad.compiler.guards.compare import StateGuard
from symgrad.compiler.guards.conditions import PathConditions
from symgrad.compiler.guards.equal_scalars import EqualScalarsGuard
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.trace.detached_histories import DetachedHistories
from symgrad.compiler.trace.journal import Journal
from symgrad.compiler.trace.storage import TracedStorage
from symgrad.compiler.trace.trace_once import Pattern
from symgrad.errors import TraceError
from symgrad.escapes import Metadata
from symgrad.mode import local
from symgrad.ops.generator import Generator, default_generator
from symgrad.tensor import Tensor
from symgrad.tracer import ObjectGuard, Tracer
from symgrad.typing import Array


class TraceState(Tracer):
    """The attributes of a `GraphTracer`: its recorders, one for each group of events, share them."""

    abstract: bool = False
    effects: bool = False

    def __init__(self, abstract: bool, names: Mapping[int, str], allow_branches: bool = False, effects: bool = False) -> None:
        self.abstract = abstract
        self.inline_scalars = allow_branches and not effects
        """True if captured tensors without dimensions become literals with their present value; otherwise they are inputs."""
        self.allow_branches = allow_branches and not abstract
        self.effects = effects and not abstract
        self.was_recording = not self.effects or local.mode.recording
        """Grad mode at the call (always on without effects). If it was off, the results cannot be differentiated, so no value needs a
        stop-gradient."""
        self.names = names
        """Names by tensor id of the parameters, if the function is a module. They are symbols in formulas, even without dimensions."""
        self.tensor_names: Mapping[int, str] = {}
        """Names by tensor id of the other tensors that the function captures."""
        self.journal = Journal()
        self._init_inputs()
        self._init_storages()
        self._init_gradients()
        self._init_random()
        self._init_python()

    def _init_inputs(self) -> None:
        self.arguments = 0
        self.given: Sequence[Any] = ()
        """The arguments of the call, for which the function gets stand-ins."""
        self.duplicate_arguments: set[int] = set()
        """Ids of the stand-ins for arguments that repeat an earlier argument."""
        self.inputs: list[Value] = []
        self.labels: list[str] = []
        self.used_labels: set[str] = set()
        self.unnamed: list[int] = []
        """Positions of the captured inputs that have no name."""
        self.captured: list[Tensor] = []
        self.sources: list[Any] = []
        """Where a run finds each input that is no argument: see `symgrad.compiler.inputs.sources`."""
        self.input_tensors: list[Tensor] = []
        """The tensor behind each input, in order."""

    def _init_storages(self) -> None:
        self.lines: dict[Value, str] = {}
        """The user's source line of each value."""
        self.closed_forms: dict[Value, Value] = {}
        """Closed forms of Taylor coefficients, for those whose recurrence computes nothing else that is used."""
        self.assumed: dict[Value, str] = {}
        """The applications of `assume`, outside of loops and branches, with the lines of the user's code."""
        self.written_inputs: dict[int, tuple[Tensor, TracedStorage]] = {}
        self.known_ids: set[int] = set()
        self.constant_arrays: set[int] = set()
        """Ids of the arrays that the function creates from Python or NumPy values, in a trace without effects."""
        self.storages: dict[int, TracedStorage] = {}
        self.node_values: dict[Any, Value] = {}
        self.detached_histories = DetachedHistories()
        self.keep_alive: list[Any] = []
        self.equal_scalars: dict[Any, EqualScalarsGuard] = {}
        """Groups of tensors that share one input because they hold equal scalars."""
        self.cse_cache: dict[Any, Any] = {}
        self.patterns: dict[Any, Pattern] = {}

    def _init_gradients(self) -> None:
        self.initial_grads: dict[int, Any] = {}
        """The `.grad` of tensors before the call, by tensor id."""
        self.grad_reads: dict[int, tuple[Tensor, bool]] = {}
        """By id, tensors from outside whose `.grad` was read or added to, and whether they had one before the call."""
        self.grad_overwrites: set[int] = set()
        """Ids of tensors whose `.grad` was replaced before it was read."""
        self.backward_ran = False
        self.differentiated = False
        """True if gradients were computed inside the function, which calls the hooks of tensors."""
        self.hooks = False
        """True if the function registered hooks that gradients pass through."""
        self.gradient_refusal: str | None = None
        """Why derivatives of the results would be wrong, or None."""
        self.initial_histories: dict[int, tuple[Any, bool]] = {}
        """By tensor id, the node of each input before the call, and whether it required grad."""
        self.history_changes: Any = None
        """The HistoryChanges of the call: see `symgrad.compiler.trace.histories`."""
        self.input_histories: dict[Any, str] = {}
        """Labels of the inputs that were computed from tensors that require grad, by the keys of their nodes."""

    def _init_random(self) -> None:
        self.drawn = random_state()
        """Use count and state of the default generator at the start of the trace, or after the last recorded draw."""
        self.draws: list[tuple[Array | None, Callable[[], Any]]] = []
        """Recorded draws in order: the array drawn during the trace, and the function that draws it anew. A seek has None for the array."""
        self.generators: dict[int, Generator] = {}
        """The generators that were used, by id."""

    def _init_python(self) -> None:
        self.path = PathConditions()
        self.refused: tuple[str, TraceError] | None = None
        """The source line and the error of the last refused escape."""
        self.metadata_read: set[tuple[int, Metadata]] = set()
        """The arguments, by position, whose metadata are conditions of the program already."""
        self.redacted_lines: set[str] = set()
        """Source lines at which the text of a tensor was asked for: `symgrad.escapes.redacted_text` warns once for each."""
        self.prints: list[tuple[str, list[Any], dict[str, Any]]] = []
        """The arguments of each `debug.print()`, which the program repeats at every run."""
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        """(read, expected): `read()` is called before each run and must return `expected`."""
        self.modules: dict[int, ObjectGuard] = {}
        """By id, guards of the modules that were called and of the optimizers that stepped."""
        self.closed_over: list[Tensor] = []
        """Tensors that the function reads by name: from its closure, its globals or attributes."""
        self.arrays: frozenset[int] = frozenset()
        """Ids of the NumPy arrays that the function reads by name."""
        self.operand_sites: dict[int, set[Site]] = {}
        """By the id of a NumPy array, the expressions of the user's code at which it, or a view of it, became an operand."""
        self.scalars: dict[Any, Tensor] = {}
        self.scalar_readers: dict[tuple[int, str], tuple[Callable[[], float], float]] = {}
        self.fixed: set[Any] = set()
        self.mutated_state: list[StateGuard] = []
        """Guards of Python state that the function itself changed: a program does not repeat the change."""
        self.stores_argument = False
        """True if the function stored an argument in Python state: a program does not repeat that."""
        self.replay_refusal: str | None = None
        """Why no program can replay the call: the first thing that the function did and that only Python can do."""


def random_state() -> tuple[int, bytes]:
    """The use count and the state of the default generator."""
    return default_generator.uses, Generator.get_state(default_generator).tobytes()
