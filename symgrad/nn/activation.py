"""Activations as modules."""

from __future__ import annotations

from symgrad.nn import functional as F
from symgrad.nn.module import Module
from symgrad.tensor import Tensor


class ReLU(Module):
    """max(0, x) of every element."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """tanh of every element."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)) of every element."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)
