"""Losses and optimizers by name, and losses weighted example by example."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from symgrad import optim
from symgrad.dtypes import int64
from symgrad.errors import describe
from symgrad.nn import Module, functional as F
from symgrad.tensor import Tensor

Loss = Callable[..., Tensor]


def matched(prediction: Tensor, target: Tensor) -> Tensor:
    """Targets in the type of the prediction; (N,) beside (N, 1), or the other way round, in its shape."""
    if target.shape != prediction.shape and _without_last_one(target) == _without_last_one(prediction):
        target = target.reshape(prediction.shape)
    return target.to(prediction.dtype)


def _without_last_one(x: Tensor) -> tuple[int, ...]:
    shape = tuple(x.shape)
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape


def classes(prediction: Tensor, target: Tensor) -> Tensor:
    """Class numbers as int64 (N, ...), also from (N, 1, ...); probabilities, which have the prediction's shape, in its type."""
    if target.shape == prediction.shape and prediction.ndim > 1:
        return target.to(prediction.dtype)
    if target.ndim == prediction.ndim and target.ndim > 1 and target.shape[1] == 1:
        target = target.squeeze(1)
    return target.to(int64)


def _by_element(function: Loss) -> Loss:
    def loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
        return function(prediction, matched(prediction, target), reduction=reduction)

    loss.__name__ = function.__name__
    return loss


def _by_class(function: Loss) -> Loss:
    def loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
        return function(prediction, classes(prediction, target), reduction=reduction)

    loss.__name__ = function.__name__
    return loss


def _of_probabilities(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy as Keras has it: of probabilities, which are brought to the sum 1 and kept away from 0."""
    if prediction.numel() and not (prediction.detach().min() >= 0):
        raise ValueError(
            "this loss is of probabilities, as in Keras, and some are negative or NaN: end the net with a softmax, or use"
            " loss='cross_entropy', which is of logits"
        )
    total = prediction.sum(1 if prediction.ndim > 1 else 0, keepdim=True)
    logs = (prediction / total).clamp(1e-7, 1 - 1e-7).log()
    if target.shape == prediction.shape:
        value = -(logs * target.to(prediction.dtype)).sum(1 if prediction.ndim > 1 else 0)
        return value.mean() if reduction == "mean" else value.sum() if reduction == "sum" else value
    return F.nll_loss(logs, classes(prediction, target), reduction=reduction)


LOSSES: dict[str, Loss] = {
    "mse": _by_element(F.mse_loss),
    "mae": _by_element(F.l1_loss),
    "huber": _by_element(F.huber_loss),
    "smooth_l1": _by_element(F.smooth_l1_loss),
    "bce": _by_element(F.binary_cross_entropy),
    "bce_with_logits": _by_element(F.binary_cross_entropy_with_logits),
    "cross_entropy": _by_class(F.cross_entropy),
    "nll": _by_class(F.nll_loss),
    "categorical_crossentropy": _of_probabilities,
    "sparse_categorical_crossentropy": _of_probabilities,
}
LOSSES |= {
    alias: LOSSES[name]
    for name, aliases in {
        "mse": ("mse_loss", "mean_squared_error"),
        "mae": ("l1", "l1_loss", "mean_absolute_error"),
        "huber": ("huber_loss",),
        "smooth_l1": ("smooth_l1_loss",),
        "bce": ("binary_cross_entropy", "binary_crossentropy"),
        "bce_with_logits": ("binary_cross_entropy_with_logits",),
        "nll": ("nll_loss",),
    }.items()
    for alias in aliases
}


def loss_of(given: Any) -> Loss:
    """A function of prediction and target, from such a function, a loss module or a name."""
    if isinstance(given, str):
        if given.lower() not in LOSSES:
            raise ValueError(f"there is no loss {given!r}; there are {', '.join(sorted(LOSSES))}; or pass a function(prediction, target)")
        return LOSSES[given.lower()]
    if not callable(given):
        raise TypeError(f"loss must be a name or a function of prediction and target, got {describe(given)}")
    if isinstance(given, type):
        raise TypeError(f"loss must be an instance: {given.__name__}(), not the class {given.__name__}")
    return given  # type: ignore[no-any-return]


def is_binary(loss: Any) -> bool:
    return name_of(loss) in ("binary_cross_entropy", "BCELoss") or is_of_binary_logits(loss)


def is_of_binary_logits(loss: Any) -> bool:
    return name_of(loss) in ("binary_cross_entropy_with_logits", "BCEWithLogitsLoss")


def name_of(loss: Any) -> str:
    """The name of a function, or of the class of a module."""
    return str(getattr(loss, "__name__", loss.__class__.__name__))


def weighted(loss: Loss, prediction: Any, target: Any, weight: Tensor) -> Tensor:
    """The mean over the examples of weight times loss."""
    each = _unreduced(loss)(prediction, target)
    each = each.reshape(each.shape[0], -1).mean(1)
    if weight.shape != each.shape:
        raise ValueError(f"sample_weight must have one number for each of {each.shape[0]} examples, got {describe(weight)}")
    return (each * weight.to(each.dtype)).mean()


def _unreduced(loss: Loss) -> Loss:
    """The same loss, one number for each example or element."""
    if isinstance(loss, Module) and hasattr(loss, "reduction"):
        each = copy.copy(loss)
        each.reduction = "none"
        return each
    if not isinstance(loss, Module) and "reduction" in inspect.signature(loss).parameters:
        return lambda prediction, target: loss(prediction, target, reduction="none")
    raise ValueError("sample_weight and class_weight need a loss that can be had for each example: one that takes reduction='none'")


def optimizer_of(given: Any, net: Module) -> optim.Optimizer:
    """An optimizer of the net's parameters, from one, from its class (or functools.partial of it) or from its name."""
    if isinstance(given, str):
        names = {name.lower(): value for name, value in vars(optim).items() if isinstance(value, type) and name != "Optimizer"}
        if given.lower() not in names:
            raise ValueError(f"there is no optimizer {given!r}; there are {', '.join(sorted(names))}")
        given = names[given.lower()]
    if not isinstance(given, optim.Optimizer):
        if not callable(given):
            raise TypeError(f"optimizer must be an Optimizer, its class or its name, got {describe(given)}")
        given = given(net.parameters())
        if not isinstance(given, optim.Optimizer):
            raise TypeError(f"optimizer must make an Optimizer of the net's parameters, and made {describe(given)}")
    own = set(net.parameters())
    if not any(p in own for group in given.param_groups for p in group["params"]):
        raise ValueError("the optimizer holds no parameter of this net: make it with net.parameters()")
    return given
