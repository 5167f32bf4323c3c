"""Losses as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from typing import Any

from symgrad.coercion import tensors_of
from symgrad.dispatch import tensors as ops
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.nn.functional.activation import log_softmax
from symgrad.nn.functional.checks import require_floats
from symgrad.nn.functional.normalization import held
from symgrad.ops.promotion import INT64, UINT8, word
from symgrad.ops.shapes import integer
from symgrad.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


def legacy(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, or what the two flags before it meant."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(value: Tensor, reduction: str) -> Tensor:
    """The values themselves, their mean or their sum."""
    if reduction == "none":
        return value
    return value.mean() if reduction == "mean" else value.sum()


def _warn_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead to incorrect"
            f" results due to broadcasting ({name}). Please ensure they have the same size.",
        )


def _same_size(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError(f"Weights and input must have the same size, got {list(weight.shape)} and {list(input.shape)}")


def _by_weight(value: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """The weighted loss; its mean is over the weights."""
    value = value * weight
    return value.sum() / weight.sum() if reduction == "mean" else reduced(value, reduction)


def _not_differentiated(name: str, **weights: Tensor | None) -> None:
    for argument, weight in weights.items():
        if weight is not None and weight.requires_grad and local.mode.recording:
            raise RuntimeError(f"{name}: the derivative for '{argument}' is not implemented.")


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared differences, as their mean, sum, or one by one."""
    reduction = legacy(size_average, reduce, reduction)
    _warn_sizes("mse_loss", input, target)
    if weight is None:
        return ops.mse_loss(input, target, reduction=reduction)
    _same_size(input, weight)
    return _by_weight((input - target) ** 2, weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute differences, as their mean, sum, or one by one."""
    reduction = legacy(size_average, reduce, reduction)
    _warn_sizes("l1_loss", input, target)
    value = (input - target).abs()
    if weight is None:
        return reduced(value, reduction)
    _same_size(input, weight)
    return _by_weight(value, weight, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """The squared difference over 2 beta below beta, |difference| - beta / 2 above."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    _warn_sizes("smooth_l1_loss", input, target)
    return ops.smooth_l1_loss(input, target, reduction=legacy(size_average, reduce, reduction), beta=beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Half the squared difference below delta, delta (|difference| - delta / 2) above."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    _warn_sizes("huber_loss", input, target)
    reduction = legacy(None, None, reduction)
    if weight is None:
        return ops.huber_loss(input, target, reduction=reduction, delta=delta)
    _same_size(input, weight)
    return reduced(ops.huber_loss(input, target, reduction="none", delta=delta) * weight, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(y log(x) + (1 - y) log(1 - x)) of probabilities x."""
    reduction = legacy(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. Please ensure"
            " they have the same size."
        )
    if input._array.dtype != target._array.dtype:
        raise RuntimeError(f"binary_cross_entropy: Found dtype {target.dtype.word} but expected {input.dtype.word}")
    if input.numel() and not (float(input._array.min()) >= 0 and float(input._array.max()) <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    _not_differentiated("binary_cross_entropy", weight=weight)
    return ops.binary_cross_entropy(input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(x), without its overflow."""
    reduction = legacy(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    _not_differentiated("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction=reduction)


def _check_target_shape(name: str, input: Tensor, target: Tensor) -> None:
    """(N, C, d1, ...) with targets (N, d1, ...), or (C,) with a single one."""
    if input.ndim == 0:
        raise ValueError(f"{name}: Expected 1 or more dimensions (got 0)")
    if input.ndim == 1 and target.ndim <= 1 and target.numel() == 1:
        return
    if input.shape[0] != (target.shape[0] if target.ndim else 1):
        raise ValueError(
            f"{name}: Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0] if target.ndim else 1})."
        )
    wanted = (*input.shape[:1], *input.shape[2:])
    if tuple(target.shape) != wanted:
        raise RuntimeError(f"{name}: Expected target size {list(wanted)}, got {list(target.shape)}")


def _check_classes(target: Tensor, classes: int, ignore_index: int) -> None:
    """An index out of range is an error before anything is computed."""
    indices = target._array
    if indices.dtype not in (INT64, UINT8):
        raise RuntimeError(f"nll_loss: expected scalar type Long but found {word(indices.dtype)} for target")
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= classes):
        bad = (indices != ignore_index) & ((indices < 0) | (indices >= classes))
        if bad.any():
            raise IndexError(f"nll_loss: Target {indices[bad].reshape(-1)[0]} is out of bounds for {classes} classes.")


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the logarithm of the probability of the target class, from log-probabilities."""
    reduction = legacy(size_average, reduce, reduction)
    require_floats("nll_loss_out_frame", input)
    _check_target_shape("nll_loss", input, target)
    _not_differentiated("nll_loss", weight=weight)
    axis = 1 if input.ndim > 1 else 0
    _check_classes(target, input.shape[axis], integer("ignore_index", ignore_index, "nll_loss"))
    index = target if target.ndim == input.ndim - 1 else target.reshape(())
    if weight is not None and tuple(weight.shape) != (input.shape[axis],):
        raise RuntimeError(
            f"nll_loss: weight tensor should be defined either for all {input.shape[axis]} classes or no classes but got weight tensor of"
            f" shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(f"nll_loss: expected scalar type {word(input._array.dtype)} but found {word(weight._array.dtype)} for weight")
    return ops.nll_loss(input, index, weight, axis=axis, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Targets are class indices, or probabilities of the same shape as the input."""
    reduction = legacy(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    logs = log_softmax(input, 1 if input.ndim > 1 else 0)
    if target.shape == input.shape and target.is_floating_point():
        if ignore_index >= 0:
            raise RuntimeError(f"ignore_index is not supported for floating point target, got {ignore_index}")
        return _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if label_smoothing == 0:
        return loss
    smooth = _smooth_part(logs, target, weight, ignore_index, reduction)
    return (1 - label_smoothing) * loss + label_smoothing * smooth


def _over_classes(weight: Tensor, ndim: int) -> Tensor:
    """A weight for each class, ready to broadcast against (N, C, ...)."""
    return weight if ndim < 2 else weight.reshape(-1, *(1,) * (ndim - 2))


def _smooth_part(logs: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """The loss against equal probabilities, over the targets that count."""
    axis = 1 if logs.ndim > 1 else 0
    counted = ops.ne(target, ignore_index)
    weighted = logs if weight is None else logs * _over_classes(weight, logs.ndim)
    value = ops.where(counted, weighted.sum(axis) * (-1 / logs.shape[axis]), 0)
    if reduction != "mean":
        return reduced(value, reduction)
    if weight is None:
        return value.sum() / counted.sum()
    factors = ops.embedding(weight, ops.where(counted, target, 0), None, padding=None)
    return value.sum() / ops.where(counted, factors, 0).sum()


def _cross_entropy_of_probabilities(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    axis = 1 if logs.ndim > 1 else 0
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / logs.shape[axis]
    value = logs * target
    if weight is not None:
        value = value * _over_classes(weight, logs.ndim)
    value = -value.sum(axis)
    return value.sum() / value.numel() if reduction == "mean" else reduced(value, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log(target) - input), with `input` a logarithm."""
    if reduction == "mean" and size_average is None and reduce is None:
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by the batch"
            " size, and aligns with the KL div math definition.",
        )
    value = target.exp() * (target - input) if log_target else ops.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return value.sum() / input.shape[0] if input.ndim else value.sum()
    return reduced(value, legacy(size_average, reduce, reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-likelihood of Poisson counts, up to a constant unless `full`."""
    value = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        value = value + ops.where(target <= 1, 0, stirling)
    return reduced(value, legacy(size_average, reduce, reduction))


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Minus the log-likelihood of a normal distribution with variance `var`."""
    if isinstance(var, (float, int)):
        var = input.new_full(input.shape, var)
    var = tensors_of((var, input))[0]
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or sum(v for n, v in zip(input.shape, var.shape, strict=True) if n != v) != 1:
            raise ValueError(f"var is of incorrect size: got {list(var.shape)} for input of size {list(input.shape)}")
    if bool((var._array < 0).any()):
        raise ValueError("var has negative entry/entries")
    var = held(var, eps)
    value = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(value + 0.5 * math.log(2 * math.pi) if full else value, legacy(None, None, reduction))
