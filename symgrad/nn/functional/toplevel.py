"""What PyTorch also has at top level, with other signatures: `torch.embedding(weight, indices)`, reductions as numbers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.nn import functional as F
from symgrad.nn.functional.loss import reduced
from symgrad.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` with the arguments of `torch.dropout`."""
    return F.dropout(input, p, train)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` with the arguments of `torch.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """`nn.functional.embedding` with the arguments of `torch.embedding`."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm` with the arguments of `torch.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm` with the arguments of `torch.instance_norm`."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enable: bool = True
) -> Tensor:
    """`nn.functional.layer_norm` with the arguments of `torch.layer_norm`."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """`nn.functional.group_norm` with the arguments of `torch.group_norm`."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with the arguments of `torch.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight)


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with the arguments of `torch.kl_div`."""
    value = F.kl_div(input, target, reduction="none", log_target=log_target)
    return reduced(value, REDUCTIONS[reduction])


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with the arguments of `torch.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=REDUCTIONS[reduction])


def _numbered(loss: Callable[..., Tensor], options: int, default: int = 0) -> Callable[..., Tensor]:
    """A loss whose reduction is a number, after its tensors and so many options. As in PyTorch most return every element by default."""
    tensors = list(inspect.unwrap(loss).__annotations__.values()).count("Tensor") - 1  # the last is what it returns

    def call(*args: Any, reduction: int = default, **kwargs: Any) -> Tensor:
        if len(args) > tensors + options:
            *args, reduction = args  # type: ignore[assignment]
        return loss(*args, reduction=REDUCTIONS[reduction], **kwargs)

    call.__name__ = loss.__name__
    call.__doc__ = f"`nn.functional.{loss.__name__}` with a number as reduction: 0 none, 1 mean, 2 sum."
    return call


cosine_embedding_loss = _numbered(F.cosine_embedding_loss, 1)
hinge_embedding_loss = _numbered(F.hinge_embedding_loss, 1)
margin_ranking_loss = _numbered(F.margin_ranking_loss, 1)
triplet_margin_loss = _numbered(F.triplet_margin_loss, 4, 1)
