"""Normalisation and distances as functions, with PyTorch's signatures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.dtypes import finfo
from symgrad.functional.shaping import broadcast_tensors
from symgrad.mode import local
from symgrad.nn.functional.checks import require_floats, require_one_type, require_shape
from symgrad.nn.functional.pooling import avg_pool2d
from symgrad.ops.promotion import kind, result_type, word
from symgrad.ops.variants import is_half
from symgrad.tensor import Tensor

__all__ = [
    "batch_norm", "cosine_similarity", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "pairwise_distance", "rms_norm",
]  # fmt: skip


def _affine(
    input: Tensor, weight: Any, bias: Any, axes: tuple[int, ...], eps: float, title: str, shape: tuple[int, ...] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    return ops.affine_norm(
        input, 1 if weight is None else weight, 0 if bias is None else bias, axes=axes, eps=eps, shape=shape, title=f"{title}Backward0"
    )


def _channels(parameter: Tensor | None, ndim: int) -> Tensor | None:
    """A parameter with one element for each channel, ready to broadcast against (N, C, ...)."""
    return None if parameter is None else ops.reshape(parameter, shape=(1, -1, *(1,) * (ndim - 2)))


def _check_channels(name: str, input: Tensor, **parameters: Tensor | None) -> None:
    if input.ndim < 2:
        raise ValueError(f"{name}: expected an input of at least 2 dimensions, got {list(input.shape)}")
    for role, parameter in parameters.items():
        if parameter is not None and parameter.numel() != input.shape[1]:
            raise RuntimeError(f"{name}: {role} should contain {input.shape[1]} elements not {parameter.numel()}")


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """The last dimensions shifted and scaled to mean 0 and variance 1, then by weight and bias."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape or not shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{''.join(f', {n}' for n in shape)}], but got input of"
            f" size{list(input.shape)}"
        )
    require_shape("layer_norm", shape, weight=weight, bias=bias)
    require_one_type("layer_norm", input, weight=weight, bias=bias)
    require_floats("LayerNormKernelImpl", input)
    axes = tuple(range(input.ndim - len(shape), input.ndim))
    return _affine(input, weight, bias, axes, eps, "NativeLayerNorm")[0]


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """The last dimensions divided by the root of their mean square, then times weight."""
    shape = tuple(normalized_shape)
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {shape}], but got input of size {list(input.shape)}"
        )
    if not shape:
        raise RuntimeError("rms_norm: Expected normalized_shape to be at least 1-dimensional, but got normalized_shape = []")
    require_shape("rms_norm", shape, weight=weight)
    require_floats("rms_norm", input)
    require_one_type("rms_norm", input, weight=weight)
    if is_half(input._array.dtype):  # squares leave the range of half precision
        narrow = input.dtype
        return rms_norm(input.float(), shape, None if weight is None else weight.float(), eps).to(narrow)
    eps = finfo(input.dtype).eps if eps is None else eps
    axes = tuple(range(input.ndim - len(shape), input.ndim))
    out = input * ((input * input).mean(axes, True) + eps).rsqrt()
    return out if weight is None else out * weight


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over batch and positions for each channel; while training the running statistics are updated in place."""
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm eps must be positive, but got {eps}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("batch_norm: running_mean and running_var must be defined in evaluation mode")
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    require_floats("batch_norm", input)
    require_one_type("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    scale, shift = _channels(weight, input.ndim), _channels(bias, input.ndim)
    if not training and running_mean is not None and running_var is not None:
        return _as_input(_by_statistics(input, running_mean, running_var, scale, shift, eps), input)
    axes = (0, *range(2, input.ndim))
    count = input.numel() // max(input.shape[1], 1)
    if not input.numel():
        return _unchanged(input, scale, shift)
    if training and count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    out, mean, rate = _affine(input, scale, shift, axes, eps, "NativeBatchNorm")
    _track(running_mean, running_var, mean, rate, count, momentum, eps)
    return _as_input(out, input)


def _as_input(out: Tensor, input: Tensor) -> Tensor:
    """The result in half precision if the input is: the parameters may be single floats."""
    return out if out._array.dtype == input._array.dtype else ops.cast(out, dtype=input._array.dtype)


def _unchanged(input: Tensor, scale: Any, shift: Any) -> Tensor:
    """For empty inputs, which have no statistics: weight and bias get gradients of zeros."""
    return ops.normalize_by(input, 0, 1, 1 if scale is None else scale, 0 if shift is None else shift)


def _by_statistics(input: Tensor, mean: Tensor, var: Tensor, scale: Any, shift: Any, eps: float) -> Tensor:
    shape = (mean.numel(), *(1,) * (input.ndim - 2))
    rate = ops.reshape(ops.rsqrt(var.detach() + eps), shape=shape)
    middle = ops.reshape(mean.detach(), shape=shape)
    return ops.normalize_by(input, middle, rate, 1 if scale is None else scale, 0 if shift is None else shift)


def _track(running_mean: Any, running_var: Any, mean: Tensor, rate: Tensor, count: int, momentum: float, eps: float) -> None:
    mode = local.mode
    recording, mode.recording = mode.recording, False
    try:
        if running_mean is not None:
            running_mean.lerp_(mean.reshape(-1), momentum)
        if running_var is not None:
            variance = (1 / (rate * rate) - eps).reshape(-1)
            running_var.lerp_(variance * (count / (count - 1)), momentum)
    finally:
        mode.recording = recording


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Groups of channels shifted and scaled to mean 0 and variance 1, then by weight and bias."""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim} (group_norm)")
    n, c, *rest = input.shape
    if num_groups < 1 or c % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(input.shape)} and"
            f" num_groups={num_groups}"
        )
    require_one_type("group_norm", input, weight=weight, bias=bias)
    require_floats("GroupNormKernelImpl", input)
    shape = (n, num_groups, c // num_groups, *rest)

    def arranged(name: str, parameter: Tensor | None) -> Tensor | None:
        if parameter is None:
            return None
        if tuple(parameter.shape) != (c,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape"
                f" {list(parameter.shape)} and input of shape {list(input.shape)}"
            )
        return ops.reshape(parameter, shape=(1, num_groups, c // num_groups, *(1,) * len(rest)))

    axes = tuple(range(2, len(shape)))
    return _affine(input, arranged("weight", weight), arranged("bias", bias), axes, eps, "NativeGroupNorm", shape)[0]


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each example shifted and scaled to mean 0 and variance 1, then by weight and bias."""
    _check_channels("instance_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    require_floats("batch_norm", input)
    require_one_type("instance_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    scale, shift = _channels(weight, input.ndim), _channels(bias, input.ndim)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return _as_input(_by_statistics(input, running_mean, running_var, scale, shift, eps), input)
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if not input.numel():
        return _unchanged(input, scale, shift)
    out, mean, rate = _affine(input, scale, shift, tuple(range(2, input.ndim)), eps, "NativeBatchNorm")
    if running_mean is not None or running_var is not None:
        variance = (1 / (rate * rate)).mean(0)
        _track(running_mean, running_var, mean.mean(0), variance.rsqrt(), count, momentum, eps)
    return _as_input(out, input)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha mean of x² over `size` neighbouring channels) ** beta."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    padded = ops.pad(squares, widths=((0, 0), (0, 0), (size // 2, (size - 1) // 2), (0, 0)), value=0)
    means = avg_pool2d(padded, (size, 1), 1).reshape(input.shape)
    return input / (means * alpha + k) ** beta


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divided by the p-norm along `dim`."""
    result = input / input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return result if out is None else out.copy_(result)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`."""
    common = result_type(x1._array, x2._array)
    if kind(common) != "f":
        raise RuntimeError(f"cosine_similarity: expected common dtype to be floating point, yet common dtype is {word(common)}")
    if eps < 0:
        raise RuntimeError(f"cosine_similarity: expected eps to be non-negative, got {eps}")
    x1, x2 = (x if x._array.dtype == common else ops.cast(x, dtype=common) for x in (x1, x2))
    if x1.shape != x2.shape:  # a dimension of size 1 counts as often as it is repeated, also in the norms
        x1, x2 = broadcast_tensors(x1, x2)
    return ((x1 / held(x1.norm(2, dim, True), eps)) * (x2 / held(x2.norm(2, dim, True), eps))).sum(dim)


def held(x: Tensor, low: float) -> Tensor:
    """`x`, at least `low`; the gradient passes everywhere, as in PyTorch, which raises the values without recording it."""
    return x + (low - x.detach()).clamp_min(0)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)
