"""Losses as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.activation import log_softmax, logsigmoid, softplus
from symgrad.nn.functional.normalization import pairwise_distance
from symgrad.tensor import Tensor, wrap

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
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
    if reduction == "none":
        return value
    return value.mean() if reduction == "mean" else value.sum()  # type: ignore[no-any-return]


def _warn_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead to incorrect"
            f" results due to broadcasting ({name}). Please ensure they have the same size.",
            stacklevel=3,
        )


def _weighted(op: Any, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, **attrs: Any) -> Tensor:
    if weight is None:
        return op(input, target, reduction=reduction, **attrs)  # type: ignore[no-any-return]
    value = weight * op(input, target, reduction="none", **attrs)
    return value.sum() / weight.expand_as(value).sum() if reduction == "mean" else reduced(value, reduction)


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    reduction = legacy(size_average, reduce, reduction)
    _warn_sizes("mse_loss", input, target)
    return _weighted(ops.mse_loss, input, target, weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    reduction = legacy(size_average, reduce, reduction)
    _warn_sizes("l1_loss", input, target)
    value = (input - target).abs()
    if weight is None:
        return reduced(value, reduction)
    value = value * weight
    return value.sum() / weight.expand_as(value).sum() if reduction == "mean" else reduced(value, reduction)  # type: ignore[no-any-return]


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    _warn_sizes("smooth_l1_loss", input, target)
    return ops.smooth_l1_loss(input, target, reduction=legacy(size_average, reduce, reduction), beta=beta)  # type: ignore[no-any-return]


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    _warn_sizes("huber_loss", input, target)
    return _weighted(ops.huber_loss, input, target, weight, legacy(None, None, reduction), delta=delta)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    reduction = legacy(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. Please ensure they have"
            " the same size."
        )
    if input.numel() and not (0 <= float(input._array.min()) and float(input._array.max()) <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if weight is None:
        return ops.binary_cross_entropy(input, target, reduction=reduction)  # type: ignore[no-any-return]
    return reduced(weight * ops.binary_cross_entropy(input, target, reduction="none"), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    reduction = legacy(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if weight is None and pos_weight is None:
        return ops.binary_cross_entropy_with_logits(input, target, reduction=reduction)  # type: ignore[no-any-return]
    if pos_weight is None:
        value = ops.binary_cross_entropy_with_logits(input, target, reduction="none")
    else:
        value = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    return reduced(value if weight is None else value * weight, reduction)


def _classes_first(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(N, C, d1, ...) with targets (N, d1, ...); a single sample has neither N."""
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise ValueError(f"Expected a target of {max(input.ndim - 1, 0)} dimensions for input of size {list(input.shape)}, got {list(target.shape)}")
    if input.ndim == 1:
        return input.unsqueeze(0), target.unsqueeze(0)
    if input.shape[:1] != target.shape[:1] or tuple(input.shape[2:]) != tuple(target.shape[1:]):
        raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0] if target.ndim else 0}).")
    return input, target


def _checked_classes(target: Tensor, classes: int, ignore_index: int) -> Any:
    """Which targets count; an index out of range is an error before anything is computed."""
    indices = target._array
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype!r} for the target of nll_loss")
    counted = indices != ignore_index
    bad = counted & ((indices < 0) | (indices >= classes))
    if bad.any():
        raise IndexError(f"Target {indices[bad][0]} is out of bounds.")
    return counted


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy(size_average, reduce, reduction)
    single = input.ndim == 1
    x, y = _classes_first(input, target)
    counted = _checked_classes(y, x.shape[1], ignore_index)
    every = bool(counted.all())
    index = y if every else wrap(y._array * counted)
    picked = -ops.take_along(x, index.unsqueeze(1), axis=1).squeeze(1)
    factor: Any = None if every and weight is None else wrap(counted.astype(x._array.dtype))
    if weight is not None:
        factor = factor * weight[index]
    value = picked if factor is None else picked * factor
    if reduction == "none":
        return value.squeeze(0) if single else value
    if reduction == "sum" or factor is None:
        return reduced(value, reduction)
    return value.sum() / factor.sum()  # type: ignore[no-any-return]


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
        return _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if label_smoothing == 0:
        return loss
    smooth = _smooth_part(logs, target, weight, ignore_index, reduction)
    return (1 - label_smoothing) * loss + label_smoothing * smooth


def _smooth_part(logs: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """The loss against equal probabilities, over the targets that count."""
    axis = 1 if logs.ndim > 1 else 0
    classes = logs.shape[axis]
    counted = target._array != ignore_index
    weighted = logs if weight is None else logs * weight.reshape(-1, *(1,) * (logs.ndim - 2)) if logs.ndim > 1 else logs * weight
    value = weighted.sum(axis) * (-1 / classes) * wrap(counted.astype(logs._array.dtype))
    if reduction != "mean":
        return reduced(value, reduction)
    if weight is None:
        return value.sum() / int(counted.sum())  # type: ignore[no-any-return]
    return value.sum() / (weight[wrap(target._array * counted)] * wrap(counted.astype(logs._array.dtype))).sum()  # type: ignore[no-any-return]


def _cross_entropy_of_probabilities(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    axis = 1 if logs.ndim > 1 else 0
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / logs.shape[axis]
    value = logs * target
    if weight is not None:
        value = value * (weight.reshape(-1, *(1,) * (logs.ndim - 2)) if logs.ndim > 1 else weight)
    value = -value.sum(axis)
    return value.sum() / max(value.numel(), 1) if reduction == "mean" else reduced(value, reduction)  # type: ignore[no-any-return]


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    value = target.exp() * (target - input) if log_target else ops.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return value.sum() / input.shape[0] if input.ndim else value.sum()  # type: ignore[no-any-return]
    return reduced(value, legacy(size_average, reduce, reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    hinge = (margin - input).clamp_min(0)
    value = ops.where(target != 1, hinge, 0) + ops.where(target != -1, input, 0)
    return reduced(value, legacy(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), legacy(size_average, reduce, reduction))


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    return reduced(softplus(-target * input, threshold=math.inf), legacy(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced((margin + near - far).clamp_min(0), legacy(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    epsilon = 1e-12
    dot, one, two = ((a * b).sum(-1) for a, b in ((input1, input2), (input1, input1), (input2, input2)))
    cosine = dot / ((one + epsilon) * (two + epsilon)).sqrt()
    value = ops.where(target == 1, 1 - cosine, 0) + ops.where(target == -1, (cosine - margin).clamp_min(0), 0)
    return reduced(value, legacy(size_average, reduce, reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    value = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        value = value + ops.where(target <= 1, 0, stirling)
    return reduced(value, legacy(size_average, reduce, reduction))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    if not isinstance(var, Tensor):
        var = input.new_full((), var).expand_as(input)
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not (tuple(input.shape[:-1]) == tuple(var.shape[:-1]) and var.shape[-1] == 1):
            raise ValueError("var is of incorrect size")
    if bool((var._array < 0).any()):
        raise ValueError("var has negative entry/entries")
    held = _floor(var, eps)
    value = 0.5 * (held.log() + (input - target) ** 2 / held)
    return reduced(value + 0.5 * math.log(2 * math.pi) if full else value, legacy(None, None, reduction))


def _floor(var: Tensor, eps: float) -> Tensor:
    """`var`, at least eps; the gradient passes everywhere, as in PyTorch, which raises the values under no_grad."""
    return var + wrap(np.maximum(var._array, var._array.dtype.type(eps)) - var._array)
