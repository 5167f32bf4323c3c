"""Schedules by a function of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from symgrad.optim.lr_scheduler.scheduler import LRScheduler, require_optimizer
from symgrad.optim.optimizer import Optimizer

Factor: TypeAlias = Callable[[int], float]


def attributes_of(function: Any) -> dict[str, Any] | None:
    """What is saved of a function: the attributes of an object that can be called, and nothing of a `def` or `lambda`."""
    return None if function is None or isinstance(function, types.FunctionType) else function.__dict__.copy()


class FunctionLR(LRScheduler):
    """One function for all groups, or one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            lr_lambda = [lr_lambda] * groups  # type: ignore[list-item]
        if len(lr_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        for function in lr_lambda:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {function.__class__.__name__}")
        self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of functions that are objects, their attributes."""
        return {**super().state_dict(), "lr_lambdas": [attributes_of(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another schedule stopped; the functions are this one's own."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(FunctionLR):
    """The initial rate times a function of the epoch."""

    def _rates(self) -> list[Any]:
        return [base * factor(self.last_epoch) for factor, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(FunctionLR):
    """The last rate times a function of the epoch."""

    def _rates(self) -> list[Any]:
        if self._is_initial:
            return self._unchanged()
        return [
            group["lr"] * factor(self.last_epoch) for factor, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]
