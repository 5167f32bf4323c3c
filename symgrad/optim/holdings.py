"""What an optimizer has, and what compiled steps hold fixed of it: it counts changes, as modules do, so that nobody looks at every option
at every call."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from symgrad.counted import Items, counts_changes, undone
from symgrad.mode import changes
from symgrad.tensor import Tensor

_INPUTS: dict[str, Callable[[Any], Any]] = {
    "lr": lambda x: x if isinstance(x, Tensor) else None,
    "momentum": lambda x: x if isinstance(x, Tensor) else x == 0,
    "betas": lambda x: x if any(isinstance(beta, Tensor) for beta in x) else len(x),
}
"""Of options that are inputs of a program, what it depends on."""


def _fixed(name: str, group: Mapping[str, Any]) -> Any:
    value = group.get(name)
    if name in _INPUTS and value is not None and (name == "lr" or not group.get("differentiable")):
        value = _INPUTS[name](value)
    return tuple(map(_itself, value)) if isinstance(value, (tuple, list)) else _itself(value)


def _itself(x: Any) -> Any:
    """A tensor is held fixed as such, whatever it holds."""
    return (Tensor, id(x)) if isinstance(x, Tensor) else x


@counts_changes
class Options(dict[str, Any]):
    """Parameters of an optimizer, and options for them. A schedule changes what is an input of a program: that does not count."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in _INPUTS or name not in self or _fixed(name, self) != _fixed(name, {**self, name: value}):
            changes.count += 1
        undone(self)
        super().__setitem__(name, value)


@counts_changes
class States(defaultdict[Any, dict[str, Any]]):
    """What an optimizer keeps for each parameter, in dictionaries that count changes, too."""

    kept_elsewhere = True  # a traced step that fails puts it back as a whole

    def __setitem__(self, p: Any, state: Any) -> None:
        changes.count += 1
        super().__setitem__(p, state if isinstance(state, State) or not isinstance(state, dict) else State(state))

    def __missing__(self, p: Any) -> Any:
        self[p] = {}
        return self[p]

    def update(self, states: Any) -> None:  # type: ignore[override]
        for p, state in dict(states).items():
            self[p] = state


@counts_changes
class State(dict[str, Any]):
    """What an optimizer keeps for one parameter."""

    kept_elsewhere = True


def counting(name: str, value: Any) -> Any:
    """What an optimizer has under a name; its state and its groups of parameters are such that count their changes."""
    if name == "param_groups":
        changes.count += 1
        return Items(Options({**group, "params": Items(group["params"])}) for group in value)
    if name == "state":
        changes.count += 1
        states = States(dict)
        states.update(value)
        return states
    return value


class Holdings:
    """What a traced step holds fixed in an optimizer: all options but those that are its inputs, which parameters there are, that their
    state is the same object, hooks of its steps."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.state, self.groups = optimizer, optimizer.state, [*optimizer.param_groups]
        self.before = [{**group, "params": [*group["params"]]} for group in self.groups]
        self.kept = self._kept()
        self.hooks = self._hooks()

    def _kept(self) -> dict[Any, Any]:
        return {p: dict(state) if isinstance(state, dict) else state for p, state in self.state.items()}

    def _hooks(self) -> list[Any]:
        return [hook for kind in ("step_pre", "step_post") for hook in self.optimizer._hooks[kind].items()]

    def settle(self) -> None:
        """After the trace: a first step makes state."""
        self.kept = self._kept()

    def tensors(self) -> list[Tensor]:
        """What must not be an argument, too: parameters and state may be."""
        return []

    def failed(self) -> str | None:
        """What is no longer as it was."""
        now = self.optimizer
        same = len(now.param_groups) == len(self.groups) and all(map(operator.is_, now.param_groups, self.groups))
        if now.state is not self.state or not _same(self._kept(), self.kept) or not same:
            return f"{now.__class__.__name__}: other state, or other groups of parameters"
        if self._hooks() != self.hooks:
            return f"{now.__class__.__name__}: other hooks of its steps"
        for before, group in zip(self.before, self.groups, strict=True):
            if len(group["params"]) != len(before["params"]) or not all(map(operator.is_, group["params"], before["params"])):
                return "optimizer: other parameters in a group"
            for name in {**before, **group}:
                was, value = before.get(name), group.get(name)
                if name != "params" and was is not value and _fixed(name, before) != _fixed(name, group):
                    return f"optimizer, {name}: {was} -> {value}"
        return None


def _same(now: Any, before: Any) -> bool:
    """Whether there are the same tensors, and equal numbers, in the same places."""
    if isinstance(now, dict) and isinstance(before, dict):
        return now.keys() == before.keys() and all(_same(value, before[key]) for key, value in now.items())
    return now is before or (not isinstance(now, Tensor) and not isinstance(before, Tensor) and bool(now == before))
