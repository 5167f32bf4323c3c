"""Callbacks that stop a training, save it and write it down."""

from __future__ import annotations

import csv
import math
import os
from string import Formatter
from typing import Any

from symgrad.training.callback import Callback
from symgrad.training.monitor import BestWeights, Monitor, patience_of


class EarlyStopping(Callback):
    """Stop when `monitor` has not improved by more than `min_delta` for `patience` epochs.

    `baseline`: what must be beaten. `restore_best_weights`: leave the net with the weights of its best epoch when training ends.
    Epochs before `start_from_epoch` are not looked at.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        self.monitor = Monitor(monitor, mode, min_delta, "EarlyStopping")
        self.patience = patience_of(patience, "EarlyStopping")
        self.verbose, self.baseline = verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self.monitor.check(self.params["metrics"])
        self.wait = 0
        self.stopped_epoch: int | None = None
        self.best = self.baseline
        self._weights = BestWeights(Monitor(self.monitor.name, "max" if self.monitor.larger else "min"))

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        value = (logs or {}).get(self.monitor.name)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights:
            self._weights.consider(self.model.net, epoch, logs or {})
        self.wait += 1
        if self.monitor.better(value, self.best):
            self.best, self.wait = value, 0
        elif self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self._weights.restore(self.model.net)
        if self.verbose and self.stopped_epoch is not None:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.verbose and self._weights.epoch is not None:
            print(f"Restored the weights of epoch {self._weights.epoch + 1}")


class ModelCheckpoint(Callback):
    """Save the model after each epoch, or every `save_freq` batches, to `filepath`: "run/{epoch:02d}-{val_loss:.3f}.safetensors".

    Everything that training needs to go on (`Model.save`), or with `save_weights_only` the weights (`Model.save_weights`).
    `save_best_only`: only when `monitor` improves, at first on `initial_value_threshold` if there is one. Epochs count from 1 in names.
    """

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        if save_freq != "epoch" and (not isinstance(save_freq, int) or save_freq < 1):
            raise ValueError(f"ModelCheckpoint: save_freq must be 'epoch' or a number of batches, got {save_freq!r}")
        self.filepath = os.fspath(filepath)
        self.monitor = Monitor(monitor, mode, owner="ModelCheckpoint")
        self.verbose, self.save_best_only, self.save_weights_only = verbose, save_best_only, save_weights_only
        self.save_freq, self.best = save_freq, initial_value_threshold
        self._batches = self._epoch = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        names = self.params["metrics"]
        if self.save_freq != "epoch":  # validation comes later
            names = [name for name in names if not name.startswith("val_")]
        if self.save_best_only:
            self.monitor.check(names)
        for _, field, _, _ in Formatter().parse(self.filepath):
            if field is not None and field not in ("epoch", "batch", *names):
                raise ValueError(f"ModelCheckpoint: there is no {field!r} to put into {self.filepath!r}: epoch, batch, {', '.join(names)}")

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._batches += 1
        if self.save_freq != "epoch" and self._batches % int(self.save_freq) == 0:
            self._consider(batch, logs or {})

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self.save_freq == "epoch":
            self._consider(0, logs or {})

    def _consider(self, batch: int, logs: dict[str, float]) -> None:
        if self.save_best_only:
            value = logs.get(self.monitor.name)
            if value is None or not self.monitor.better(value, self.best):
                return
            self.best = value
        nan = dict.fromkeys(self.params["metrics"], math.nan)  # results that not every epoch has
        path = self.filepath.format(**(nan | logs | {"epoch": self._epoch + 1, "batch": batch + 1}))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)
        if self.verbose:
            print(f"Epoch {self._epoch + 1}: saved to {path}")


class TerminateOnNaN(Callback):
    """Stop as soon as the loss is NaN or infinite."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            print(f"Step {batch + 1}: the loss is {(logs or {})['loss']}, training stops")
            self.model.stop_training = True


class CSVLogger(Callback):
    """One line for each epoch: its number, counted from 0, and its results. `append`: below what the file has."""

    def __init__(self, filename: str | os.PathLike[str], separator: str = ",", append: bool = False) -> None:
        self.filename, self.separator, self.append = os.fspath(filename), separator, append

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._columns = ["epoch", *self.params["metrics"]]
        if not (self.append and os.path.exists(self.filename) and os.path.getsize(self.filename)):
            self._write("w", self._columns)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        row: dict[str, Any] = {"epoch": epoch, **(logs or {})}
        self._write("a", [row.get(column, "NA") for column in self._columns])

    def _write(self, mode: str, row: list[Any]) -> None:
        """The file is closed between epochs: it is whole whenever training ends."""
        with open(self.filename, mode, newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=self.separator).writerow(row)
