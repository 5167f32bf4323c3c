"""Record the guards of a program while its function is traced: names, modules, optimizers and scalars that must stay as they are, and
changes of Python state that no program repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.state import ArrayGuard, GradPresenceGuard, LargeContainerGuard, ModuleGuard, StateGuard
from symgrad.compiler.inputs.sources import ScalarInput
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.tensor import Tensor, wrap


class GuardRecorder:
    """The events of a capture that concern Python state: guards, external scalars, and changes that a program does not repeat."""

    effects: bool
    arguments: int
    names: Mapping[int, str]
    input_tensors: list[Tensor]
    sources: list[Any]
    initial_grads: dict[int, Any]
    grad_reads: dict[int, tuple[Tensor, bool]]

    def __init__(self) -> None:
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        """(read, expected): `read()` is called before each run and must return `expected`."""
        self.modules: dict[int, ModuleGuard] = {}
        """By id, guards of the modules that were called and of the optimizers that stepped."""
        self.closed_over: list[Tensor] = []
        """Tensors that the function reads by name: from its closure, its globals or attributes."""
        self.scalars: dict[Any, Tensor] = {}
        self.scalar_readers: dict[Any, tuple[Callable[[], float], float]] = {}
        self.fixed: set[Any] = set()
        self.mutated_state: list[StateGuard] = []
        """Guards of Python state that the function itself changed: a program does not repeat the change."""
        self.stores_argument = False
        """True if the function stored an argument in Python state: a program does not repeat that."""
        self.replay_refusal: str | None = None
        """Why no program can replay the call: the first thing that the function did and that only Python can do."""

    def add_input(self, t: Tensor, title: str, own: bool = False) -> Value:
        raise NotImplementedError

    def add_guard(self, read: Callable[[], Any]) -> None:
        """Guard the value of `read()`: the program is valid as long as it stays what it is now."""
        self.guards.append((read, read()))

    def guard_module(self, module: Any, make_guard: Callable[[Any], Any] = ModuleGuard) -> None:
        """Guard a module that is called, or an optimizer that steps: the program is valid as long as its parts stay the same."""
        if id(module) not in self.modules:
            self.modules[id(module)] = make_guard(module)

    def refuse_replay(self, how: str) -> None:
        """Note that the function does something that only Python can do (`how`), such as a step of a learning-rate schedule: this call
        stands, and later ones run eagerly too. Without effects, raise TraceError."""
        if not self.effects:
            raise TraceError(f"{user_line()}: {how} changes Python's objects inside a traced function; call it outside")
        self.replay_refusal = (
            self.replay_refusal or f"{how} at {user_line()} is done by Python, and no program does it again; call it after the function"
        )

    def finalize(self, names: Sequence[StateGuard]) -> None:
        """Complete the guards after the trace: names that the function reads are guarded, unless the function itself changed them."""
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
                continue  # an input, which every run reads
            if name():
                self.guards += [(name, True)] * name.guarded
                self.mutated_state += [name] * isinstance(name, LargeContainerGuard)
            elif any(id(x) in arguments for x in name.current_values()):
                self.stores_argument = True
            else:
                self.mutated_state.append(name)

    def warn_of_changes(self) -> None:
        """Warn about changes of Python state that the function made and a program does not repeat."""
        for name in self.mutated_state:
            name.warn()

    def scalar_input(self, key: Any, read: Callable[[], float]) -> Any:
        """The stand-in for a number that may change between runs, such as a learning rate: an input that every run reads. Without effects
        the program is for derivatives and only tensors are inputs: there it is the number itself, with a guard."""
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
