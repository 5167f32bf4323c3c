"""Schedules that raise the rate and lower it again, and do the opposite to the momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from symgrad.optim.lr_scheduler.functions import attributes_of
from symgrad.optim.lr_scheduler.scheduler import LRScheduler, assign, one_each, require_optimizer
from symgrad.optim.optimizer import Optimizer
from symgrad.optim.options import Group


class MomentumCycle(LRScheduler):
    """Moves the momentum, or the first of two betas, between bounds that it enters into the groups."""

    def _bound_momentum(self, base_momentum: Any, max_momentum: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        bases = one_each("base_momentum", self.optimizer, base_momentum)
        tops = one_each("max_momentum", self.optimizer, max_momentum)
        if last_epoch == -1:
            for base, top, group in zip(bases, tops, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, top)
                group["max_momentum"], group["base_momentum"] = top, base
        return bases, tops

    def _set_momentum(self, group: Group, momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(MomentumCycle):
    """Up and down in lines between base_lr and max_lr, with an amplitude that stays, halves or decays."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.optimizer = optimizer
        base_lrs = one_each("base_lr", optimizer, base_lr)
        self.max_lrs = one_each("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._bound_momentum(base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                assign(group, "lr", rate)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The amplitude in cycle x, or at step x, as scale_mode says."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else 1.0

    def _rates(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for base, top, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, top - (top - base) * height * scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a scale_fn that is an object, its attributes."""
        return {**super().state_dict(), "_scale_fn_custom": attributes_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule stopped; the function is this one's own."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            assert self._scale_fn_custom is not None
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])


def _phase(end_step: float, lrs: str, momentums: str) -> dict[str, Any]:
    """A part of the cycle: when it ends, and between which options of the groups it moves rate and momentum."""
    (start_lr, end_lr), (start_momentum, end_momentum) = lrs.split(), momentums.split()
    return {
        "end_step": end_step, "start_lr": start_lr, "end_lr": end_lr, "start_momentum": start_momentum, "end_momentum": end_momentum,
    }  # fmt: skip


def _phases(total_steps: int, pct_start: float, three: bool) -> list[dict[str, Any]]:
    rise = _phase(float(pct_start * total_steps) - 1, "initial_lr max_lr", "max_momentum base_momentum")
    if not three:
        return [rise, _phase(total_steps - 1, "max_lr min_lr", "base_momentum max_momentum")]
    fall = _phase(float(2 * pct_start * total_steps) - 2, "max_lr initial_lr", "base_momentum max_momentum")
    return [rise, fall, _phase(total_steps - 1, "initial_lr min_lr", "max_momentum max_momentum")]


def _count(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    given = {"total_steps": total_steps} if total_steps is not None else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if None in given.values():
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


class OneCycleLR(MomentumCycle):
    """From max_lr / div_factor up to max_lr and far below the start, once."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer, self.total_steps = optimizer, _count(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        max_lrs = one_each("max_lr", optimizer, max_lr)
        if cycle_momentum:
            self._bound_momentum(base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for rate, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def _rates(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        i = next((i for i, phase in enumerate(self._schedule_phases) if step <= phase["end_step"]), len(self._schedule_phases) - 1)
        phase, begin = self._schedule_phases[i], self._schedule_phases[i - 1]["end_step"] if i else 0.0
        part = (step - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                self._set_momentum(group, self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], part))
        return [self._between(group[phase["start_lr"]], group[phase["end_lr"]], part) for group in groups]
