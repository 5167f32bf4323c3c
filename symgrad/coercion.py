"""What may stand for a tensor: Python and NumPy numbers, arrays, nested lists of numbers, SymPy numbers and jax arrays.

Types follow PyTorch. A Python number is weak: a float takes the width of the floating-point tensors beside it, and the default type if
there are none. What NumPy and JAX give keeps its dtype. Tuples are never data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.application import constant
from symgrad.dispatch import tensors as ops
from symgrad.from_data import array_of, finish
from symgrad.mode import current_capture
from symgrad.ops.exact import exact
from symgrad.ops.foreign import class_name, hint, native, python_number, sympy_array, without_mask
from symgrad.ops.promotion import default_float, kind, promote_types, result_type, scalar_type, written
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.tensor import Tensor, wrap

NUMBERS = (bool, int, float, complex)


def stands_for_tensor(x: Any) -> bool:
    """Whether a value may be given where a tensor is expected."""
    if isinstance(x, (Tensor, *NUMBERS, Fraction, np.generic, np.ndarray, list)):
        return True
    return native(x) is not None or sympy_array(x) is not None


def tensors_of(values: Sequence[Any]) -> list[Tensor]:
    """Each value as a tensor, in the types that they have beside each other; TypeError for what cannot be one."""
    found = [_typed(x) for x in values]
    width = float_width(x for x in found if isinstance(x, Tensor))
    return [x if isinstance(x, Tensor) else _weak(x, width) for x in found]


def points_of(values: Sequence[Any], beside: Iterable[Any] = ()) -> list[Tensor]:
    """Values to differentiate in: as tensors, in the types that they have beside other ones. An integer there is a float."""
    others = [x for x in beside if isinstance(x, (Tensor, np.ndarray))]
    return tensors_of([*map(_float_of_integer, values), *others])[: len(values)]


def _float_of_integer(x: Any) -> Any:
    """A float for an integer of Python's, NumPy's or SymPy's, or a fraction that is one; anything else as it is."""
    number = x if isinstance(x, (int, np.integer, Fraction)) else native(x)
    integer = isinstance(number, (int, np.integer, Fraction)) and not isinstance(number, bool) and number == int(number)
    return float(number) if integer else x


def tensor_of(value: Any) -> Tensor:
    """A value alone as a tensor."""
    return tensors_of((value,))[0]


def tensor_argument(name: str, value: Any, argument: str = "'input' (position 1)", *beside: Tensor) -> Tensor:
    """The argument of a function as a tensor, beside other ones."""
    if value.__class__ is Tensor or isinstance(value, Tensor):
        return value
    if not stands_for_tensor(value):
        raise TypeError(f"{name}(): argument {argument} must be Tensor, not {class_name(value)}{hint(value)}")
    return tensors_of((value, *beside))[0]


def stored(value: Any, dtype: np.dtype[Any]) -> Any:
    """One value that becomes an element of a tensor of this type: a number that fits, or a tensor. What is neither is left to the caller.

    A complex number must not lose its imaginary part; while a function is traced no tensor is known to have none.
    """
    if isinstance(value, (*NUMBERS, np.generic)):
        return written(value, dtype)
    if not isinstance(value, Tensor):
        known = isinstance(value, (Fraction, np.ndarray)) or native(value) is not None
        return stored(_typed(value), dtype) if known else value
    if kind(value._array.dtype) == "c" and kind(dtype) in "if" and (current_capture() is not None or value._array.imag.any()):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: a complex tensor; store its real part")
    return value


def beside(factor: Any, *tensors: Any) -> Any:
    """A number, or a tensor of one, that is computed with real tensors, and then must be real, too; anything else as it is."""
    factor = python_number(factor)
    given = factor._array.dtype if isinstance(factor, Tensor) else None
    if not (isinstance(factor, complex) if given is None else kind(given) == "c"):
        return factor
    like = next(t._array.dtype for t in tensors if isinstance(t, Tensor))
    if any(kind(t._array.dtype) == "c" for t in tensors if isinstance(t, Tensor)):
        return factor
    return stored(factor, like) if given is None else ops.real(stored(factor, like))


def tensor_list(name: str, values: Iterable[Any], argument: int = 0) -> list[Tensor]:
    """The elements of a sequence of tensors, in which other values may stand for them."""
    given = list(values)
    for i, value in enumerate(given):
        if not stands_for_tensor(value):
            got = f"{class_name(value)}{hint(value)}"
            raise TypeError(f"expected Tensor as element {i} in argument {argument}, but got {got} ({name})")
    return given if all(isinstance(x, Tensor) for x in given) else tensors_of(given)


def float_width(tensors: Iterable[Tensor]) -> np.dtype[Any]:
    """The type that a Python float takes beside these tensors."""
    found: Any = None
    for t in tensors:
        dtype = t._storage.dtype
        if kind(dtype) == "c":
            dtype = np.dtype(f"f{dtype.itemsize // 2}")
        if kind(dtype) == "f":
            found = dtype if found is None else promote_types(found, dtype)
    return default_float() if found is None else found


def _typed(x: Any) -> Any:
    """What has a type of its own as a tensor; Python numbers, lists, and SymPy arrays, as they are."""
    if isinstance(x, (Tensor, list)) or (isinstance(x, NUMBERS) and not isinstance(x, np.generic)):
        return x
    if isinstance(x, Fraction):
        return exact(x)
    if isinstance(x, np.generic):
        return _of_array(np.asarray(x))
    if isinstance(x, np.ndarray):
        return _of_array(x)
    if sympy_array(x) is not None:
        return x
    plain = native(x)
    if plain is None:
        raise TypeError(f"{class_name(x)}{hint(x)}")
    return finish(plain) if isinstance(plain, np.ndarray) else _typed(plain)


def _of_array(array: Any) -> Tensor:
    """Around the memory of an array: a compiled function reads it at every call."""
    without_mask(array)
    dtypes.of(array.dtype)  # refuses what tensors cannot hold
    plain = array.view(np.ndarray)
    return wrap(plain if array.dtype.isnative or current_capture() is not None else plain.astype(array.dtype.newbyteorder("=")))


def _weak(x: Any, width: np.dtype[Any]) -> Tensor:
    """A Python number, or a nested list, beside floating-point tensors of this type."""
    if isinstance(x, list):
        return _of_list(x, width)
    if sympy_array(x) is not None:
        return finish(_weak_array(x, width))
    dtype = _weak_type(x, width)
    if is_symbolic_scalar(x):
        return ops.cast(ops.mul(constant(np.ones((), np.asarray(x.number).dtype), 1), x), dtype=dtype)
    return constant(np.asarray(float(x) if isinstance(x, float) else x, dtype), x)


def _weak_type(x: Any, width: np.dtype[Any]) -> np.dtype[Any]:
    if isinstance(x, complex):
        return result_type(np.empty(1, width), 1j)
    return width if isinstance(x, float) else scalar_type(x)


def _of_list(data: list[Any], width: np.dtype[Any]) -> Tensor:
    leaves = list(_leaves(data))
    if any(isinstance(x, Tensor) or is_symbolic_scalar(x) for x in leaves):
        return _joined(data, leaves)
    plain = [native(x) for x in leaves]
    if any(x is not None for x in plain):
        return _joined(data, leaves)
    return finish(_weak_array(data, width) if all(type(x) in NUMBERS for x in leaves) else array_of(data, None))


def _weak_array(data: Any, width: np.dtype[Any]) -> Any:
    """The values of a nested list or SymPy array of numbers, of which floats take this type."""
    array = array_of(data, None)
    if kind(array.dtype) not in "fc":
        return array
    wanted = width if kind(array.dtype) == "f" else result_type(np.empty(1, width), 1j)
    return array if wanted == array.dtype else array_of(data, wanted)


def _leaves(data: Any) -> Iterator[Any]:
    rows = data if isinstance(data, list) else sympy_array(data)
    if rows is not None:
        for x in rows:
            yield from _leaves(x)
    elif isinstance(data, tuple):
        raise TypeError(f"list{hint(data)}")
    else:
        yield data


def _joined(data: list[Any], leaves: list[Any]) -> Tensor:
    """A list in which numbers are 0-d tensors, or arguments of a traced function: they keep their history."""
    for x in leaves:
        if isinstance(x, Tensor) and x.ndim:
            raise TypeError(f"list of tensors of shape {tuple(x.shape)}: stack them with sg.stack")
    tensors = tensors_of(leaves)
    shape = array_of(_shape_of(data), None).shape
    dtype = result_type(*(np.empty((), t._storage.dtype) for t in tensors))
    parts = [ops.reshape(t if t._storage.dtype == dtype else ops.cast(t, dtype=dtype), shape=(1,)) for t in tensors]
    return ops.reshape(ops.cat(*parts, axis=0), shape=shape)


def _shape_of(data: Any) -> Any:
    """The nested list with zeros: what its sizes are, or which of them do not fit."""
    rows = data if isinstance(data, list) else sympy_array(data)
    return 0.0 if rows is None else [_shape_of(x) for x in rows]
