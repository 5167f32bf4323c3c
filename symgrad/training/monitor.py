"""Watching one result over the epochs: is it better than before, and which weights belonged to the best."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

_LARGER_IS_BETTER = re.compile(r"(val_)?(acc|.*accuracy|precision|recall|f1|.*_score|auc|r2)$")


class Monitor:
    """Finds `name` in the logs and compares: mode "min", "max", or "auto", which goes by the name."""

    def __init__(self, name: str, mode: str = "auto", min_delta: float = 0.0, owner: str = "callback") -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{owner}: mode must be 'auto', 'min' or 'max', got {mode!r}")
        self.name, self.owner, self.min_delta = name, owner, abs(min_delta)
        self.larger = mode == "max" or (mode == "auto" and _LARGER_IS_BETTER.match(name) is not None)

    def check(self, names: list[str]) -> None:
        """Refuse a name that no epoch will report."""
        if self.name not in names:
            hint = "; pass validation_data or validation_split to fit" if self.name.startswith("val_") and "val_loss" not in names else ""
            raise ValueError(f"{self.owner} watches {self.name!r}, which is not among the results: {', '.join(names)}{hint}")

    def better(self, value: float, best: float | None) -> bool:
        """Better by more than min_delta; NaN never is."""
        if math.isnan(value):
            return False
        if best is None:
            return True
        return value - self.min_delta > best if self.larger else value + self.min_delta < best


def patience_of(patience: Any, owner: str) -> int:
    if not isinstance(patience, int) or patience < 0:
        raise ValueError(f"{owner}: patience must be a number of epochs, 0 or more, got {patience!r}")
    return patience


class BestWeights:
    """A copy of the net's weights after the best epoch so far."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.value: float | None = None
        self.epoch: int | None = None
        self._state: dict[str, Any] = {}

    def consider(self, net: Any, epoch: int, logs: dict[str, float]) -> None:
        """Keep the weights if the epoch was the best; the first one always is."""
        value = logs.get(self.monitor.name)
        if value is not None and (self.epoch is None or self.monitor.better(value, self.value)):
            self.value, self.epoch = None if math.isnan(value) else value, epoch
            self._state = copy.deepcopy(net.state_dict())

    def restore(self, net: Any) -> None:
        if self.epoch is not None:
            net.load_state_dict(self._state)
