"""What a program depends on besides its inputs: names, modules and optimizers are as they were, and nothing was done once and for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.state import ArrayGuard, GradPresenceGuard, ModuleGuard, StateGuard
from symgrad.compiler.inputs.sources import ScalarInput
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.tensor import Tensor, wrap


class GuardRecorder:
    """What a capture is told of Python's objects."""

    effects: bool
    arguments: int
    names: Mapping[int, str]
    input_tensors: list[Tensor]
    sources: list[Any]
    initial_grads: dict[int, Any]
    grad_reads: dict[int, tuple[Tensor, bool]]

    def __init__(self) -> None:
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        """What is read again before each run, and what it must give."""
        self.modules: dict[int, ModuleGuard] = {}
        """The modules that were called, and optimizers that made steps, as they were then."""
        self.closed_over: list[Tensor] = []
        """Tensors that the function reads by names of its own."""
        self.scalars: dict[Any, Tensor] = {}
        self.scalar_readers: dict[Any, tuple[Callable[[], float], float]] = {}
        self.fixed: set[Any] = set()
        self.mutated_state: list[StateGuard] = []
        """State of Python's that the function has changed itself, which a program would not do."""
        self.stores_argument = False
        """Whether the function has put an argument somewhere, which a program would not do."""
        self.replay_refusal: str | None = None
        """What the function did that no program does again."""

    def add_input(self, t: Tensor, title: str, own: bool = False) -> Value:
        raise NotImplementedError

    def add_guard(self, read: Callable[[], Any]) -> None:
        """The program holds as long as this has the value that it has now."""
        self.guards.append((read, read()))

    def guard_module(self, module: Any, make_guard: Callable[[Any], Any] = ModuleGuard) -> None:
        """A module is called, or an optimizer steps: the program holds as long as it consists of what it consists of now."""
        if id(module) not in self.modules:
            self.modules[id(module)] = make_guard(module)

    def refuse_replay(self, how: str) -> None:
        """Something that only Python does, such as a schedule that goes on: the call counts, later ones run as they are written, too."""
        if not self.effects:
            raise TraceError(f"{user_line()}: {how} changes Python's objects inside a traced function; call it outside")
        self.replay_refusal = (
            self.replay_refusal or f"{how} at {user_line()} is done by Python, and no program does it again; call it after the function"
        )

    def finalize(self, names: Sequence[StateGuard]) -> None:
        """After the trace: names that the function reads are dependencies, unless it has changed them itself."""
        for name in names:
            if name.module_guard is not None:
                self.modules.setdefault(id(name.value), name.module_guard)
        for module_guard in self.modules.values():
            module_guard.finalize()
        for key, (read, before) in self.scalar_readers.items():
            if read() != before:
                changed = f"the function itself changes {key[-1]} of an optimizer, and no program does that again; change it between calls"
                self.replay_refusal = self.replay_refusal or changed
        arguments = set(map(id, self.input_tensors[: self.arguments]))
        unchanged = [
            (t, had) for t, had in self.grad_reads.values() if t._grad is self.initial_grads.get(id(t), t._grad) and id(t) not in arguments
        ]
        self.guards += [(GradPresenceGuard(t, self.names.get(id(t)), not self.effects), had) for t, had in unchanged]
        self.closed_over = [name.value for name in names if isinstance(name.value, Tensor)]
        inputs = [storage_of(t) for t in self.input_tensors]
        for name in names:
            if isinstance(name, ArrayGuard) and any(x is name.value or getattr(x, "base", None) is name.value for x in inputs):
                continue  # read at every run
            if name():
                self.guards += [(name, True)] * name.guarded
            elif any(id(x) in arguments for x in name.current_values()):
                self.stores_argument = True
            else:
                self.mutated_state.append(name)

    def warn_of_changes(self) -> None:
        """Warn of changes that a program does not make again."""
        for name in self.mutated_state:
            name.warn()

    def scalar_input(self, key: Any, read: Callable[[], float]) -> Any:
        """A number that may change between runs, such as a learning rate: an input, which is read at every run. Of a program that is there
        for its derivatives only tensors are inputs: there it is held fixed."""
        if not self.effects:
            if key not in self.fixed:
                self.fixed.add(key)
                self.add_guard(read)
            return read()
        if key not in self.scalars:
            self.scalar_readers[key] = read, read()
            t = self.scalars[key] = wrap(np.asarray(read(), np.float64))
            self.add_input(t, {"lr": "rate"}.get(key[-1], key[-1]))
            self.sources.append(ScalarInput(read))
        return self.scalars[key]
