"""Record the guards of a program while its function is traced: names, modules, optimizers and scalars that must stay as they are, and
changes of Python state that no program repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.array_uses import Site
from symgrad.compiler.guards.compare import StateGuard
from symgrad.compiler.guards.containers import ArrayGuard, LargeContainerGuard
from symgrad.compiler.guards.grad_presence import GradPresenceGuard
from symgrad.compiler.guards.module import ModuleGuard
from symgrad.compiler.inputs.sources import ScalarInput
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.trace.values import TracedValues
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError
from symgrad.escapes import PythonAction
from symgrad.tensor import Tensor, wrap
from symgrad.tracer import ObjectGuard


class GuardRecorder(TracedValues):
    """The events of a tracer that concern Python state: guards, external scalars, and changes that a program does not repeat."""

    def add_guard(self, read: Callable[[], object]) -> None:
        """Guard the value of `read()`: the program is valid as long as it stays what it is now."""
        self.guards.append((read, read()))

    def guard_module(self, module: object, make_guard: Callable[[Any], ObjectGuard] | None = None) -> None:
        """Guard a module that is called, or an optimizer that steps: the program is valid as long as its parts stay the same."""
        if id(module) not in self.modules:
            self.modules[id(module)] = (make_guard or ModuleGuard)(module)

    def record_undo(self, action: Callable[[], None]) -> None:
        """Journal `action`, which undoes a change of Python state if the call fails."""
        self.journal.record_undo(action)

    def refuse_replay(self, action: PythonAction, owner: str = "") -> None:
        """Note that the function does something that only Python can do, such as a step of a learning-rate schedule: this call stands, and
        later ones run eagerly too. Without effects, raise TraceError."""
        how = action.text(owner)
        if not self.effects:
            raise TraceError(f"{user_line()}: {how} changes Python's objects inside a traced function; call it outside")
        self.replay_refusal = (
            self.replay_refusal or f"{how} at {user_line()} is done by Python, and no program does it again; call it after the function"
        )

    def scalar_input(self, key: tuple[int, str], read: Callable[[], float]) -> Any:
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

    # after the trace

    def finalize(self, names: Sequence[StateGuard]) -> None:
        """Complete the guards after the trace: names that the function reads are guarded, unless the function itself changed them."""
        for name in names:
            if name.module_guard is not None:
                self.modules.setdefault(id(name.value), name.module_guard)
                for module in name.value.modules():  # code may read the parameters of a module that it does not call
                    self.guard_module(module)
        for module_guard in self.modules.values():
            module_guard.finalize()
        self._refuse_changed_scalars()
        self._guard_grad_presence()
        self.closed_over = [name.value for name in names if isinstance(name.value, Tensor)]
        self._guard_names(names)

    def named_tensors(self) -> list[Tensor]:
        """The tensors that guarded names, containers, modules and optimizers hold, and that are no arguments: the code may read their types
        although it computes nothing with them."""
        held = [x for guard, _ in self.guards if isinstance(guard, StateGuard) for x in guard.current_values()]
        held += [t for guard in self.modules.values() for t in guard.tensors()]
        arguments = self._argument_ids()
        return [x for x in held if isinstance(x, Tensor) and id(x) not in arguments]

    def _argument_ids(self) -> set[int]:
        return set(map(id, self.input_tensors[: self.arguments]))

    def _refuse_changed_scalars(self) -> None:
        """Refuse a replay if the function itself changed a number that is an input of the program."""
        for key, (read, before) in self.scalar_readers.items():
            if read() != before:
                changed = f"the function itself changes {key[-1]} of an optimizer, and no program does that again; change it between calls"
                self.replay_refusal = self.replay_refusal or changed

    def _guard_grad_presence(self) -> None:
        """Guard whether captured tensors have a gradient, if the function read it and left it as it was."""
        arguments = self._argument_ids()
        for t, had in self.grad_reads.values():
            if t._grad is self.initial_grads.get(id(t), t._grad) and id(t) not in arguments:
                self.guards.append((GradPresenceGuard(t, self.names.get(id(t)), not self.effects), had))

    def _guard_names(self, names: Sequence[StateGuard]) -> None:
        """Guard the names that the function left as they were; note those that it changed."""
        arguments, inputs = self._argument_ids(), [storage_of(t) for t in self.input_tensors]
        for name in names:
            if isinstance(name, ArrayGuard) and self._is_input_only(name, inputs):
                continue  # every run reads it
            if name():
                self.guards += [(name, True)] * name.guarded
                self.mutated_state += [name] * isinstance(name, LargeContainerGuard)
            elif any(id(x) in arguments for x in name.current_values()):
                self.stores_argument = True
            else:
                self.mutated_state.append(name)

    def _is_input_only(self, array: ArrayGuard, inputs: Sequence[Any]) -> bool:
        """True for an array that is among the `inputs` of the program, if the code uses it as an operand only. For one of the arrays in a
        container, the operands are those of all arrays."""
        if not any(x is array.value or getattr(x, "base", None) is array.value for x in inputs):
            return False
        every: set[Site] = set().union(*self.operand_sites.values())
        return array.needs_no_guard(every if "[" in array.title else self.operand_sites.get(id(array.value), set()))

    def warn_of_changes(self) -> None:
        """Warn about changes of Python state that the function made and a program does not repeat."""
        for name in self.mutated_state:
            name.warn()
