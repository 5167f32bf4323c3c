"""dtype objects under all their PyTorch names, and what is asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops import promotion


class dtype:
    """A number type: PyTorch's name around NumPy's type. `.dtype` lets NumPy take one wherever it wants its own."""

    __slots__ = ("_dtype", "name", "word")

    def __init__(self, name: str, word: str, numpy: Any) -> None:
        self.name = name
        self.word = word
        self._dtype = None if numpy is None else np.dtype(numpy)

    @property
    def dtype(self) -> np.dtype[Any]:
        if self._dtype is None:
            import ml_dtypes  # bfloat16 only: not at import

            self._dtype = np.dtype(ml_dtypes.bfloat16)
            _OF_NUMPY[self._dtype] = self
        return self._dtype

    @property
    def is_floating_point(self) -> bool:
        return promotion.kind(self.dtype) == "f"

    @property
    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    @property
    def is_signed(self) -> bool:
        return self.dtype.kind not in "ub"

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def to_real(self) -> dtype:
        return of(np.empty(0, self.dtype).real.dtype)

    def to_complex(self) -> dtype:
        return of(np.result_type(self.dtype, np.complex64))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


float64 = double = dtype("float64", "Double", np.float64)
float32 = float = dtype("float32", "Float", np.float32)
float16 = half = dtype("float16", "Half", np.float16)
bfloat16 = dtype("bfloat16", "BFloat16", None)
int64 = long = dtype("int64", "Long", np.int64)
int32 = int = dtype("int32", "Int", np.int32)
int16 = short = dtype("int16", "Short", np.int16)
int8 = dtype("int8", "Char", np.int8)
uint8 = dtype("uint8", "Byte", np.uint8)
bool = dtype("bool", "Bool", np.bool_)
complex64 = cfloat = dtype("complex64", "ComplexFloat", np.complex64)
complex128 = cdouble = dtype("complex128", "ComplexDouble", np.complex128)

ALL = (float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool, complex64, complex128)
_OF_NUMPY: dict[Any, dtype] = {d._dtype: d for d in ALL if d._dtype is not None}


def of(numpy: Any) -> dtype:
    """The dtype object of a NumPy type."""
    found = _OF_NUMPY.get(numpy)
    if found is not None:
        return found
    if np.dtype(numpy).name == "bfloat16":
        return bfloat16 if bfloat16.dtype is not None else bfloat16
    name = np.dtype(numpy).newbyteorder("=")
    if name in _OF_NUMPY:
        return _OF_NUMPY[name]
    raise TypeError(
        f"can't convert np.ndarray of type {np.dtype(numpy)}. The only supported types are: "
        + ", ".join(d.name for d in ALL)
    )


def numpy_type(given: Any) -> np.dtype[Any]:
    """The NumPy type meant by a dtype object, a NumPy type or a Python type."""
    if isinstance(given, dtype):
        return given.dtype
    python = {"float": promotion.default_float(), "int": promotion.INT64, "bool": promotion.BOOL}
    if isinstance(given, type) and given.__module__ == "builtins" and given.__name__ in python:
        return python[given.__name__]
    if isinstance(given, (np.dtype, type)):
        return of(np.dtype(given)).dtype
    raise TypeError(f"dtype must be a symgrad dtype such as float32, got {given!r}")


def type_word(numpy: Any) -> str:
    """`Float`, `Long`: how PyTorch's messages and tensor type names call a type."""
    return of(numpy).word


def get_default_dtype() -> dtype:
    return of(promotion.default_float())


def set_default_dtype(d: dtype) -> None:
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    promotion.set_default_float(d.dtype)


def promote_types(x: dtype, y: dtype) -> dtype:
    return of(promotion.promote_types(x.dtype, y.dtype))
