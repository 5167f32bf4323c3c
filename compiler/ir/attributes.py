"""Attributes of graph values: None, `...`, Python numbers and strings, dtypes, slices, arrays, tuples and mappings of these, and graphs
(the body of a loop, or a branch). A graph stores attributes in a plain, immutable form and compares them by type and bits."""

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
    """Base class of graphs among attributes: immutable, and equal to any other with the same structure."""


def plain(x: Any) -> Any:
    """Return the attribute in the form that a graph stores: exact built-in types, immutable throughout."""
    if type(x) in _PLAIN or isinstance(x, (np.dtype, Nested)):
        return x
    if isinstance(x, (tuple, list)):
        return tuple([item if type(item) in _PLAIN else plain(item) for item in x])
    if isinstance(x, (dict, Mapping)):  # dict first: most are, and isinstance of Mapping is slow
        return MappingProxyType({k: v if type(v := x[k]) in _PLAIN else plain(v) for k in _sorted_names(x)}) if x else _EMPTY
    if isinstance(x, slice):
        return slice(plain(x.start), plain(x.stop), plain(x.step))
    base: Any
    for base in (int, float, complex, str):
        if isinstance(x, base):  # a subclass, such as np.float64
            return base(x)
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.name in _TYPES:
        native = x.astype(x.dtype.newbyteorder("="))
        return np.ndarray(native.shape, native.dtype, native.tobytes())  # an array on bytes is read-only
    if _is_number_type(x):
        return np.dtype(x.dtype if isinstance(x, dtypes.dtype) else x)
    raise GraphError(f"a graph cannot hold an attribute of type {x.__class__.__name__}: {x!r}")


def freeze(x: Any) -> Any:
    """Return a hashable key of an attribute that distinguishes types and bits."""
    return key_of(plain(x))


def key_of(x: Any) -> Any:
    """Return the key of an attribute that is already plain: the same in every process, except that a graph is its own key."""
    cls = x.__class__
    if cls is MappingProxyType:
        return "mapping", tuple([(k, (kind, v) if (kind := _KINDS.get(v.__class__)) else key_of(v)) for k, v in x.items()])
    if cls is tuple:
        return "tuple", tuple([(kind, v) if (kind := _KINDS.get(v.__class__)) else key_of(v) for v in x])
    how = _KEYS.get(cls)
    if how is not None:
        return how(x)
    if cls in _KINDS:
        return _KINDS[cls], x
    return ("graph", x) if isinstance(x, Nested) else ("dtype", type_name(x))


_KINDS: dict[type, str] = {bool: "bool", int: "int", str: "str"}  # by exact type: plain attributes have no subclasses
"""Types whose values are compared as they are."""
_KEYS: dict[type, Callable[[Any], Any]] = {
    type(None): repr,
    EllipsisType: repr,
    float: lambda x: ("float", struct.pack("<d", x)),
    complex: lambda x: ("complex", struct.pack("<dd", x.real, x.imag)),
    slice: lambda x: ("slice", key_of((x.start, x.stop, x.step))),
    np.ndarray: lambda x: ("array", str(x.dtype), x.shape, x.tobytes()),
}
type_name = functools.cache(str)
"""Names of dtypes, cached because NumPy is slow to produce them."""


def _sorted_names(x: Mapping[Any, Any]) -> list[str]:
    for k in x:
        if type(k) is not str:
            raise GraphError(f"the keys of a mapping in a graph are strings, got {k!r}")
    return sorted(x)


def _is_number_type(x: Any) -> bool:
    if isinstance(x, type):
        return x in _NUMBERS or (issubclass(x, np.generic) and x is not np.object_)
    return isinstance(x, dtypes.dtype)
