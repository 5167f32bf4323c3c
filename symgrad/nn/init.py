"""Filling parameters: the draws are PyTorch's, so that the same seed gives the same network."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from symgrad.autograd import no_grad
from symgrad.creation import empty_like, eye as identity
from symgrad.functional import where
from symgrad.linalg import qr
from symgrad.lines import warn
from symgrad.random import Generator, randperm
from symgrad.tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_", "kaiming_uniform",
    "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform",
    "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

LINEAR = ("linear", "sigmoid", *(f"conv{transposed}{n}d" for transposed in ("", "_transpose") for n in (1, 2, 3)))
GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4, **dict.fromkeys(LINEAR, 1)}


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """By what the standard deviation of weights is multiplied in front of the given nonlinearity."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs and outputs each unit has."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans  # the name by which PyTorch's users know it


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn evenly from [a, b]."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normally distributed numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator | None = None
) -> Tensor:
    """Fill with normally distributed numbers between a and b: what falls outside is drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        words = "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        warn(words)
    inside = math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2)) > 0.6
    propose = _normal_proposal(tensor, mean, std, a, b, generator) if inside else _even_proposal(tensor, mean, std, a, b, generator)
    result, rejected = propose()
    while rejected.any():
        again, rejected_again = propose()
        result, rejected = where(rejected, again, result), rejected & rejected_again
    return tensor.copy_(result)


Proposal = Callable[[], tuple[Tensor, Tensor]]
"""Draws numbers, and says which of them are to be drawn again."""


def _normal_proposal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Proposal:
    low, high = tensor.new_tensor([a, b])

    def propose() -> tuple[Tensor, Tensor]:
        x = empty_like(tensor).normal_(mean, std, generator=generator)
        return x, (x < low) | (x > high)

    return propose


def _even_proposal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Proposal:
    """Even numbers, each kept as often as the normal density there compares with its peak: for intervals far from the mean."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def propose() -> tuple[Tensor, Tensor]:
        x = empty_like(tensor).uniform_(a, b, generator=generator)
        density = ((x - mean) / std) ** 2 * -0.5 - peak
        return x, empty_like(tensor).uniform_(generator=generator).log() > density

    return propose


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it hands on as many channels as it can, unchanged, in each group."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    outputs = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(outputs, tensor.shape[1])):
            tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2 / sum(fans(tensor)))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot's initial weights, from an even distribution."""
    bound = math.sqrt(3) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot's initial weights, from a normal distribution."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of ['fan_in', 'fan_out']")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode.lower() == "fan_out"])


def _without_elements(tensor: Tensor) -> bool:
    if tensor.numel():
        return False
    warn("Initializing zero-element tensors is a no-op")
    return True


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """He's initial weights, from an even distribution."""
    if _without_elements(tensor):
        return tensor
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """He's initial weights, from a normal distribution."""
    return tensor if _without_elements(tensor) else normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a matrix whose rows or columns are orthogonal; dimensions after the first count as one."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    drawn = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
    wide = rows < drawn.shape[1]
    q, r = qr(drawn.t() if wide else drawn)
    q = q * r.diag().sign()  # of all factorisations the one that makes q evenly distributed
    return tensor.copy_((q.t() if wide else q).reshape(tensor.shape)).mul_(gain)


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill with normally distributed numbers, and a fraction of each column with zeros."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):  # as in PyTorch, which places are zero is drawn from the default generator
        tensor[randperm(rows)[: math.ceil(sparsity * rows)], column] = 0
    return tensor


def _old(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function by the name that it had before names of functions that write in place ended in an underscore."""
    name = function.__name__[:-1]

    @wraps(function)
    def old(*args: Any, **kwargs: Any) -> Tensor:
        words = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
        warn(words, FutureWarning)
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    return old


uniform, normal, constant, eye, dirac = _old(uniform_), _old(normal_), _old(constant_), _old(eye_), _old(dirac_)
xavier_uniform, xavier_normal = _old(xavier_uniform_), _old(xavier_normal_)
kaiming_uniform, kaiming_normal = _old(kaiming_uniform_), _old(kaiming_normal_)
orthogonal, sparse = _old(orthogonal_), _old(sparse_)
