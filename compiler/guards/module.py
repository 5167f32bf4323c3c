"""Guard of a module that a traced function calls or reads."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.guards.compare import COMPARED_BY_VALUE, MISSING, MUTATION_WARNING, is_unchanged
from symgrad.compiler.support.source_lines import warn
from symgrad.tensor import Tensor

_GUARDED_GROUPS = ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")


class ModuleGuard:
    """Guard of the parts of a module: its parameters, buffers, submodules and hooks by identity, its plain attributes by value, and its
    `forward`."""

    def __init__(self, module: Any) -> None:
        self.module, self.own = module, module.__dict__
        self.parts = [(group, dict(self.own[group])) for group in _GUARDED_GROUPS if group in self.own]
        self.plain = {name: value for name, value in self.own.items() if type(value) in COMPARED_BY_VALUE}
        self.forward = self._forward()

    def _forward(self) -> tuple[Any, Any]:
        """The functions that a call may run: the `forward` in the module's own attributes, if it was replaced, and that of its class."""
        return self.own.get("forward"), getattr(type(self.module), "forward", None)

    def __call__(self) -> bool:
        return self.explain_failure() is None

    def tensors(self) -> list[Tensor]:
        """The module's own parameters and buffers."""
        return [x for _, parts in self.parts for x in parts.values() if isinstance(x, Tensor)]

    def explain_failure(self) -> str | None:
        """A description of the first part that changed, or None."""
        own, title = self.own, type(self.module).__name__
        for name, value in self.plain.items():
            now = own.get(name, MISSING)
            if now is not value and not is_unchanged(now, value):
                return f"training: {value} -> {now}" if name == "training" else f"{title}.{name}: {value!r} -> {now!r}"
        if self._forward() != self.forward:
            return f"{title}.forward: another function"
        for group, parts in self.parts:
            now = own[group]
            if now.keys() != parts.keys():
                return f"{title}: other {group.strip('_').replace('_', ' ')}"
            for name, part in parts.items():
                if now[name] is not part:
                    return f"{title}.{name}: another {now[name].__class__.__name__}"
        return None

    def describe(self, *_: Any) -> str:
        return str(self.explain_failure())

    def finalize(self) -> None:
        """Drop the guards of attributes that the module's own code changed during the trace, with a warning: a program does not repeat the
        change."""
        for name in [name for name, value in self.plain.items() if not is_unchanged(self.own.get(name, MISSING), value)]:
            del self.plain[name]
            warn(f"{type(self.module).__name__}.{name} {MUTATION_WARNING}; make it a buffer, or leave the function eager")
