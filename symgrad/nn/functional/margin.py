"""Losses with a margin as functions, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.nn.functional.activation import logsigmoid, relu
from symgrad.nn.functional.loss import legacy, reduced
from symgrad.nn.functional.normalization import pairwise_distance
from symgrad.ops.promotion import INT64, word
from symgrad.tensor import Tensor

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
    hinge = (margin - input).clamp_min(0)
    value = ops.where(target != 1, hinge, 0) + ops.where(target != -1, input, 0)
    return reduced(value, legacy(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - target (input1 - input2))."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.shape}, input2:"
            f" {input2.shape}, target: {target.shape} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), legacy(size_average, reduce, reduction))


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target input))."""
    return ops.soft_margin_loss(input, target, reduction=legacy(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + distance to the positive - distance to the negative)."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "triplet_margin_loss: The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got:"
            f" anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced((margin + near - far).clamp_min(0), legacy(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    if target.ndim > 1:
        raise RuntimeError(f"cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported: got {list(target.shape)}")
    if target.ndim + 1 != input1.ndim or input1.ndim != input2.ndim:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes"
            f" {list(input1.shape)} and {list(input2.shape)}."
        )
    epsilon = 1e-12
    dot, one, two = ((a * b).sum(-1) for a, b in ((input1, input2), (input1, input1), (input2, input2)))
    cosine = dot / ((one + epsilon) * (two + epsilon)).sqrt()
    value = ops.where(target == 1, 1 - cosine, 0) + ops.where(target == -1, (cosine - margin).clamp_min(0), 0)
    return reduced(value, legacy(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """triplet_margin_loss with any distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor"
            f" {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), legacy(None, None, reduction))


def _with_batch(name: str, input: Tensor, target: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
    """(batch, classes) and targets of `ranks` dimensions, of which the first is the batch; both may come without it."""
    if input.ndim not in (1, 2) or (input.ndim == 2 and input.shape[1] == 0):
        raise RuntimeError(f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if target._array.dtype != INT64:
        raise RuntimeError(f"{name}: expected scalar type Long but found {word(target._array.dtype)} for target")
    x = input if input.ndim == 2 else input.unsqueeze(0)
    wanted = tuple(x.shape[:ranks])
    if target.numel() != (wanted[0] if ranks == 1 else wanted[0] * wanted[1]) or (ranks == 2 and target.shape != input.shape):
        raise RuntimeError(f"{name}: inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    return x, target.reshape(wanted)


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - (score of the target - score of another class)) ** p, as the mean over the other classes."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    x, classes = _with_batch("multi_margin_loss", input, target, 1)
    count = x.shape[1]
    if classes.numel() and not 0 <= int(classes.min()) <= int(classes.max()) < count:
        raise RuntimeError(f"multi_margin_loss: target out of range for {count} classes, got {int(classes.min())} to {int(classes.max())}")
    short = relu(margin - x.gather(1, classes.unsqueeze(1)) + x)
    short = short * short if p == 2 else short
    if weight is not None:
        short = short * weight.index_select(0, classes).unsqueeze(1)
    value = ops.where(arange(count) == classes.unsqueeze(1), 0, short).sum(1) / count
    return reduced(value if input.ndim == 2 else value.squeeze(0), legacy(size_average, reduce, reduction))


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """max(0, 1 - (score of a target - score of a class that is none)), summed over all pairs; targets are listed up to a -1."""
    x, classes = _with_batch("multilabel_margin_loss", input, target, 2)
    count = x.shape[1]
    if classes.numel() and not -1 <= int(classes.min()) <= int(classes.max()) < count:
        raise RuntimeError(f"multilabel_margin_loss: target out of range, got {int(classes.min())} to {int(classes.max())}")
    listed = (classes >= 0).long().cumprod(1).bool()
    is_target = ((classes.unsqueeze(2) == arange(count)) & listed.unsqueeze(2)).any(1)
    scores = x.gather(1, classes.clamp_min(0))
    short = relu(1 - scores.unsqueeze(2) + x.unsqueeze(1))
    value = ops.where(listed.unsqueeze(2) & ~is_target.unsqueeze(1), short, 0).sum((1, 2)) / count
    return reduced(value if input.ndim == 2 else value.squeeze(0), legacy(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of binary_cross_entropy_with_logits."""
    value = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    value = value if weight is None else value * weight
    return reduced(value.sum(-1) / input.shape[-1], legacy(size_average, reduce, reduction))
