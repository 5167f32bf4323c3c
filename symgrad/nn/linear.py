"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from symgrad.creation import empty
from symgrad.nn import functional as F, init
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

__all__ = ["Bilinear", "Identity", "Linear"]


def parameter_or_none(wanted: bool, *shape: int, device: Any, dtype: Any) -> Parameter | None:
    """A parameter to be filled, or its absence, to be registered under the same name."""
    return Parameter(empty(shape, dtype=dtype, device=device)) if wanted else None


def fill(weight: Tensor, bias: Tensor | None) -> None:
    """PyTorch's start of linear layers and convolutions: both from an even distribution whose width falls with the inputs of a unit."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        inputs, _ = init.fans(weight)
        bound = 1 / math.sqrt(inputs) if inputs > 0 else 0
        init.uniform_(bias, -bound, bound)


class Identity(Module):
    """Returns its input; arguments to make it are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x Wᵀ + b"""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, dtype=dtype, device=device))
        self.register_parameter("bias", parameter_or_none(bias, out_features, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        fill(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1ᵀ W_k x2 + b_k for each output k."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, dtype=dtype, device=device))
        self.register_parameter("bias", parameter_or_none(bias, out_features, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )
