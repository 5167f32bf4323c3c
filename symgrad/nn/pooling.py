"""Pools as modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from symgrad.nn import functional as F
from symgrad.nn.functional.convolution import Sizes, spread
from symgrad.nn.module import Module
from symgrad.nn.options import Options
from symgrad.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

# --- largest elements


@dataclass(eq=False, repr=False)
class _MaxPool(Options):
    kernel_size: Sizes
    stride: Any = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = field(default=False, repr=False)
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stride = self.kernel_size if self.stride is None else self.stride

    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices


class MaxPool1d(_MaxPool):
    """The largest element of each window of (batch, channels, length)."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPool):
    """The largest element of each window of (batch, channels, height, width)."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPool):
    """The largest element of each window over three dimensions."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, *self._arguments())


class _MaxUnpool(Module):
    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0) -> None:
        super().__init__()
        name, n = type(self).__name__, self.dimensions
        self.kernel_size = spread(f"{name}: kernel_size", kernel_size, n)
        self.stride = spread(f"{name}: stride", kernel_size if stride is None else stride, n)
        self.padding = spread(f"{name}: padding", padding, n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self.function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts the elements that MaxPool1d found back where they stood, with zeros around them."""

    dimensions = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Puts the elements that MaxPool2d found back where they stood, with zeros around them."""

    dimensions = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """Puts the elements that MaxPool3d found back where they stood, with zeros around them."""

    dimensions = 3
    function = staticmethod(F.max_unpool3d)


# --- means and norms


@dataclass(eq=False, repr=False)
class AvgPool1d(Options):
    """The mean of each window of (batch, channels, length)."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = field(default=False, repr=False)
    count_include_pad: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stride = spread("AvgPool1d: stride", self.kernel_size if self.stride is None else self.stride, 1)
        self.kernel_size = spread("AvgPool1d: kernel_size", self.kernel_size, 1)
        self.padding = spread("AvgPool1d: padding", self.padding, 1)

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


@dataclass(eq=False, repr=False)
class AvgPool2d(Options):
    """The mean of each window of (batch, channels, height, width)."""

    kernel_size: Sizes
    stride: Any = None
    padding: Sizes = 0
    ceil_mode: bool = field(default=False, repr=False)
    count_include_pad: bool = field(default=True, repr=False)
    divisor_override: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stride = self.kernel_size if self.stride is None else self.stride

    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(AvgPool2d):
    """The mean of each window over three dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


@dataclass(eq=False, repr=False)
class _LPPool(Options):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


class LPPool1d(_LPPool):
    """The p-norm of each window of (batch, channels, length)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The p-norm of each window of (batch, channels, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The p-norm of each window over three dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


# --- with windows that follow from the size of the result


@dataclass(eq=False, repr=False)
class _AdaptiveAvgPool(Options):
    output_size: Any


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of as many windows as the result shall have elements."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of as many windows as the result shall have rows and columns."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of as many windows as the result shall have elements in each of three dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


@dataclass(eq=False, repr=False)
class _AdaptiveMaxPool(Options):
    output_size: Any
    return_indices: bool = field(default=False, repr=False)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of as many windows as the result shall have elements."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of as many windows as the result shall have rows and columns."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of as many windows as the result shall have elements in each of three dimensions."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
