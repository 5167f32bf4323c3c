"""Convolutions and their transposes as modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from symgrad.creation import empty
from symgrad.nn import functional as F
from symgrad.nn.functional.convolution import Sizes, spread
from symgrad.nn.linear import fill, parameter_or_none
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvolutionBase(Module):
    """What both directions share: sizes, parameters, printed form."""

    dimensions: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes, padding: Sizes | str, dilation: Sizes,
        output_padding: Sizes, groups: int, bias: bool, padding_mode: str, weight_channels: tuple[int, int], device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups} groups")
        name, n = type(self).__name__, self.dimensions
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size, self.stride = spread(f"{name}: kernel_size", kernel_size, n), spread(f"{name}: stride", stride, n)
        self.padding: Any = padding if isinstance(padding, str) else spread(f"{name}: padding", padding, n)
        self.dilation = spread(f"{name}: dilation", dilation, n)
        self.output_padding = spread(f"{name}: output_padding", output_padding, n)
        self.weight = Parameter(empty(*weight_channels, *self.kernel_size, dtype=dtype, device=device))
        self.register_parameter("bias", parameter_or_none(bias, out_channels, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        fill(self.weight, self.bias)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.dimensions, (1,) * self.dimensions
        usual = {"padding": zeros, "dilation": ones, "output_padding": zeros, "groups": 1, "padding_mode": "zeros"}
        rest = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        mode = rest.pop("padding_mode", None)
        if self.bias is None:
            rest["bias"] = False
        if mode is not None:
            rest["padding_mode"] = mode
        shown = {"kernel_size": self.kernel_size, "stride": self.stride, **rest}
        return f"{self.in_channels}, {self.out_channels}, " + ", ".join(f"{name}={value}" for name, value in shown.items())


class _Convolution(_ConvolutionBase):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
        if padding == "same" and any(s != 1 for s in spread("stride", stride, self.dimensions)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got padding_mode={padding_mode!r}")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode,
            (out_channels, in_channels // groups), device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return self.function(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._edges(), self.padding_mode)
        return self.function(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _edges(self) -> list[int]:
        """What `pad` adds left and right, from the last dimension on."""
        if self.padding == "same":
            totals = [gap * (taps - 1) for taps, gap in zip(self.kernel_size, self.dilation, strict=True)]
        elif self.padding == "valid":
            totals = [0] * self.dimensions
        else:
            totals = [2 * edge for edge in self.padding]
        return [edge for total in reversed(totals) for edge in (total // 2, total - total // 2)]


class Conv1d(_Convolution):
    """Cross-correlation of (batch, channels, length) with weights (channels out, channels in / groups, length)."""

    dimensions = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """Cross-correlation of (batch, channels, height, width) with weights (channels out, channels in / groups, height, width)."""

    dimensions = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """Cross-correlation over three dimensions."""

    dimensions = 3
    function = staticmethod(F.conv3d)


class _Transposed(_ConvolutionBase):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
        groups: int = 1, bias: bool = True, dilation: Sizes = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode,
            (in_channels, out_channels // groups), device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(input, list(output_size))
        return self.function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Tensor, wanted: list[int]) -> list[int]:
        """The output padding that leads to the wanted sizes."""
        n = self.dimensions
        leading = 2 if input.ndim == n + 2 else 1
        sizes = wanted[leading:] if len(wanted) == leading + n else wanted
        if len(sizes) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or {leading + n} elements (got {len(sizes)})"
            )
        axes = zip(input.shape[leading:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(size - 1) * step - 2 * edge + gap * (taps - 1) + 1 for size, step, edge, gap, taps in axes]
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)):
            raise ValueError(
                f"requested an output size of {sizes}, but valid sizes range from {least} to {most} (for an input of {input.shape[2:]})"
            )
        return [size - low for size, low in zip(sizes, least, strict=True)]


class ConvTranspose1d(_Transposed):
    """The transpose of Conv1d; `output_size` chooses among the lengths that a stride leaves open."""

    dimensions = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """The transpose of Conv2d; `output_size` chooses among the sizes that a stride leaves open."""

    dimensions = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """The transpose of Conv3d; `output_size` chooses among the sizes that a stride leaves open."""

    dimensions = 3
    function = staticmethod(F.conv_transpose3d)
