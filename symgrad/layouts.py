"""Layouts and memory formats: PyTorch's names for how elements lie in memory. Here there is one layout, strided."""

from __future__ import annotations


class layout:
    """How elements are stored; only `strided` is in use."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(layout):
    """In which order dimensions lie in memory; only the contiguous one is in use."""

    __slots__ = ()


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
