"""Padding as modules: (left, right, top, bottom, ...), or one number for all sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from symgrad.nn import functional as F
from symgrad.nn.module import Module
from symgrad.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip

Edges = int | Sequence[int]


class _Pad(Module):
    dimensions: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Edges) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.dimensions) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """A number around (..., length)."""

    dimensions, mode = 1, "constant"

    def __init__(self, padding: Edges, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """A number around (..., height, width)."""

    dimensions = 2


class ConstantPad3d(ConstantPad1d):
    """A number around (..., depth, height, width)."""

    dimensions = 3


class ZeroPad1d(_Pad):
    """Zeros around (..., length)."""

    dimensions, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Zeros around (..., height, width)."""

    dimensions, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Zeros around (..., depth, height, width)."""

    dimensions, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """What stands inside, mirrored, around (..., length)."""

    dimensions, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """What stands inside, mirrored, around (..., height, width)."""

    dimensions, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """What stands inside, mirrored, around (..., depth, height, width)."""

    dimensions, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The element at the edge, repeated, around (..., length)."""

    dimensions, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The elements at the edge, repeated, around (..., height, width)."""

    dimensions, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The elements at the edge, repeated, around (..., depth, height, width)."""

    dimensions, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """What stands at the other end, around (..., length)."""

    dimensions, mode = 1, "circular"


class CircularPad2d(_Pad):
    """What stands at the other end, around (..., height, width)."""

    dimensions, mode = 2, "circular"


class CircularPad3d(_Pad):
    """What stands at the other end, around (..., depth, height, width)."""

    dimensions, mode = 3, "circular"
