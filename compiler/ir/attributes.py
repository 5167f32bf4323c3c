"""What an attribute of a graph value may be: None, `...`, Python's numbers and strings, number types, slices, arrays, tuples and mappings
of them, and a graph: the body of a loop, or a branch. A graph holds attributes in a plain, immutable form, and compares them by type and
bits."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from types import EllipsisType, MappingProxyType
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.errors import GraphError

_NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset((*_NUMBERS, str, type(None), EllipsisType))
_TYPES = frozenset(d.name for d in dtypes.ALL)
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Nested:
    """What is a graph: immutable, and equal to any other of the same structure."""


def plain(x: Any) -> Any:
    """The attribute in the form that a graph holds: of exact types, with nothing that anyone could write to."""
    if type(x) in _PLAIN or isinstance(x, (np.dtype, Nested)):
        return x
    if isinstance(x, (tuple, list)):
        return tuple(map(plain, x))
    if isinstance(x, (dict, Mapping)):  # dict first: most are, and Mapping is slow to ask
        return MappingProxyType({k: plain(x[k]) for k in sorted(x, key=_name)}) if x else _EMPTY
    if isinstance(x, slice):
        return slice(plain(x.start), plain(x.stop), plain(x.step))
    base: Any
    for base in (int, float, complex, str):
        if isinstance(x, base):  # a subclass of it, such as NumPy's float64
            return base(x)
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.name in _TYPES:
        native = x.astype(x.dtype.newbyteorder("="))
        return np.ndarray(native.shape, native.dtype, native.tobytes())  # bytes cannot be written to
    if _is_number_type(x):
        return np.dtype(x.dtype if isinstance(x, dtypes.dtype) else x)
    raise GraphError(f"a graph cannot hold an attribute of type {x.__class__.__name__}: {x!r}")


def freeze(x: Any) -> Any:
    """A hashable key of an attribute that tells types and bits apart."""
    return key_of(plain(x))


def key_of(x: Any) -> Any:
    """The key of an attribute that is plain already. It is the same in every process, unless it is that of a graph: itself."""
    how = _KEYS.get(x.__class__)
    if how is not None:
        return how(x)
    return ("graph", x) if isinstance(x, Nested) else ("dtype", type_name(x))


_KEYS: dict[type, Callable[[Any], Any]] = {  # of exact types, which is what plain attributes have
    type(None): repr,
    EllipsisType: repr,
    bool: lambda x: ("bool", x),
    int: lambda x: ("int", x),
    str: lambda x: ("str", x),
    float: lambda x: ("float", struct.pack("<d", x)),
    complex: lambda x: ("complex", struct.pack("<dd", x.real, x.imag)),
    tuple: lambda x: ("tuple", tuple([key_of(item) for item in x])),
    MappingProxyType: lambda x: ("mapping", tuple([(k, key_of(item)) for k, item in x.items()])),
    slice: lambda x: ("slice", key_of((x.start, x.stop, x.step))),
    np.ndarray: lambda x: ("array", str(x.dtype), x.shape, x.tobytes()),
}
type_name = functools.cache(str)
"""Of number types, which NumPy is slow to write."""


def _name(k: Any) -> str:
    if type(k) is str:
        return k
    raise GraphError(f"the keys of a mapping in a graph are strings, got {k!r}")


def _is_number_type(x: Any) -> bool:
    if isinstance(x, type):
        return x in _NUMBERS or (issubclass(x, np.generic) and x is not np.object_)
    return isinstance(x, dtypes.dtype)
