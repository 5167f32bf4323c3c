"""Losses as modules."""

from __future__ import annotations

from symgrad.nn import functional as F
from symgrad.nn.functional.loss import legacy
from symgrad.nn.module import Module
from symgrad.tensor import Tensor


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy(size_average, reduce, reduction)


class MSELoss(_Loss):
    """The squared differences, as their mean, sum, or one by one."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute differences, as their mean, sum, or one by one."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)
