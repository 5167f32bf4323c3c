"""What holds the tensors of a file together, as JSON: `encode` takes an object apart, `decode` puts it together again.

Strings, finite numbers, booleans, None, lists, and dicts whose keys are strings stand for themselves. Everything else is an object with
the key "$", which names its kind:

    {"$": "tensor", "of": "model.weight"}             the name that the numbers have in the file
    {"$": "tuple", "of": [1, 2]}
    {"$": "dict", "of": [[0, "zero"], [1, "one"]]}    keys of other types

A kind is a row of a table, and a file can name no others: nothing that is read chooses code to run.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from symgrad import dtypes
from symgrad.devices import device
from symgrad.escapes import SAVE, before_escape
from symgrad.from_data import array_of
from symgrad.nn.parameter import Parameter
from symgrad.ops.foreign import native, sympy_array
from symgrad.tensor import Size, Tensor, wrap
from symgrad.typing import Array

_DEPTH = 100
_PLAIN = (str, int, bool, type(None))
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DTYPES = {d.name: d for d in dtypes.ALL}
_SCALARS = {
    np.dtype(code).name: np.dtype(code).type
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
}


class Kind(NamedTuple):
    """How objects of one type are written: `parts` gives something simpler, which is encoded in turn, and `build` undoes it."""

    type: type
    parts: Callable[[Any], Any]
    build: Callable[[Any], Any]


def _values(t: Tensor) -> Array:
    before_escape(t, SAVE)
    return t._array


_KINDS = {
    "OrderedDict": Kind(OrderedDict, dict, OrderedDict),
    "Counter": Kind(Counter, dict, Counter),
    "tuple": Kind(tuple, list, tuple),
    "set": Kind(set, list, set),
    "Size": Kind(Size, list, Size),
    "float": Kind(float, str, _NON_FINITE.__getitem__),
    "complex": Kind(complex, lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    "scalar": Kind(np.generic, lambda x: [x.dtype.name, x.item()], lambda parts: _SCALARS[parts[0]](parts[1])),
    "dtype": Kind(dtypes.dtype, lambda d: d.name, _DTYPES.__getitem__),
    "device": Kind(device, str, device),
}
_LEAVES = {  # their parts are an array, which the file holds outside the JSON
    "array": Kind(np.ndarray, lambda array: array, lambda array: array),
    "bytes": Kind(bytes, lambda b: np.frombuffer(b, np.uint8), lambda array: array.tobytes()),
    "tensor": Kind(Tensor, _values, wrap),
    "parameter": Kind(Parameter, _values, lambda array: Parameter(wrap(array), requires_grad=False)),
}
_NAMES = {kind.type: name for name, kind in (_KINDS | _LEAVES).items()}


class Encoder:
    """Turns an object into JSON and puts its arrays aside, in `arrays`, under the path that leads to them."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._known: dict[Any, str] = {}

    def encode(self, obj: Any, path: str = "", depth: int = 0) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"save: the object is nested deeper than {_DEPTH} levels, or holds itself")
        if (plain := native(obj)) is not None or sympy_array(obj) is not None:  # what SymPy and JAX have is stored as a number or array
            obj = array_of(obj, None) if plain is None else float(plain) if isinstance(plain, Fraction) else plain
        kind = obj.__class__  # of a tensor wherever its memory is
        if kind in _PLAIN or (kind is float and math.isfinite(obj)):
            return obj
        if kind is list:
            return [self.encode(item, _join(path, i), depth + 1) for i, item in enumerate(obj)]
        if kind is dict:
            return self._encode_dict(obj, path, depth + 1)
        name = "scalar" if isinstance(obj, np.generic) and obj.dtype.name in _SCALARS else _NAMES.get(kind)
        if name is None:
            raise TypeError(_REFUSED.format(name=kind.__name__, place=f" (at {path})" if path else ""))
        if name in _LEAVES:
            return self._encode_leaf(obj, name, path)
        return {"$": name, "of": self.encode(_KINDS[name].parts(obj), path, depth + 1)}

    def _encode_dict(self, obj: dict[Any, Any], path: str, depth: int) -> Any:
        if all(type(key) is str for key in obj) and "$" not in obj:
            return {key: self.encode(item, _join(path, key), depth) for key, item in obj.items()}
        return {"$": "dict", "of": [[self.encode(k, path, depth), self.encode(v, _join(path, k), depth)] for k, v in obj.items()]}

    def _encode_leaf(self, obj: Any, name: str, path: str) -> Any:
        array = _LEAVES[name].parts(obj)
        node: dict[str, Any] = {"$": name, "of": self._put(array, path)}
        if array.dtype.name == "complex128":
            node["as"] = "complex128"
        if isinstance(obj, Tensor) and obj.requires_grad:
            node["requires_grad"] = True
        return node

    def _put(self, array: Array, path: str) -> str:
        """The name of an array. Arrays that are the same memory, tied weights for example, are one."""
        memory = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if memory not in self._known or array.size == 0:
            name = path.encode(errors="replace").decode() or "tensor"
            while name in self.arrays or name == "__metadata__":
                name += "_"
            self.arrays[name] = array
            self._known[memory] = name
        return self._known[memory]


_REFUSED = (
    "save: cannot store a {name}{place}; tensors, arrays, dicts, lists, tuples, sets, numbers, strings, bytes, dtypes, devices and None can"
    " be stored. Of modules, optimizers and generators store the state: state_dict(), get_state()"
)


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


class Decoder:
    """Builds the object again, from JSON that may hold anything."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self._made: dict[Any, Any] = {}

    def decode(self, node: Any, depth: int = 0) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"nested deeper than {_DEPTH} levels")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        if "$" not in node:
            return {key: self.decode(item, depth + 1) for key, item in node.items()}
        kind, content = node["$"], node["of"]
        if kind in _LEAVES:
            return self._take(kind, content, node.get("as"), node.get("requires_grad", False))
        if kind == "dict":
            return unique([(self.decode(key, depth + 1), self.decode(item, depth + 1)) for key, item in content])
        if kind not in _KINDS:
            raise ValueError(f"unknown kind {kind!r}; was it written by a newer symgrad?")
        return _KINDS[kind].build(self.decode(content, depth + 1))

    def _take(self, *leaf: Any) -> Any:
        """What stands in several places is made once: what was tied is tied again, and a small file stays small in memory."""
        if leaf not in self._made:
            kind, name, dtype, requires_grad = leaf
            array = self.arrays[name] if dtype is None else self.arrays[name].view(_DTYPES[dtype].dtype)[..., 0]
            made = _LEAVES[kind].build(array)
            self._made[leaf] = made.requires_grad_() if requires_grad else made
        return self._made[leaf]


def unique(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dict of items, each of which must have a key of its own."""
    made = dict(items)
    if len(made) != len(items):
        raise ValueError("a key stands twice in one dict")
    return made
