"""Normalisation as modules: by statistics of the batch, the example, groups of channels or the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from symgrad.creation import ones, zeros
from symgrad.dtypes import int64
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.nn import functional as F, init
from symgrad.nn.linear import parameter_or_none
from symgrad.nn.module import Module
from symgrad.nn.options import Options
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
    "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Affine(Module):
    """A scale and a shift, which start as ones and zeros; either may be absent."""

    weight: Parameter | None
    bias: Parameter | None

    def _parameters_of(self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        self.register_parameter("weight", parameter_or_none(weight, *shape, dtype=dtype, device=device))
        self.register_parameter("bias", parameter_or_none(weight and bias, *shape, dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _Tracked(_Affine):
    """With running statistics, if they are asked for."""

    _version = 2
    ranks: ClassVar[tuple[int, ...]]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool, device: Any, dtype: Any,
        bias: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._parameters_of((num_features,), affine, bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype, device=device) if tracked else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype, device=device) if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any) -> None:
        """Version 1 did not count batches, nor need a file without versions."""
        if local_metadata.get("version", 1) < 2 and self.num_batches_tracked is not None:
            state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None},"
            f" track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Tracked):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if not self.training:
            by_batch = self.running_mean is None and self.running_var is None
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, by_batch, 0.0, self.eps)
        if not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        momentum = self._count_batch()
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, True, momentum, self.eps)

    def _count_batch(self) -> Any:
        """One batch more; without a momentum the running statistics are the mean of all batches."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                batches = self.num_batches_tracked
                if local.mode.capture is None:
                    return 1 / float(batches)
                rate = 1 / batches.double()
                return rate if self.running_mean is None else rate.to(self.running_mean.dtype)
        return 0.0 if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Each channel of (batch, channels) or (batch, channels, length) to mean 0 and variance 1 over the batch, then scaled and shifted."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of (batch, channels, height, width) to mean 0 and variance 1 over the batch, then scaled and shifted."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of (batch, channels, depth, height, width) to mean 0 and variance 1 over the batch, then scaled and shifted."""

    ranks = (5,)


class _InstanceNorm(_Tracked):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.ndim - self.ranks[0]
        if input.shape[channels] != self.num_features:
            self._refuse_channels(channels, input.shape[channels])
        if channels:
            return self._normalized(input)
        return self._normalized(input.unsqueeze(0)).squeeze(0)

    def _refuse_channels(self, dim: int, size: int) -> None:
        if self.affine:
            raise ValueError(f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {size}.")
        warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in num_features, which is"
            " not used because affine=False",
        )

    def _normalized(self, input: Tensor) -> Tensor:
        own = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each example of (batch, channels, length) to mean 0 and variance 1."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each example of (batch, channels, height, width) to mean 0 and variance 1."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each example of (batch, channels, depth, height, width) to mean 0 and variance 1."""

    ranks = (4, 5)


class LayerNorm(_Affine):
    """The last dimensions to mean 0 and variance 1, then scaled and shifted."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._parameters_of(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """The last dimensions divided by the root of their mean square, then scaled."""

    weight: Parameter | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", parameter_or_none(elementwise_affine, *self.normalized_shape, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Groups of channels to mean 0 and variance 1, then each channel scaled and shifted."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._parameters_of((num_channels,), affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


@dataclass(eq=False, repr=False)
class LocalResponseNorm(Options):
    """x / (k + alpha mean of x² over `size` neighbouring channels) ** beta."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
