"""How operand types meet, as in PyTorch: dimensioned tensors outrank 0-d tensors, which outrank Python scalars.

A row's `policy` says what happens to the common type:
    promote   compute in it                          add, mul, maximum
    float     as promote, integers become the default float    sin, div
    compare   operands meet, the result is bool      lt, eq
    first     the first operand's type               index_put, scatter
    where     all but the first meet                 where
    count     whole numbers and truth values become int64    cumsum
    each      operands keep their own types          gather's indices
    same      all must have one type already         matmul, solve
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

FLOAT32, FLOAT64, BOOL = (np.dtype(t) for t in (np.float32, np.float64, np.bool_))
INT64, INT32, UINT8 = (np.dtype(t) for t in (np.int64, np.int32, np.uint8))
COMPLEX64, COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_COMPLEX_OF: dict[np.dtype[Any], np.dtype[Any]] = {np.dtype(np.float16): COMPLEX64, FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}
_default = FLOAT32


def default_float() -> np.dtype[Any]:
    """The type of Python floats."""
    return _default


def set_default_float(dtype: np.dtype[Any]) -> None:
    """Change the type of Python floats."""
    global _default
    _default = dtype


_WORDS = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def word(dtype: Any) -> str:
    """How PyTorch's messages call a type."""
    return _WORDS[np.dtype(dtype).name]


def kind(dtype: np.dtype[Any]) -> str:
    """`b`, `i`, `f` or `c`: NumPy's kind with unsigned as integers and bfloat16 as a float."""
    letter = dtype.kind
    return _KINDS.get(letter, letter)


_KINDS = {"u": "i", "V": "f"}


def promote_types(x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any]:
    """Two tensor types of equal rank: an integer takes on the float's type, whatever its width."""
    if x == y:
        return x
    kx, ky = kind(x), kind(y)
    if kx in "bi" and ky in "fc":
        return y
    if ky in "bi" and kx in "fc":
        return x
    if x.kind == "V" or y.kind == "V":  # bfloat16 with another float
        other = y if x.kind == "V" else x
        return FLOAT32 if other.itemsize == 2 else other
    return np.promote_types(x, y)


def scalar_type(value: object) -> np.dtype[Any]:
    """The type of a Python number."""
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, (int, np.integer)):
        return INT64
    if isinstance(value, (float, np.floating)):
        return _default
    return _COMPLEX_OF.get(_default, COMPLEX64)


def wrapped(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as an operand of type `dtype`: a whole one that an integer type cannot hold wraps around, as in PyTorch."""
    if dtype.kind not in "iu" or type(value) is not int:
        return value
    low, count = int(np.iinfo(dtype).min), 1 << 8 * dtype.itemsize
    return (value - low) % count + low


def real_number(value: Any, word: str) -> float:
    """A complex number where a real one is wanted, which it is only without an imaginary part, as in PyTorch."""
    number = complex(value)
    if number.imag != 0:
        raise RuntimeError(f"value cannot be converted to type {word} without overflow: {number}")
    return number.real


def written(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number that is to be stored in a tensor of type `dtype`: it has to fit, or may be negative for an unsigned type."""
    if isinstance(value, (complex, np.complexfloating)) and kind(dtype) != "c":
        value = bool(value) if kind(dtype) == "b" else real_number(value, dtype.name)
    if dtype.kind not in "iu" or not isinstance(value, (int, float)):
        return value
    high = int(np.iinfo(dtype).max)
    if not (-high if dtype.kind == "u" else -high - 1) <= value <= high:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")
    return wrapped(value, dtype)


def _combine(higher: np.dtype[Any] | None, lower: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The type of the higher rank, unless the lower is of a richer kind."""
    if higher is None or lower is None:
        return higher or lower
    rank = "bifc"
    if rank.index(kind(lower)) <= rank.index(kind(higher)):
        return higher
    if kind(lower) == "c" and kind(higher) == "f":
        return _COMPLEX_OF.get(higher, COMPLEX64)
    return lower


def result_type(*operands: Any) -> np.dtype[Any]:
    """Of arrays (or anything with shape and dtype) and Python scalars."""
    dtype = getattr(operands[0], "dtype", None)
    for operand in operands:
        if dtype is None or getattr(operand, "dtype", None) is not dtype or isinstance(operand, np.generic):
            return _met(operands)
    return dtype  # type: ignore[return-value]


def _met(operands: tuple[Any, ...]) -> np.dtype[Any]:
    """The same for operands of different types."""
    ranks: list[np.dtype[Any] | None] = [None, None, None]  # dimensioned, 0-d, scalars
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype is None or isinstance(operand, np.generic):
            rank, dtype = 2, scalar_type(operand)
        else:
            rank = 0 if operand.shape else 1
        known = ranks[rank]
        ranks[rank] = dtype if known is None else promote_types(known, dtype)
    result = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    assert result is not None
    return result


def require_one_type(operands: Sequence[Any]) -> None:
    """Of arrays, and None for arguments left out. The complaint itself comes from the row's type rule."""
    try:
        dtype = operands[0].dtype
        for operand in operands:
            if operand is not None and operand.dtype is not dtype and operand.dtype != dtype:
                raise TypeError("operands must have one type")
    except AttributeError:
        raise TypeError("operands must be tensors") from None


def compute_type(policy: str, operands: tuple[Any, ...]) -> np.dtype[Any] | None:
    """The type that the operands are cast to before the kernel runs; None: each keeps its own."""
    if policy in ("each", "same"):
        return None
    if policy == "where":
        operands = operands[1:]
    if policy == "first":
        first: np.dtype[Any] = operands[0].dtype
        return first
    dtype = result_type(*operands)
    if policy in ("float", "count") and kind(dtype) in "bi":
        return _default if policy == "float" else INT64
    return dtype
