"""Activations as modules."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

from symgrad.creation import full
from symgrad.lines import warn
from symgrad.nn import functional as F, init
from symgrad.nn.module import Module
from symgrad.nn.options import Options
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax",
    "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip

# --- rectifiers


@dataclass(eq=False, repr=False)
class ReLU(Options):
    """max(0, x) of every element."""

    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


@dataclass(eq=False, repr=False)
class LeakyReLU(Options):
    """x where x > 0, else negative_slope x."""

    negative_slope: float = 0.01
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Module):
    """x where x > 0, else weight x: one slope for all channels, or one for each, which are learned."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init), dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@dataclass(eq=False, repr=False)
class RReLU(Options):
    """x where x > 0, else a multiple of x that is drawn between the bounds while training, their mean afterwards."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@dataclass(eq=False, repr=False)
class ELU(Options):
    """x where x > 0, else alpha (exp(x) - 1)."""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


@dataclass(eq=False, repr=False)
class CELU(Options):
    """x where x > 0, else alpha (exp(x / alpha) - 1)."""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


@dataclass(eq=False, repr=False)
class SELU(Options):
    """A scaled ELU that keeps mean 0 and variance 1 from layer to layer."""

    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


@dataclass(eq=False, repr=False)
class Threshold(Options):
    """x where x > threshold, else `value`."""

    threshold: float
    value: float
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


# --- smooth ones


@dataclass(eq=False, repr=False)
class GELU(Options):
    """x Φ(x) with the normal distribution function Φ, or its approximation by tanh."""

    approximate: str = "none"

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)


@dataclass(eq=False, repr=False)
class SiLU(Options):
    """x sigmoid(x)."""

    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


@dataclass(eq=False, repr=False)
class Mish(Options):
    """x tanh(softplus(x))."""

    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


@dataclass(eq=False, repr=False)
class Softplus(Options):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


@dataclass(eq=False, repr=False)
class GLU(Options):
    """The first half along `dim`, gated by the sigmoid of the second."""

    dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Tanh(Module):
    """tanh of every element."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)) of every element."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


# --- piecewise linear ones


@dataclass(eq=False, repr=False)
class Hardtanh(Options):
    """x clamped to [min_val, max_val]."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: InitVar[float | None] = None
    max_value: InitVar[float | None] = None

    def __post_init__(self, min_value: float | None, max_value: float | None) -> None:
        super().__post_init__()
        for name, given in (("min_val", min_value), ("max_val", max_value)):
            if given is not None:
                warn(f"keyword argument `{name}ue` is deprecated and renamed to `{name}`", FutureWarning)
                setattr(self, name, given)
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """x clamped to [0, 6]."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


@dataclass(eq=False, repr=False)
class Hardsigmoid(Options):
    """x / 6 + 1/2 clamped to [0, 1]."""

    inplace: bool = field(default=False, repr=False)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


@dataclass(eq=False, repr=False)
class Hardswish(Options):
    """x hardsigmoid(x)."""

    inplace: bool = field(default=False, repr=False)

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


@dataclass(eq=False, repr=False)
class Hardshrink(Options):
    """x where |x| > lambd, else 0."""

    lambd: float = 0.5

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Hardshrink):
    """x moved by lambd towards 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


# --- along a dimension


@dataclass(eq=False, repr=False)
class Softmax(Options):
    """exp(x) / sum(exp(x)) along `dim`."""

    dim: int | None = None

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


@dataclass(eq=False, repr=False)
class Softmin(Options):
    """softmax(-x) along `dim`."""

    dim: int | None = None

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


@dataclass(eq=False, repr=False)
class LogSoftmax(Options):
    """x - log(sum(exp(x))) along `dim`."""

    dim: int | None = None

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of (batch, channels, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
