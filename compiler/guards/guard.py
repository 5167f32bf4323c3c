"""The guards of a program: conditions besides the types of its arguments, and an explanation of the one that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.autograd.hooks import registered
from symgrad.compiler.guards.conditions import ArgumentValues, MetadataCondition
from symgrad.compiler.guards.names import NameGuard
from symgrad.compiler.trace.trace import Trace
from symgrad.device_tensor import storage_of
from symgrad.mode import guard_epoch
from symgrad.ops.symbolic_scalar import ScalarCondition
from symgrad.tensor import Tensor

Guard = tuple[Callable[[], Any], Any]


class Guards:
    """All guards of one program: modules, captured tensors, names, other state, and conditions on Python scalars among the arguments."""

    __slots__ = (
        "any", "captured", "captured_labels", "checked_epoch", "checks", "hooks", "labels", "modules", "name_guards", "other_guards",
        "requires_grad", "scalar_conditions",
    )  # fmt: skip

    def __init__(self, traced: Trace) -> None:
        self.modules = list(traced.capture.modules.values())
        self.hooks = traced.capture.differentiated
        """True if the function computed gradients, which calls the hooks of captured tensors: these are then guarded too."""
        before = traced.capture.initial_histories
        known = {id(t): t for t in (*traced.captured, *traced.capture.named_tensors())}
        self.captured = [(t, self._type_of(t, before[id(t)][1] if id(t) in before else t._requires_grad)) for t in known.values()]
        """The tensors that the function captures or names, each with its shape, dtype, `requires_grad` and hooks before the call."""
        self.requires_grad = any(requires_grad for _, (_, _, requires_grad, _) in self.captured[: len(traced.captured)])
        self.checked_epoch = -1
        """The guard epoch at the last check of modules and captured tensors."""
        self.scalar_conditions: tuple[ScalarCondition | MetadataCondition, ...] = tuple(traced.path.scalar_conditions)
        self.checks: list[Guard] = traced.capture.guards
        self.name_guards = [(name.read, name.value, name) for name, _ in self.checks if isinstance(name, NameGuard)]
        """(read, value, guard) of each name guard: nearly always `read()` is still `value`, and the guard need not be called."""
        self.other_guards = [dependency for dependency in self.checks if not isinstance(dependency[0], NameGuard)]
        self.labels = traced.graph.labels
        labels = {id(t): label for t, label in zip(traced.capture.input_tensors, traced.capture.labels, strict=True)}
        self.captured_labels = [labels.get(id(t), "a tensor") for t, _ in self.captured]
        self.any = bool(self.modules or self.captured or self.scalar_conditions or self.checks)

    def check(self, leaves: Sequence[Any] = ()) -> bool:
        """True if all guards hold for a call with these leaves."""
        if self.checked_epoch != guard_epoch.count:
            now = guard_epoch.count
            if self._changed() is not None:
                return False
            self.checked_epoch = now
        try:
            for read, value, name in self.name_guards:
                if read() is not value and not name():
                    return False
        except ValueError:  # a closure cell is empty
            return False
        for read, value in self.other_guards:
            if read() != value:
                return False
        if not self.scalar_conditions:
            return True
        arguments = ArgumentValues(leaves)
        return all(c.holds(arguments) for c in self.scalar_conditions)

    def explain_failure(self, leaves: Sequence[Any] = ()) -> str | None:
        """A description of the first guard that fails, such as `training: True -> False`; None if all hold."""
        changed = self._changed()
        if changed is not None:
            return changed
        for read, value in self.checks:
            now = read()
            if now != value:
                describe = getattr(read, "describe", None)
                return f"{getattr(read, '__name__', 'state')}: {value} -> {now}" if describe is None else str(describe(value, now))
        arguments = ArgumentValues(leaves)
        for c in self.scalar_conditions:
            if not c.holds(arguments):
                return f"argument {c.text(lambda v: self.labels[v.attrs['index']])}: {c.expected} -> {c.evaluate(arguments)}"
        return None

    def _changed(self) -> str | None:
        for module_guard in self.modules:
            failed = module_guard.explain_failure()
            if failed is not None:
                return failed
        for (t, before), label in zip(self.captured, self.captured_labels, strict=True):
            now = self._type_of(t, t._requires_grad)
            if now != before:
                change = "other hooks" if now[:3] == before[:3] else f"{_words(before)} -> {_words(now)}"
                return f"{label}, which the function captures: {change}"
        return None

    def _type_of(self, t: Tensor, requires_grad: bool) -> tuple[Any, ...]:
        storage = storage_of(t)
        return tuple(storage.shape), storage.dtype, requires_grad, registered(t) if self.hooks else ()


def _words(kind: tuple[Any, ...]) -> str:
    shape, dtype, requires_grad, _ = kind
    return f"{dtype}{list(shape)}{' that requires grad' if requires_grad else ''}"
