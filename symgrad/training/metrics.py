"""Metrics: numbers that are gathered batch by batch, each example counting once, and the loss beside them.

A metric has a `name`, `reset()`, `update(prediction, target)` and `result()`. It gets tensors without a graph.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from symgrad.conversion import is_tensor
from symgrad.creation import zeros
from symgrad.errors import describe
from symgrad.functional import bincount
from symgrad.nn import functional as F
from symgrad.pytree import leaves, map_leaves
from symgrad.tensor import Tensor
from symgrad.training.losses import classes, is_binary, is_of_binary_logits, matched


class Metric:
    """Base class of metrics; any object with these methods and a name will do."""

    name: str

    def reset(self) -> None:
        raise NotImplementedError

    def update(self, prediction: Any, target: Any) -> None:
        raise NotImplementedError

    def result(self) -> float:
        raise NotImplementedError


class Mean(Metric):
    """The mean over all examples of a function of prediction and target, which returns a number or one for each example."""

    def __init__(self, function: Callable[[Any, Any], Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", function.__class__.__name__).strip("<>")
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, prediction: Any, target: Any) -> None:
        value = self.function(prediction, target)
        size = _examples(prediction)
        self.total += (value.double().mean().item() if isinstance(value, Tensor) else float(value)) * size
        self.count += size

    def result(self) -> float:
        return self.total / self.count if self.count else float("nan")


def _examples(prediction: Any) -> int:
    first = leaves(prediction)[0]
    return first.shape[0] if getattr(first, "ndim", 0) else 1


class Accuracy(Mean):
    """How often the largest of the classes on axis 1 is the target, a class number or a one-hot row; with one output, BinaryAccuracy."""

    def __init__(self, name: str = "accuracy", threshold: float = 0.5) -> None:
        self.threshold = threshold
        super().__init__(self._right, name)

    def _right(self, prediction: Tensor, target: Tensor) -> Tensor:
        if prediction.ndim < 2 or prediction.shape[1] == 1:
            return _same_side(prediction, target, self.threshold)
        return prediction.argmax(1) == _numbers(prediction, target)


class BinaryAccuracy(Mean):
    """How often prediction and target lie on the same side: the prediction of `threshold` (0 for logits), the target of 0.5."""

    def __init__(self, name: str = "binary_accuracy", threshold: float = 0.5) -> None:
        self.threshold = threshold
        super().__init__(lambda prediction, target: _same_side(prediction, target, self.threshold), name)


class TopKAccuracy(Mean):
    """How often the target is among the k largest of the classes on axis 1."""

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        self.k = k
        super().__init__(self._among, name or f"top_{k}_accuracy")

    def _among(self, prediction: Tensor, target: Tensor) -> Tensor:
        best = prediction.topk(min(self.k, prediction.shape[1]), 1).indices
        return (best == _numbers(prediction, target).unsqueeze(1)).any(1)


class RootMeanSquaredError(Mean):
    """The root of the mean squared difference over all examples."""

    def __init__(self, name: str = "rmse") -> None:
        super().__init__(_squared_error, name)

    def result(self) -> float:
        return math.sqrt(super().result())


class _Counted(Metric):
    """What follows from how often each class was predicted, was true, and both. Two classes: of the second; more: the mean over them."""

    def __init__(self, name: str, threshold: float = 0.5) -> None:
        self.name, self.threshold = name, threshold
        self.reset()

    def reset(self) -> None:
        self.counts: Tensor | None = None

    def update(self, prediction: Tensor, target: Tensor) -> None:
        if prediction.ndim > 1 and prediction.shape[1] > 1:
            guessed, true, number = prediction.argmax(1), _numbers(prediction, target), prediction.shape[1]
        else:
            guessed, true, number = (prediction > self.threshold).long(), (matched(prediction, target) > 0.5).long(), 2
        guessed, true = guessed.reshape(-1), true.reshape(-1)
        self.counts = zeros(3, number) if self.counts is None else self.counts
        for row, found in enumerate((guessed, true, true[guessed == true])):
            self.counts[row] += bincount(found, minlength=number)

    def result(self) -> float:
        if self.counts is None:
            return float("nan")
        values = [self.score(*column) for column in zip(*self.counts.tolist(), strict=True)]
        return values[1] if len(values) == 2 else sum(values) / len(values)

    def score(self, guessed: float, true: float, both: float) -> float:
        raise NotImplementedError


class Precision(_Counted):
    """Of the examples predicted to be of a class, the part that is; 0 if there is none. Classes as in F1Score."""

    def __init__(self, name: str = "precision", threshold: float = 0.5) -> None:
        super().__init__(name, threshold)

    def score(self, guessed: float, true: float, both: float) -> float:
        return both / guessed if guessed else 0.0


class Recall(_Counted):
    """Of the examples of a class, the part that was found; 0 if there is none. Classes as in F1Score."""

    def __init__(self, name: str = "recall", threshold: float = 0.5) -> None:
        super().__init__(name, threshold)

    def score(self, guessed: float, true: float, both: float) -> float:
        return both / true if true else 0.0


class F1Score(_Counted):
    """The harmonic mean of precision and recall. One output: of what exceeds `threshold`; more classes: the mean over the classes."""

    def __init__(self, name: str = "f1", threshold: float = 0.5) -> None:
        super().__init__(name, threshold)

    def score(self, guessed: float, true: float, both: float) -> float:
        return 2 * both / (guessed + true) if guessed + true else 0.0


def _numbers(prediction: Tensor, target: Tensor) -> Tensor:
    found = classes(prediction, target)
    return found.argmax(1) if found.shape == prediction.shape else found


def _same_side(prediction: Tensor, target: Tensor, threshold: float) -> Tensor:
    return (prediction > threshold) == (matched(prediction, target) > 0.5)


def _absolute_error(prediction: Tensor, target: Tensor) -> Tensor:
    return F.l1_loss(prediction, matched(prediction, target))


def _squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(prediction, matched(prediction, target))


_PLAIN: dict[str, Callable[[str], Metric]] = {
    "mae": lambda name: Mean(_absolute_error, name),
    "mse": lambda name: Mean(_squared_error, name),
    "rmse": RootMeanSquaredError,
    "categorical_accuracy": Accuracy,
    "sparse_categorical_accuracy": Accuracy,
}
_PLAIN |= {"mean_absolute_error": _PLAIN["mae"], "mean_squared_error": _PLAIN["mse"], "root_mean_squared_error": _PLAIN["rmse"]}
_WITH_THRESHOLD: dict[str, Callable[[str, float], Metric]] = {
    "binary_accuracy": BinaryAccuracy, "precision": Precision, "recall": Recall, "f1": F1Score, "f1_score": F1Score,
}  # fmt: skip


def metric_of(given: Any, loss: Any) -> Any:
    """A metric from one, from a function of prediction and target, or from a name, read as Keras does: by what the loss is of."""
    if isinstance(given, str):
        return _by_name(given, loss)
    if isinstance(given, type):
        raise TypeError(f"a metric must be an instance: {given.__name__}(), not the class {given.__name__}")
    if all(callable(getattr(given, method, None)) for method in ("reset", "update", "result")):
        return given
    if not callable(given):
        raise TypeError(f"a metric is a name, a function of prediction and target, or has reset, update and result; got {describe(given)}")
    return Mean(given)


def _by_name(name: str, loss: Any) -> Metric:
    threshold = 0.0 if is_of_binary_logits(loss) else 0.5
    if name in ("accuracy", "acc"):
        return (BinaryAccuracy if is_binary(loss) else Accuracy)(name, threshold)
    if name in _PLAIN:
        return _PLAIN[name](name)
    if name in _WITH_THRESHOLD:
        return _WITH_THRESHOLD[name](name, threshold)
    top = re.fullmatch(r"top_([1-9]\d*)_accuracy", name)
    if top is None:
        known = ", ".join(sorted(["accuracy", "top_5_accuracy", *_PLAIN, *_WITH_THRESHOLD]))
        raise ValueError(f"there is no metric {name!r}; there are {known}, or pass a function of prediction and target")
    return TopKAccuracy(int(top[1]), name)


class Results:
    """Loss and metrics of the batches since the last reset; every example counts once."""

    def __init__(self, metrics: Iterable[Any] = ()) -> None:
        self.metrics = list(metrics)
        self.names = ["loss", *(metric.name for metric in self.metrics)]
        for name in self.names:
            if self.names.count(name) > 1 or name.startswith("val_"):
                raise ValueError(f"metrics need names of their own, which do not start with val_: {', '.join(self.names)}")
        self.reset()

    def reset(self) -> None:
        self._total, self._count = 0.0, 0
        for metric in self.metrics:
            metric.reset()

    def update(self, loss: Tensor, prediction: Any, target: Any, size: int) -> None:
        self._total += loss.item() * size
        self._count += size
        if self.metrics:
            prediction = map_leaves(Tensor.detach, prediction, is_tensor)
            for metric in self.metrics:
                metric.update(prediction, target)

    def logs(self) -> dict[str, float]:
        values = [self._total / self._count if self._count else float("nan"), *(float(metric.result()) for metric in self.metrics)]
        return dict(zip(self.names, values, strict=True))
