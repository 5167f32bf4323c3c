"""Callbacks that change the learning rate; it becomes part of the history as `learning_rate`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from symgrad.errors import describe
from symgrad.training.callback import Callback
from symgrad.training.monitor import Monitor, patience_of


class _LearningRate(Callback):
    adds = ("learning_rate",)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = learning_rate(self.model)


def learning_rate(model: Any) -> float:
    return float(model.optimizer.param_groups[0]["lr"])


class LearningRateScheduler(_LearningRate):
    """The learning rate as a function of the epoch, `schedule(epoch)` or `schedule(epoch, rate)`, or by an object of optim.lr_scheduler.

    `per`: a function is asked, or a scheduler stepped, for each "epoch" or each "batch"; batches are counted through all epochs.
    Functions are asked before, schedulers are stepped after the optimizer, as in PyTorch.
    """

    def __init__(self, schedule: Any, verbose: int = 0, per: str = "epoch") -> None:
        if per not in ("epoch", "batch"):
            raise ValueError(f"LearningRateScheduler: per must be 'epoch' or 'batch', got {per!r}")
        self._step: Callable[..., Any] | None = getattr(schedule, "step", None)
        if self._step is not None and "metrics" in inspect.signature(self._step).parameters:
            raise TypeError("LearningRateScheduler: this scheduler waits for a result; use the callback ReduceLROnPlateau")
        if self._step is None and not callable(schedule):
            raise TypeError(f"LearningRateScheduler: a function or a scheduler of optim.lr_scheduler is wanted, got {describe(schedule)}")
        self.schedule, self.verbose, self.per = schedule, verbose, per
        self._both = self._step is None and len(inspect.signature(schedule).parameters) > 1
        self._batches = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self._step is not None and getattr(self.schedule, "optimizer", self.model.optimizer) is not self.model.optimizer:
            raise ValueError("LearningRateScheduler: the scheduler belongs to another optimizer than the model's")

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self.per == "epoch":
            self._ask(epoch)

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self.per == "batch":
            self._ask(self._batches)
        self._batches += 1

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self._step is not None and self.per == "batch":
            self._step()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self._step is not None and self.per == "epoch":
            self._step()

    def _ask(self, number: int) -> None:
        if self._step is not None:
            return
        rate = self.schedule(number, learning_rate(self.model)) if self._both else self.schedule(number)
        try:
            rate = float(rate)
        except (TypeError, ValueError):
            raise TypeError(f"LearningRateScheduler: the function must return a number, got {describe(rate)}") from None
        for group in self.model.optimizer.param_groups:
            group["lr"] = rate
        if self.verbose:
            print(f"{self.per.capitalize()} {number + 1}: learning rate {rate:g}")


class ReduceLROnPlateau(_LearningRate):
    """Multiply the learning rates by `factor` when `monitor` has not improved by more than `min_delta` for `patience` epochs.

    The `cooldown` epochs after that do not count. No rate falls below `min_lr`.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must lie between 0 and 1, got {factor}")
        self.monitor = Monitor(monitor, mode, min_delta, "ReduceLROnPlateau")
        self.patience = patience_of(patience, "ReduceLROnPlateau")
        self.factor, self.verbose, self.cooldown, self.min_lr = factor, verbose, cooldown, min_lr

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self.monitor.check(self.params["metrics"])
        self.best: float | None = None
        self.wait = self._cooling = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        value = (logs or {}).get(self.monitor.name)
        if value is None:
            return
        self._cooling = max(self._cooling - 1, 0)
        if self.monitor.better(value, self.best):
            self.best, self.wait = value, 0
        elif not self._cooling:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch: int) -> None:
        self.wait, self._cooling = 0, self.cooldown
        for group in self.model.optimizer.param_groups:
            group["lr"] = max(float(group["lr"]) * self.factor, min(self.min_lr, float(group["lr"])))
        if self.verbose:
            print(f"Epoch {epoch + 1}: learning rate reduced to {learning_rate(self.model):g}")
