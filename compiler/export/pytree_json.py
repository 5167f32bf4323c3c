"""Nested containers of arguments and results as JSON, and back.

    {"leaf": 0}                                   the tensor at a position
    {"value": null | true | 3 | "text"}           part of the program; {"float": "0x1.8p+0"} is a float
    {"list": [...]}, {"tuple": [...]}             containers
    {"dict": [[key, ...], ...]}                   its keys are values
    {"record": ["Pair", [["first", ...], ...]]}   a named tuple, or an instance of a dataclass
    {"fixed": "Config"}                           an argument of this class, without a JSON form: part of the program, cannot be passed

Records in results are tuples whose items have names: no class is looked up, and none is made by running code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from operator import itemgetter
from typing import Any

from symgrad import pytree
from symgrad.errors import FileError, TraceError, describe
from symgrad.pytree import LEAF

_MAX_DEPTH = 50
_PLAIN = (bool, int, str, type(None))


class Record(tuple[Any, ...]):
    """Stands in for a named tuple or a dataclass: its items by position and by name."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, *items: Any) -> Record:
        return tuple.__new__(cls, items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={x!r}' for n, x in zip(self._fields, self, strict=True))})"


def encode(structure: Any, fixed: bool) -> Any:
    """Return a structure as JSON. If `fixed`, objects without a JSON form are stored by class name; else they raise TraceError."""
    return _encode(structure, fixed, count(), 0)


def _encode(s: Any, fixed: bool, number: Iterator[int], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise TraceError(f"containers are nested deeper than {_MAX_DEPTH} levels, which no file holds")
    inner: Callable[[Any], Any] = lambda x: _encode(x, fixed, number, depth + 1)
    if s is LEAF:
        return {"leaf": next(number)}
    if type(s) in _PLAIN:
        return {"value": s}
    if type(s) is float:
        return {"float": s.hex()}
    if isinstance(s, dict) and all(type(k) in (*_PLAIN, float) for k in s):
        return {"dict": [[inner(k), inner(v)] for k, v in s.items()]}
    if isinstance(s, pytree.DataclassNode) or hasattr(s, "_fields"):
        return _encode_record(s, inner)
    if isinstance(s, (list, tuple)):
        return {"list" if isinstance(s, list) else "tuple": [inner(x) for x in s]}
    if not fixed:
        raise TraceError(f"the result has {describe(s)} in it, which no file holds: return tensors in lists, tuples and dicts")
    return {"fixed": s.__class__.__name__}


def _encode_record(s: Any, inner: Callable[[Any], Any]) -> Any:
    cls, parts = (s.cls, s.parts) if isinstance(s, pytree.DataclassNode) else (type(s), dict(zip(s._fields, s, strict=True)))
    for name in (cls.__name__, *parts):
        if not _is_name(name):
            raise TraceError(f"{cls.__name__} or its field {name} has a private name, which no file holds")
    return {"record": [cls.__name__, [[name, inner(part)] for name, part in parts.items()]]}


def check(node: Any, leaves: int) -> None:
    """Raise FileError for a node that `encode` could not have returned for this number of leaves."""
    found: list[int] = []
    _check(node, found, 0)
    if found != list(range(leaves)):
        raise FileError(f"a structure has the leaves {found[:20]}, and should have {leaves}, in order")


def _check(node: Any, found: list[int], depth: int) -> None:
    if depth > _MAX_DEPTH or not isinstance(node, dict) or len(node) != 1:
        raise FileError(f"a structure is not as it should be, or deeper than {_MAX_DEPTH} levels: {str(node)[:80]}")
    ((kind, content),) = node.items()
    if kind == "leaf" and type(content) is int:
        found.append(content)
    elif kind in ("list", "tuple") and isinstance(content, list):
        for inner in content:
            _check(inner, found, depth + 1)
    elif kind == "dict" and _are_pairs(content):
        for key, inner in content:
            if not isinstance(key, dict) or not any(_is_value(*item) for item in key.items()):
                raise FileError(f"a structure has the key {str(key)[:80]}, which is no value")
            _check(key, [], depth + 1)
            _check(inner, found, depth + 1)
    elif kind == "record" and _is_record(content):
        for _, inner in content[1]:
            _check(inner, found, depth + 1)
    elif not _is_value(kind, content):
        raise FileError(f"a structure is not as it should be: {str(node)[:80]}")


def _is_value(kind: str, content: Any) -> bool:
    if kind == "float" and isinstance(content, str):
        try:
            float.fromhex(content)
        except (ValueError, OverflowError):
            return False
        return True
    return (kind == "value" and type(content) in _PLAIN) or (kind == "fixed" and isinstance(content, str))


def _are_pairs(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in content)


def _is_record(content: Any) -> bool:
    if not (isinstance(content, list) and len(content) == 2 and _is_name(content[0]) and _are_pairs(content[1])):
        return False
    names = [name for name, _ in content[1]]
    return all(map(_is_name, names)) and len(set(names)) == len(names)


def _is_name(x: Any) -> bool:
    return isinstance(x, str) and x.isidentifier() and not x.startswith("_")


def build(node: Any, leaves: list[Any]) -> Any:
    """Return the leaves in a checked structure."""
    ((kind, content),) = node.items()
    if kind == "leaf":
        return leaves[content]
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(build(inner, leaves) for inner in content)
    if kind == "dict":
        return {build(key, []): build(inner, leaves) for key, inner in content}
    if kind == "record":
        name, items = content
        return _record(name, tuple(n for n, _ in items))(*(build(inner, leaves) for _, inner in items))
    return float.fromhex(content) if kind == "float" else content


def _record(name: str, fields: tuple[str, ...]) -> type[Record]:
    items: dict[str, Any] = {field: property(itemgetter(i)) for i, field in enumerate(fields)}
    return type(name, (Record,), {"__slots__": (), "_fields": fields, **items})


def has_leaves(node: Any) -> bool:
    """True if an argument has tensors in it, and must be passed."""
    found: list[int] = []
    _check(node, found, 0)
    return bool(found)


def has_fixed(node: Any) -> bool:
    """True if a checked structure holds an object without a JSON form, or a record."""
    ((kind, content),) = node.items()
    if kind in ("list", "tuple"):
        return any(map(has_fixed, content))
    if kind == "dict":
        return any(has_fixed(inner) for _, inner in content)
    return kind in ("fixed", "record")


def match(node: Any, given: Any, label: str, leaves: list[Any]) -> None:
    """Put the leaves of an argument at their positions; raise a TypeError that names what does not match."""
    ((kind, content),) = node.items()
    if kind == "leaf":
        leaves[content] = given
    elif kind in ("list", "tuple"):
        if not isinstance(given, (list, tuple)) or len(given) != len(content):
            raise TypeError(f"{label}: expected a {kind} of {len(content)}, got {describe(given)}")
        for i, (inner, x) in enumerate(zip(content, given, strict=True)):
            match(inner, x, f"{label}.{i}", leaves)
    elif kind == "dict":
        _match_dict({build(key, []): inner for key, inner in content}, given, label, leaves)
    elif kind == "record":
        for name, inner in content[1]:
            if not hasattr(given, name):
                raise TypeError(f"{label}: expected a {content[0]}, with {', '.join(n for n, _ in content[1])}; got {describe(given)}")
            match(inner, getattr(given, name), f"{label}.{name}", leaves)
    elif kind == "fixed":
        raise TypeError(f"{label}: this argument is part of the program, as the {content} that it was exported with: leave it out")
    else:
        value = build(node, [])
        if type(given) is not type(value) or repr(given) != repr(value):  # 0.0 == -0.0, and nan != nan
            raise TypeError(f"{label}: it is part of the program, as {value!r}; got {describe(given)}. Export again for another one")


def _match_dict(wanted: dict[Any, Any], given: Any, label: str, leaves: list[Any]) -> None:
    if not isinstance(given, Mapping) or given.keys() != wanted.keys():
        got = f"the keys {', '.join(map(str, given))}" if isinstance(given, Mapping) else describe(given)
        raise TypeError(f"{label}: expected a dict with the keys {', '.join(map(str, wanted))}; got {got}")
    for key, inner in wanted.items():
        match(inner, given[key], f"{label}.{key}", leaves)
