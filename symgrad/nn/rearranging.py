"""Layers that rearrange elements or change how many there are: flattening, folding, shuffling, upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.nn import functional as F
from symgrad.nn.functional.convolution import Sizes
from symgrad.nn.module import Module
from symgrad.nn.options import Options
from symgrad.ops.foreign import class_name
from symgrad.tensor import Tensor

__all__ = [
    "ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


@dataclass(eq=False, repr=False)
class Flatten(Options):
    """The dimensions from `start_dim` to `end_dim` become one."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


@dataclass(eq=False, repr=False)
class Unflatten(Options):
    """One dimension becomes several."""

    dim: int
    unflattened_size: Sequence[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.unflattened_size
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {sizes.__class__.__name__}")
        for place, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(f"unflattened_size must be tuple of ints, but found element of type {class_name(size)} at pos {place}")

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


@dataclass(eq=False, repr=False)
class Unfold(Options):
    """The windows of (batch, channels, height, width) as columns."""

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


@dataclass(eq=False, repr=False)
class Fold(Options):
    """Columns added up where their windows stand: the transpose of Unfold."""

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


@dataclass(eq=False, repr=False)
class PixelShuffle(Options):
    """(C r², H, W) as (C, H r, W r): channels become neighbours."""

    upscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


@dataclass(eq=False, repr=False)
class PixelUnshuffle(Options):
    """(C, H r, W r) as (C r², H, W): neighbours become channels."""

    downscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


@dataclass(eq=False, repr=False)
class ChannelShuffle(Options):
    """The channels of all groups, dealt out in turn."""

    groups: int

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


class Upsample(Module):
    """To another size, or by a factor: each element the nearest one, or an interpolation."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners, self.recompute_scale_factor = size, mode, align_corners, recompute_scale_factor
        self.scale_factor: Any = None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        elif scale_factor:
            self.scale_factor = float(scale_factor)

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, recompute_scale_factor=self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        target = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of (batch, channels, height, width) by the nearest elements."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of (batch, channels, height, width) by linear interpolation that meets the corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
