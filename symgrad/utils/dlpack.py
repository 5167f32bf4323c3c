"""The old spelling of DLPack: `to_dlpack` makes a capsule, `from_dlpack` takes one or any object that makes one."""

from __future__ import annotations

from typing import Any

from symgrad.from_data import from_dlpack as _from_object
from symgrad.tensor import Tensor


class _Capsule:
    """A bare capsule as an object that speaks the protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule around the tensor's memory, which can be taken once."""
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on the memory of a capsule, or of an object that speaks DLPack."""
    return _from_object(ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor))
