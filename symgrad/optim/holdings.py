"""The contents of an optimizer, and the guard of compiled steps on them: changes bump the guard epoch, as for modules, so that not every
option is checked at every call."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from symgrad.counted import GuardedList, bumps_guard_epoch, record_undo
from symgrad.mode import guard_epoch
from symgrad.tensor import Tensor

_INPUT_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "lr": lambda x: x if isinstance(x, Tensor) else None,
    "momentum": lambda x: x if isinstance(x, Tensor) else x == 0,
    "betas": lambda x: x if any(isinstance(beta, Tensor) for beta in x) else len(x),
}
"""For options that are inputs of a program: the property of the value that the program depends on."""


def _guarded_value(name: str, group: Mapping[str, Any]) -> Any:
    value = group.get(name)
    if name in _INPUT_OPTIONS and value is not None and (name == "lr" or not group.get("differentiable")):
        value = _INPUT_OPTIONS[name](value)
    return tuple(map(_by_identity, value)) if isinstance(value, (tuple, list)) else _by_identity(value)


def _by_identity(x: Any) -> Any:
    """Return a key that compares a tensor by identity, whatever its values are."""
    return (Tensor, id(x)) if isinstance(x, Tensor) else x


@bumps_guard_epoch
class GuardedOptions(dict[str, Any]):
    """A parameter group of an optimizer: parameters and their options. Changes to inputs of the program, as by a schedule, do not bump the
    guard epoch."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in _INPUT_OPTIONS or name not in self or _guarded_value(name, self) != _guarded_value(name, {**self, name: value}):
            guard_epoch.count += 1
        record_undo(self)
        super().__setitem__(name, value)


@bumps_guard_epoch
class GuardedStates(defaultdict[Any, dict[str, Any]]):
    """The state of an optimizer by parameter, in dictionaries that bump the guard epoch too."""

    has_own_undo = True  # a traced step that fails restores the whole state

    def __setitem__(self, p: Any, state: Any) -> None:
        guard_epoch.count += 1
        super().__setitem__(p, state if isinstance(state, GuardedState) or not isinstance(state, dict) else GuardedState(state))

    def __missing__(self, p: Any) -> Any:
        self[p] = {}
        return self[p]

    def update(self, states: Any) -> None:  # type: ignore[override]
        for p, state in dict(states).items():
            self[p] = state


@bumps_guard_epoch
class GuardedState(dict[str, Any]):
    """The state of an optimizer for one parameter."""

    has_own_undo = True


def make_guarded(name: str, value: Any) -> Any:
    """Return an attribute value of an optimizer; `state` and `param_groups` become containers that bump the guard epoch."""
    if name == "param_groups":
        guard_epoch.count += 1
        return GuardedList(GuardedOptions({**group, "params": GuardedList(group["params"])}) for group in value)
    if name == "state":
        guard_epoch.count += 1
        states = GuardedStates(dict)
        states.update(value)
        return states
    return value


class OptimizerGuard:
    """Guard of a traced step on an optimizer: all options but those that are inputs, the parameters, the identity of their state, and step
    hooks."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.state, self.groups = optimizer, optimizer.state, [*optimizer.param_groups]
        self.before = [{**group, "params": [*group["params"]]} for group in self.groups]
        self.state_before = self._state_items()
        self.hooks = self._hooks()

    def _state_items(self) -> dict[Any, Any]:
        return {p: dict(state) if isinstance(state, dict) else state for p, state in self.state.items()}

    def _hooks(self) -> list[Any]:
        return [hook for kind in ("step_pre", "step_post") for hook in self.optimizer._hooks[kind].items()]

    def finalize(self) -> None:
        """Update the expected state after the trace, because the first step creates state."""
        self.state_before = self._state_items()

    def tensors(self) -> list[Tensor]:
        """Return the tensors that must not be arguments as well: none, since parameters and state may be."""
        return []

    def explain_failure(self) -> str | None:
        """Return what has changed, or None."""
        now = self.optimizer
        same = len(now.param_groups) == len(self.groups) and all(map(operator.is_, now.param_groups, self.groups))
        if now.state is not self.state or not _same(self._state_items(), self.state_before) or not same:
            return f"{now.__class__.__name__}: other state, or other groups of parameters"
        if self._hooks() != self.hooks:
            return f"{now.__class__.__name__}: other hooks of its steps"
        for before, group in zip(self.before, self.groups, strict=True):
            if len(group["params"]) != len(before["params"]) or not all(map(operator.is_, group["params"], before["params"])):
                return "optimizer: other parameters in a group"
            for name in {**before, **group}:
                was, value = before.get(name), group.get(name)
                if name != "params" and was is not value and _guarded_value(name, before) != _guarded_value(name, group):
                    return f"optimizer, {name}: {was} -> {value}"
        return None


def _same(now: Any, before: Any) -> bool:
    """True if both have the same tensors, and equal values, in the same places."""
    if isinstance(now, dict) and isinstance(before, dict):
        return now.keys() == before.keys() and all([_same(value, before[key]) for key, value in now.items()])
    return now is before or (not isinstance(now, Tensor) and not isinstance(before, Tensor) and bool(now == before))
