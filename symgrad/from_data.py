"""Tensors from what Python and NumPy have: numbers, nested sequences, arrays, buffers.

The type follows PyTorch: Python numbers give bool, int64, the default float or its complex; arrays, NumPy scalars and tensors keep
theirs; what is mixed is promoted.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from symgrad import devices, dtypes
from symgrad.application import apply
from symgrad.computed_options import gathered, is_computed, known
from symgrad.escapes import COPIES, COPY, DLPACK, before_escape
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.ops.foreign import hint, native, sympy_array, without_mask
from symgrad.ops.promotion import kind, promote_types, scalar_type
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array
from symgrad.views import detach

__all__ = ["as_tensor", "asarray", "from_numpy", "frombuffer", "scalar_tensor", "tensor"]

_NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset(_NUMBERS)
_SUPPORTED = frozenset("bifc")

NEEDS_FLOAT = "Only Tensors of floating point and complex dtype can require gradients"
COPY_CONSTRUCTED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or"
    " sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)
NEGATIVE_STRIDE = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported."
    " (You can probably work around this by making a copy of your array with array.copy().)"
)
NOT_WRITABLE = (
    "The given NumPy array is not writable, and the tensor shares its memory: writing to the tensor in place will be refused."
    " Copy the array if you need to write."
)


def finish(array: Array, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf around an array, on a device that must be there."""
    if device is not None:
        devices.check(device)
    t = wrap(array)
    if requires_grad:
        if kind(array.dtype) not in "fc":
            raise RuntimeError(NEEDS_FLOAT)
        t._requires_grad = True
    if local.mode.capture is not None:
        local.mode.capture.on_constant(t)
    return t


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False, name: str | None = None
) -> Tensor:
    """A copy of `data` as a new leaf; `name` is what formulas call it."""
    if isinstance(data, Tensor):
        warn(COPY_CONSTRUCTED)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"tensor(): argument 'name' must be str, not {name.__class__.__name__}")
    if isinstance(data, Tensor) and local.mode.capture is not None:
        devices.check(device)
        wanted = data._array.dtype if dtype is None else dtypes.numpy_type(dtype)
        result: Tensor
        copied = apply(TABLE["clone"], (detach(data),), {})
        result = copied if copied._array.dtype == wanted else apply(TABLE["cast"], (copied,), {"dtype": wanted})
        result.requires_grad_(requires_grad)
    elif local.mode.capture is not None and any(map(is_computed, (numbers := known(data))[1])):
        devices.check(device)
        result = gathered(numbers[1], array_of(numbers[0], None if dtype is None else dtypes.numpy_type(dtype)))
        result.requires_grad_(requires_grad)
    else:
        result = finish(array_of(data, None if dtype is None else dtypes.numpy_type(dtype)), device, requires_grad)
    if name is not None:
        result.name = name
    return result


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory where the types allow it; a tensor keeps its history."""
    devices.check(device)
    if isinstance(data, Tensor):
        wanted = None if dtype is None else dtypes.numpy_type(dtype)
        return data if wanted is None or wanted == data._array.dtype else data.to(dtype)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared if dtype is None else as_tensor(shared, dtype)
    return tensor(data, dtype=dtype)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """`obj` as a tensor: copied if `copy` says so, shared if it says not, and else shared where that is possible."""
    devices.check(device)
    numpy_type = None if dtype is None else dtypes.numpy_type(dtype)
    source = _shared(obj)
    if source is None or copy:
        if copy is False:
            raise ValueError("can't alias an arbitrary sequence into a tensor.")
        result = wrap(array_of(obj, numpy_type)) if source is None else as_tensor(source, dtype)
        result = result.clone() if result is source else result
    else:
        if copy is False and numpy_type is not None and numpy_type != source._array.dtype:
            have, want = source.dtype.word, dtypes.of(numpy_type).word
            raise ValueError(f"can't alias tensor with dtype '{have}' into dtype '{want}'.")
        result = as_tensor(source, dtype)
    if requires_grad is None or requires_grad == result.requires_grad:
        return result
    return result.requires_grad_() if requires_grad else result.detach()


def _shared(obj: Any) -> Tensor | None:
    """A tensor on the memory of `obj`, if it is of a kind that has any."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") and not isinstance(obj, np.generic):
        return from_dlpack(obj)
    if isinstance(obj, (bytearray, memoryview)):
        return wrap(np.frombuffer(obj, np.uint8))
    return None


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the array's memory: who writes to one writes to the other."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {ndarray.__class__.__name__})")
    without_mask(ndarray)
    if any(step < 0 for step in ndarray.strides):
        raise ValueError(NEGATIVE_STRIDE)
    dtypes.of(ndarray.dtype)  # refuses types that tensors do not have
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently"
            " not supported."
        )
    if not ndarray.flags.writeable:
        warn(NOT_WRITABLE)
    return wrap(ndarray.view(np.ndarray))


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of any object that speaks DLPack: of NumPy, PyTorch, JAX... What it lends read-only stays so."""
    devices.check(device)
    if isinstance(ext_tensor, Tensor):
        before_escape(ext_tensor, DLPACK)
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        array = ext_tensor._array.view()
    else:
        array = np.from_dlpack(without_mask(ext_tensor))
    dtypes.of(array.dtype)
    return wrap(array.copy() if copy else array)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A one-dimensional tensor on the memory of an object with the buffer protocol."""
    array: Array = np.frombuffer(without_mask(buffer), dtypes.numpy_type(dtype), count, offset)
    if not array.flags.writeable:
        warn(NOT_WRITABLE.replace("NumPy array", "buffer"))
    return finish(array, None, requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor, of the default float unless another type is asked for."""
    return tensor(s, dtype=dtypes.get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


def array_of(data: Any, dtype: np.dtype[Any] | None) -> Array:
    """A fresh array with the values of `data`, in `dtype` or in the type that PyTorch infers."""
    if isinstance(data, Tensor):
        before_escape(data, COPY)
        data = data._array
    without_mask(data)
    foreign = hasattr(data, "__dlpack__") and hasattr(data, "__array__")  # JAX's, say
    data = np.asarray(data) if foreign else _number_of(data)
    if (rows := sympy_array(data)) is not None:
        return _cast(_sequence(rows, dtype).reshape(data.shape), dtype, from_python=True)  # a matrix without rows has columns
    if isinstance(data, (np.ndarray, np.generic)):
        dtypes.of(without_mask(data).dtype)
        return _cast(np.array(data, data.dtype.newbyteorder("=")), dtype)
    if isinstance(data, _NUMBERS):
        return _scalar(data, dtype)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{data.__class__.__name__}'")
    return _cast(_sequence(data, dtype), dtype, isinstance(data, (list, tuple)))


def _number_of(x: Any) -> Any:
    """A number of SymPy's, or a Fraction, as a Python number; anything else as it is."""
    plain = x if isinstance(x, Fraction) else native(x)
    return x if plain is None else float(plain) if isinstance(plain, Fraction) else plain


def _cast(array: Array, dtype: np.dtype[Any] | None, from_python: bool = False) -> Array:
    if dtype is None or array.dtype == dtype:
        return array
    if array.dtype.kind == "c" and kind(dtype) != "c" and from_python:
        raise TypeError("must be real number, not complex")
    if from_python and kind(dtype) == "i":
        _check_range(array, dtype)
    return quiet_cast(array, dtype)


def _check_range(values: Array, dtype: np.dtype[Any]) -> None:
    """Python numbers have to fit; for an unsigned type they may be negative, as in PyTorch."""
    high = int(np.iinfo(dtype).max)
    wrong = (values > high) | (values < (-high if dtype.kind == "u" else -high - 1))
    if wrong.any():
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {values[wrong].flat[0]}")


def quiet_cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers that the type cannot hold become infinite without a warning, as in PyTorch."""
    return array if array.dtype == dtype else local.mode.run(array.astype, dtype)


def _scalar(value: Any, dtype: np.dtype[Any] | None) -> Array:
    if dtype is None:
        dtype = scalar_type(value)
    if kind(dtype) in "bi":
        _check_width(value)
    if dtype.kind in "iu" and isinstance(value, (int, float)):
        largest = np.iinfo(dtype).max
        if not -largest - 1 <= value <= largest:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")
    return _cast(np.array(value), dtype, from_python=True)


def _check_width(value: Any) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"Overflow when unpacking long long: {value} does not fit in int64")


def _sequence(data: Any, wanted: np.dtype[Any] | None) -> Array:
    """NumPy reads a nested sequence of Python numbers fastest. Whatever else is in it, or wrong with it, is read element by element.

    If a type is wanted the values stay as wide as they came, for a cast that rounds only once.
    """
    if _starts_with_tensor(data):
        return _read(data, wanted)  # as an array it would be taken apart
    try:
        array = np.array(data)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return _read(data, wanted)
    if array.size == 0 and isinstance(data, (list, tuple)):
        return np.empty(_sizes(data), scalar_type(0.0)) if not _sizes(data)[-1] else _read(data, wanted)
    if array.dtype.kind not in _SUPPORTED or array.ndim == 0:
        return _read(data, wanted)
    flat = data
    for _ in range(array.ndim - 1):
        flat = chain.from_iterable(flat)
    types = set(map(type, flat))
    if not types <= _PLAIN:
        return _read(data, wanted)
    richest = max(types, key=_NUMBERS.index)
    return array if wanted is not None else quiet_cast(array, scalar_type(richest(0)))


def _starts_with_tensor(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, Tensor)


def _is_sequence(data: Any) -> bool:
    if isinstance(data, (Tensor, np.generic, *_NUMBERS, dict, set)):
        return False
    if hasattr(data, "ndim"):
        return bool(data.ndim > 0)
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _listed(data: Any) -> Any:
    """A SymPy matrix or array of numbers as nested lists, since its length is the number of all entries; anything else as it is."""
    rows = sympy_array(data)
    return data if rows is None else rows


def _sizes(data: Any) -> list[int]:
    """The shape that the first element at each depth announces."""
    sizes = []
    while _is_sequence(data):
        data = _listed(data)
        data = np.asarray(without_mask(data)) if isinstance(data, np.ndarray) else data  # a row of a matrix is a matrix
        if isinstance(data, (str, bytes)):
            raise ValueError(f"too many dimensions '{data.__class__.__name__}'")
        sizes.append(len(data))
        if not sizes[-1]:
            break
        data = data[0]
    return sizes


def _read(data: Any, wanted: np.dtype[Any] | None) -> Array:
    """Element by element, with PyTorch's errors."""
    sizes = _sizes(data)
    values: list[Any] = []
    found: list[np.dtype[Any]] = []
    _gather(data, sizes, 0, values, found)
    if not values:
        return np.empty(sizes, scalar_type(0.0))
    dtype = found[0]
    for other in set(found):
        dtype = promote_types(dtype, other)
    if kind(dtype if wanted is None else wanted) in "bi":
        for value in values:
            _check_width(value)
    array = np.array(values)
    return (array if wanted is not None else quiet_cast(array, dtype)).reshape(sizes)


def _gather(data: Any, sizes: list[int], dim: int, values: list[Any], found: list[np.dtype[Any]]) -> None:
    if dim == len(sizes):
        value, dtype = _element(data)
        values.append(value)
        found.append(dtype)
        return
    data = _listed(data)
    if not _is_sequence(data):
        raise TypeError(f"not a sequence: expected one of length {sizes[dim]} at dim {dim}, got {data.__class__.__name__}")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for item in np.asarray(without_mask(data)) if isinstance(data, np.ndarray) else data:
        _gather(item, sizes, dim + 1, values, found)


def _element(item: Any) -> tuple[Any, np.dtype[Any]]:
    if isinstance(item, Tensor):
        before_escape(item, COPIES)
    array = item._array if isinstance(item, Tensor) else np.asarray(item) if hasattr(item, "__dlpack__") else item
    item = array if isinstance(item, Tensor) else _number_of(item)
    if isinstance(array, (np.ndarray, np.generic)):
        if array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        dtypes.of(without_mask(array).dtype)
        return array.item(), array.dtype
    if isinstance(item, _NUMBERS):
        return item, scalar_type(item)
    if isinstance(item, (list, tuple)):
        raise TypeError(f"'{item.__class__.__name__}' object cannot be interpreted as an integer")
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{item.__class__.__name__}'")
    raise RuntimeError(f"Could not infer dtype of {item.__class__.__name__}{hint(item)}")
