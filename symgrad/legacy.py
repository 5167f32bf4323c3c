"""The constructors of old programs: `Tensor(3, 4)`, `FloatTensor([1, 2])`, and the tensor types that `.type()` names."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import devices, dtypes
from symgrad.from_data import array_of
from symgrad.ops.promotion import default_float
from symgrad.tensor import Size, Tensor, wrap
from symgrad.typing import Array

TYPES = {f"{d.word}Tensor": d for d in dtypes.ALL}
__all__ = [  # noqa: RUF022  (from wide to narrow)
    "DoubleTensor", "FloatTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor", "ShortTensor", "CharTensor",
    "ByteTensor", "BoolTensor", "ComplexFloatTensor", "ComplexDoubleTensor", "set_default_tensor_type",
]  # fmt: skip


class tensor_type:
    """`FloatTensor`: makes tensors of one type, tells whether a tensor is of it, and is what `.type(...)` takes."""

    __module__ = "torch"

    def __init__(self, name: str, place: str = "cpu") -> None:
        self.__name__ = self.__qualname__ = name
        self.dtype = TYPES[name]
        self.place = place

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        devices.check(self.place if device is None else device)
        return wrap(construct(args, self.dtype.dtype))

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Tensor) and self.place == "cpu" and instance.dtype is self.dtype

    def full_name(self) -> str:
        return f"torch.{self.__name__}" if self.place == "cpu" else f"torch.{self.place}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<class '{self.full_name()}'>"


def construct(args: tuple[Any, ...], dtype: np.dtype[Any] | None) -> Array:
    """Sizes, or one sequence of values, or one tensor whose memory is shared."""
    wanted = default_float() if dtype is None else dtype
    if len(args) == 1 and not isinstance(args[0], int):
        return _from_one(args[0], dtype, wanted)
    if not args:
        return np.empty(0, wanted)
    if not all(isinstance(size, int) for size in args):
        given = ", ".join(size.__class__.__name__ for size in args)
        raise TypeError(f"new() received an invalid combination of arguments - got ({given}), but expected sizes or one sequence")
    return np.empty(args, wanted)


def _from_one(data: Any, dtype: np.dtype[Any] | None, wanted: np.dtype[Any]) -> Array:
    if isinstance(data, Size):
        return np.empty(data, wanted)
    if isinstance(data, Tensor):
        if dtype is not None and data._array.dtype != dtype:
            raise TypeError(f"expected a tensor of {dtypes.of(dtype)}, got one of {data.dtype}: convert it with .to(...)")
        return data._array
    if isinstance(data, (float, complex, str, bytes)) or data is None:
        raise TypeError(f"new(): data must be a sequence (got {data.__class__.__name__})")
    return array_of(data, wanted)


def parse(text: str) -> tensor_type:
    """`torch.FloatTensor`, `torch.cuda.LongTensor`: the type of that name."""
    parts = text.split(".")
    if parts[-1] not in TYPES or parts[0] not in ("torch", "symgrad") or not (len(parts) == 2 or parts[1:-1] == ["cuda"]):
        raise ValueError(f"invalid type: '{text}'")
    return tensor_type(parts[-1], "cpu" if len(parts) == 2 else "cuda")


def set_default_tensor_type(t: Any) -> None:
    """The old spelling of `set_default_dtype`."""
    chosen = parse(t) if isinstance(t, str) else t
    if not isinstance(chosen, tensor_type):
        raise TypeError(f"invalid type object: {t!r}")
    devices.check(chosen.place)
    dtypes.set_default_dtype(chosen.dtype)


DoubleTensor = tensor_type("DoubleTensor")
FloatTensor = tensor_type("FloatTensor")
HalfTensor = tensor_type("HalfTensor")
BFloat16Tensor = tensor_type("BFloat16Tensor")
LongTensor = tensor_type("LongTensor")
IntTensor = tensor_type("IntTensor")
ShortTensor = tensor_type("ShortTensor")
CharTensor = tensor_type("CharTensor")
ByteTensor = tensor_type("ByteTensor")
BoolTensor = tensor_type("BoolTensor")
ComplexFloatTensor = tensor_type("ComplexFloatTensor")
ComplexDoubleTensor = tensor_type("ComplexDoubleTensor")
