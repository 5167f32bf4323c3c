"""A run of fit: epochs of training and validation, callbacks, and the end by Ctrl-C."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from symgrad.training.batches import Feed
from symgrad.training.callback import Callback, Callbacks
from symgrad.training.history import History
from symgrad.training.interrupt import Interrupt
from symgrad.training.loop import evaluate_epoch, mode, train_epoch
from symgrad.training.monitor import BestWeights, Monitor
from symgrad.training.progress import ProgressBar


class Fit:
    """What is there from the first epoch to the last. `test` is None without validation."""

    def __init__(self, model: Any, train: Feed, test: Feed | None, callbacks: list[Callback], bar: ProgressBar, epochs: range) -> None:
        self.model, self.train, self.test, self.bar, self.epochs = model, train, test, bar, epochs
        self.history, self.interrupt = History(), Interrupt()
        self.best = BestWeights(Monitor("loss" if test is None else "val_loss"))
        names = model.results.names
        names = names if test is None else [*names, *(f"val_{name}" for name in names)]
        params = {"epochs": epochs.stop, "steps": train.steps, "verbose": bar.verbose, "metrics": names}
        self.callbacks = Callbacks([bar, *callbacks, self.history], model, params)  # what callbacks print comes after the bar's line
        self.logs: dict[str, float] = {}

    def run(self, validation_freq: int) -> History:
        self.model.history, self.model.stop_training, self.model.epochs_done = self.history, False, self.epochs.start
        with ExitStack() as stack:
            stack.callback(self.bar.leave)
            stack.enter_context(mode(self.model.net, True))
            stack.enter_context(self.interrupt)
            self.callbacks.call("on_train_begin", {})
            for epoch in self.epochs:
                self.callbacks.params["steps"] = self.train.steps
                if not self._epoch(epoch, self.test if (epoch + 1) % validation_freq == 0 else None):
                    break
            if self.interrupt.wanted():
                self._wind_up()
            self.callbacks.call("on_train_end", self.logs)
        return self.history

    def _epoch(self, epoch: int, test: Feed | None) -> bool:
        """Train, validate, tell the callbacks. False: there will be no other epoch."""
        self.callbacks.call("on_epoch_begin", epoch, {})
        logs = train_epoch(self.model, self.train, self.callbacks, self.interrupt, epoch)
        if test is not None and not self.interrupt.wanted():
            results = evaluate_epoch(self.model, test, self.callbacks, self.interrupt, f"fit, validation in epoch {epoch + 1}")
            logs = logs | {f"val_{name}": value for name, value in results.items()}
        if self.interrupt.wanted() or not logs:
            return False
        self.logs, self.model.epochs_done = logs, epoch + 1
        self.callbacks.call("on_epoch_end", epoch, logs)
        self.best.consider(self.model.net, epoch, logs)
        return not (self.model.stop_training or self.interrupt.wanted() or self.train.exhausted)

    def _wind_up(self) -> None:
        """After Ctrl-C: the best weights, and a word about it."""
        self.bar.leave(echoed=True)
        self.history.interrupted = True
        self.best.restore(self.model.net)
        best = self.best
        kept = "the weights are those of now" if best.epoch is None else f"the weights are those of epoch {best.epoch + 1}"
        value = "" if best.value is None else f", {best.monitor.name} {best.value:.4f}"
        print(f"Interrupted after {len(self.history.rows)} whole epochs: {kept}{value}", flush=True)
