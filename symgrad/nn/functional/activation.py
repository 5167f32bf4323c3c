"""Activations as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.dtypes import float64
from symgrad.functional.neural import hardshrink, over_axis, prelu
from symgrad.lines import warn
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor
from symgrad.views import inplace as in_place

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu",
    "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "threshold_",
]  # fmt: skip

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _maybe_inplace(op: Any, input: Tensor, inplace: bool, **attrs: Any) -> Tensor:
    return in_place(op)(input, **attrs) if inplace else op(input, **attrs)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, x) of every element."""
    return _maybe_inplace(ops.relu, input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope x."""
    return _maybe_inplace(ops.leaky_relu, input, inplace, negative_slope=negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (exp(x) - 1)."""
    return _maybe_inplace(ops.elu, input, inplace, alpha=alpha, scale=1, rate=1)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """A scaled elu that keeps mean 0 and variance 1 from layer to layer."""
    return _maybe_inplace(ops.elu, input, inplace, alpha=SELU_ALPHA, scale=SELU_SCALE, rate=1)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (exp(x / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _maybe_inplace(ops.celu, input, inplace, alpha=alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x) with the normal distribution function Φ, or its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return ops.gelu(input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)."""
    return _maybe_inplace(ops.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))."""
    return _maybe_inplace(ops.mish, input, inplace)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    return ops.softplus(input, beta=beta, threshold=threshold)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return ops.log_sigmoid(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - ops.tanh(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clamped to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _maybe_inplace(ops.hardtanh, input, inplace, low=min_val, high=max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x clamped to [0, 6]."""
    return hardtanh(input, 0, 6, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 clamped to [0, 1]."""
    return _maybe_inplace(ops.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)."""
    return _maybe_inplace(ops.hardswish, input, inplace)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return ops.softshrink(input, lambd=lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else `value`."""
    bounds: tuple[Any, ...] = (threshold, value)
    for given in bounds:
        if given is None or isinstance(given, (str, tuple, list)):
            raise TypeError(f"threshold(): bounds must be numbers, not {given.__class__.__name__}")
    return _maybe_inplace(ops.threshold, input, inplace, threshold=threshold, value=value)


def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """The slope below 0 is drawn for each element while training, else the mean of the bounds."""
    if not lower <= upper < math.inf:
        raise RuntimeError(f"rrelu: expected finite bounds with lower <= upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _drawn_slopes(input.detach(), lower, upper)
    return _maybe_inplace(lambda x: ops.prelu(x, slope), input, inplace)


def _drawn_slopes(x: Tensor, lower: float, upper: float) -> Tensor:
    """One for each element that is not positive, drawn in double precision as PyTorch does; 1 elsewhere."""
    bent = x <= 0
    count = int(bent.sum())
    if not count:
        return x.new_ones(x.shape)
    drawn = x.new_empty(count, dtype=float64).uniform_(lower, upper).to(x.dtype)
    places = (bent.reshape(-1).cumsum(0) - 1).clamp(0, count - 1).reshape(x.shape)
    return ops.where(bent, drawn[places], 1)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim`, gated by the sigmoid of the second."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    return ops.glu(input, axis=normalize_axis(dim, input.ndim))


def _axis(name: str, input: Tensor, dim: int | None) -> int:
    if dim is not None:
        return dim
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
    return over_axis(ops.softmax, input, _axis("softmax", input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """x - log(sum(exp(x))) along `dim`."""
    return over_axis(ops.log_softmax, input, _axis("log_softmax", input, dim), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x) along `dim`."""
    return over_axis(ops.softmax, -input, _axis("softmin", input, dim), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A draw from the categories with these log-odds, softened by tau; if `hard`, one-hot with the gradient of the soft one."""
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    gumbels = -logits.detach().new_empty(logits.shape).exponential_().log()
    soft = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    chosen = soft.detach().max(dim, keepdim=True)[1]
    return soft.detach().new_zeros(soft.shape).scatter(dim, chosen, 1.0) - soft.detach() + soft


def tanh(input: Tensor) -> Tensor:
    """tanh of every element."""
    return ops.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) of every element."""
    return ops.sigmoid(input)


relu_, leaky_relu_, elu_, selu_, celu_, hardtanh_, threshold_, rrelu_ = (
    in_place(f) for f in (relu, leaky_relu, elu, selu, celu, hardtanh, threshold, rrelu)
)
