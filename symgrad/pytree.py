"""Pytrees: nested containers taken apart into leaves and a structure, and put together again.

Containers are dicts, lists, tuples, named tuples, subclasses of these, and dataclasses that are no modules. Everything else is a leaf or a
static value: the predicate `is_leaf` says which. A structure is the tree with LEAF in the place of each leaf and a DataclassNode in the
place of each dataclass; `structure_key` compares structures and hashes them, `repr` shows them, `compiler/export/pytree_json.py` writes
them to files.

The functions of `symgrad.func` and `symgrad.control`, checkpoints, training, compiled functions and files all use this module, so that
a container which one of them takes is taken by all of them.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from symgrad.errors import describe


class Leaf:
    """The marker of a leaf in a structure. Leaves are in order: each marker stands for the next one."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


class DataclassNode:
    """A dataclass in a structure, as its fields. It is rebuilt from them without calling `__init__`; an object without leaves (`whole`) is
    kept as it is."""

    __slots__ = ("cls", "original", "parts")

    def __init__(self, cls: type, parts: dict[str, Any], whole: Any = None) -> None:
        self.cls, self.parts, self.original = cls, parts, whole

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({', '.join(f'{name}={part!r}' for name, part in self.parts.items())})"

    def rebuild(self, parts: dict[str, Any]) -> Any:
        if self.original is not None:
            return self.original
        made: Any = object.__new__(self.cls)
        for name, part in parts.items():
            object.__setattr__(made, name, part)  # works for frozen dataclasses too
        return made


def has_attribute(x: Any, name: str) -> bool:
    """True if `x` has the attribute; False also if the `__getattr__` of a user's class raises another exception, such as KeyError."""
    try:
        return hasattr(x, name)
    except Exception:
        return False


def is_module(x: Any) -> bool:
    """True for an object whose class, `__class__` for compiled modules, has the methods of a module. An object that makes attributes up, by
    `__getattr__`, is none."""
    return callable(getattr(x.__class__, "named_parameters", None))


def _is_dataclass_node(x: Any) -> bool:
    return is_dataclass(x) and not isinstance(x, type) and not is_module(x)  # a module is no container


def is_container(x: Any) -> bool:
    """True for a node of a tree. A dataclass that is an array too, by its `__array__`, is none."""
    return isinstance(x, (dict, list, tuple)) or (_is_dataclass_node(x) and not has_attribute(x, "__array__"))


def is_value(x: Any) -> bool:
    """The predicate of trees without static values: True for everything but containers and None."""
    return x is not None and not is_container(x)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] = is_value) -> tuple[list[Any], Any]:
    """The leaves of `tree` in order, and its structure with LEAF in their places. Static values, neither container nor leaf, stay in the
    structure."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, is_leaf, leaves)


def _flatten_into(tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Any:
    if is_leaf(tree):
        leaves.append(tree)
        return LEAF
    if isinstance(tree, dict):
        return _rebuilt_dict(tree, {k: _flatten_into(v, is_leaf, leaves) for k, v in tree.items()})
    if isinstance(tree, (list, tuple)):
        return _rebuilt(tree, [_flatten_into(v, is_leaf, leaves) for v in tree])
    if _is_dataclass_node(tree):
        before = len(leaves)
        parts = {f.name: _flatten_into(getattr(tree, f.name), is_leaf, leaves) for f in fields(tree) if hasattr(tree, f.name)}
        return DataclassNode(type(tree), parts, tree if len(leaves) == before else None)
    return tree


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with `leaves` in the places of LEAF."""
    return _unflatten_from(structure, iter(leaves))


def leaves(tree: Any) -> list[Any]:
    """The values of a tree in order."""
    return flatten(tree)[0]


def map_leaves(function: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] = is_value) -> Any:
    """The tree with `function` of each leaf in its place."""
    found, structure = flatten(tree, is_leaf)
    return unflatten(structure, map(function, found))


def replace_leaves(structure: Any, leaves: Iterable[Any]) -> Any:
    """The structure with `leaves` in the places of LEAF, where LEAF keeps a leaf and anything else is a static value: still a structure, in
    which dataclasses are not rebuilt."""
    return _unflatten_from(structure, iter(leaves), lambda record, parts: DataclassNode(record.cls, parts, record.original))


def leaf_count(structure: Any) -> int:
    """The number of leaves in a structure."""
    return 1 if structure is LEAF else sum(leaf_count(v) for _, v in children(structure) or ())


def without_static_values(structure: Any) -> Any:
    """The structure with None in place of its static values."""
    if structure is LEAF:
        return LEAF
    if isinstance(structure, dict):
        return _rebuilt_dict(structure, {k: without_static_values(v) for k, v in structure.items()})
    if isinstance(structure, (list, tuple)):
        return _rebuilt(structure, [without_static_values(v) for v in structure])
    if isinstance(structure, DataclassNode) and structure.original is None:
        return DataclassNode(structure.cls, {name: without_static_values(part) for name, part in structure.parts.items()})
    return None


def _unflatten_from(
    structure: Any, leaves: Iterator[Any], made: Callable[[DataclassNode, dict[str, Any]], Any] = DataclassNode.rebuild
) -> Any:
    if structure is LEAF:
        return next(leaves)
    if isinstance(structure, dict):
        return _rebuilt_dict(structure, {k: _unflatten_from(v, leaves, made) for k, v in structure.items()})
    if isinstance(structure, (list, tuple)):
        return _rebuilt(structure, [_unflatten_from(v, leaves, made) for v in structure])
    if isinstance(structure, DataclassNode):
        return made(structure, {name: _unflatten_from(part, leaves, made) for name, part in structure.parts.items()})
    return structure


def _rebuilt(like: Any, items: list[Any]) -> Any:
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def _rebuilt_dict(like: dict[Any, Any], items: dict[Any, Any]) -> Any:
    """The items in a dictionary of the same class as `like`, such as OrderedDict or defaultdict."""
    if type(like) is dict:
        return items
    made = copy.copy(like)
    dict.update(made, items)  # a Counter would add
    return made


def children(structure: Any) -> list[tuple[Any, Any]] | None:
    """The (key, part) pairs of a container in order, where a key may also be a field name or an index; None if it is no container."""
    if isinstance(structure, dict):
        return list(structure.items())
    if isinstance(structure, (list, tuple)):
        return list(zip(getattr(structure, "_fields", range(len(structure))), structure, strict=True))
    return list(structure.parts.items()) if isinstance(structure, DataclassNode) else None


def paths(structure: Any, prefix: str) -> list[str]:
    """The dotted path of each leaf, such as `batch.x` or `layers.0`."""
    if structure is LEAF:
        return [prefix]
    return [path for k, v in children(structure) or () for path in paths(v, f"{prefix}.{k}")]


def places(structure: Any, prefix: str) -> list[str]:
    """The place of each leaf as Python writes it, such as `batch.x` or `layers[0]['w']`, for messages."""
    if structure is LEAF:
        return [prefix]
    return [place for k, v in children(structure) or () for place in places(v, _place(structure, k, prefix))]


def _place(structure: Any, key: Any, prefix: str) -> str:
    named = isinstance(structure, DataclassNode) or hasattr(structure, "_fields")
    return f"{prefix}.{key}" if named else f"{prefix}[{key!r}]"


Mismatch = Callable[[str, Any, Any], Exception]
"""Makes the error for a place where a structure wants another thing than a tree has: `(place, part of the structure, part of the tree)`."""


def leaves_like(
    structure: Any, tree: Any, where: str, model: str = "the result", mismatch: Mismatch | None = None
) -> Iterator[tuple[Any, str]]:
    """Yield the parts of `tree` at the leaves of `structure`, each with its place; entries of dicts are found by their keys. Raises an
    error if `tree` does not match the structure: ValueError, which describes it as that of `model`, or what `mismatch` returns. With
    `mismatch` a leaf must be a value, and a static None must be None."""
    if structure is LEAF:
        if mismatch is not None and not is_value(tree):
            raise mismatch(where, structure, tree)
        yield tree, where
        return
    inner = children(structure)
    if inner is None:
        if mismatch is not None and (structure is None) != (tree is None):
            raise mismatch(where, structure, tree)
        return
    parts = _parts_like(structure, tree)
    if parts is None:
        raise mismatch(where, structure, tree) if mismatch is not None else _another_form(structure, tree, where, model)
    for (key, part), given in zip(inner, parts, strict=True):
        yield from leaves_like(part, given, _place(structure, key, where), model, mismatch)


def _parts_like(structure: Any, tree: Any) -> list[Any] | None:
    """The parts of `tree` in the order of those of `structure`, which is a container; None if it has other ones."""
    if isinstance(structure, dict):
        same = isinstance(tree, dict) and tree.keys() == structure.keys()
        return [tree[k] for k in structure] if same else None
    if isinstance(structure, DataclassNode):
        return [getattr(tree, name) for name in structure.parts] if isinstance(tree, structure.cls) else None
    return list(tree) if isinstance(tree, (list, tuple)) and len(tree) == len(structure) else None


def _another_form(structure: Any, tree: Any, where: str, model: str) -> ValueError:
    return ValueError(f"{where} must be {describe_form(structure)}, as {model} is, got {describe_form(tree)}")


def describe_form(x: Any) -> str:
    """The outermost container of a structure or tree in words, such as `a dict of w, b`."""
    if isinstance(x, dict):
        return f"a dict of {', '.join(map(str, x))}"
    if isinstance(x, DataclassNode):
        return f"a {x.cls.__name__}"
    return f"a {x.__class__.__name__} of {len(x)}" if isinstance(x, (list, tuple)) else describe(x)


def spread(prefix: Any, structure: Any, mismatch: Callable[[], Exception]) -> list[Any]:
    """The values of a prefix of a tree, one for each leaf of its structure: a value of the prefix stands for the whole branch at its place.
    None is such a value."""
    if not is_container(prefix):
        return [prefix] * leaf_count(structure)
    inner = children(structure)
    parts = None if inner is None else _parts_like(structure, prefix)
    if inner is None or parts is None:
        raise mismatch()
    return [value for part, (_, branch) in zip(parts, inner, strict=True) for value in spread(part, branch, mismatch)]


def static_values(structure: Any, prefix: str) -> dict[str, Any]:
    """The static values of a structure, neither leaf nor container, by their paths."""
    if structure is LEAF:
        return {}
    parts = children(structure)
    if parts is None:
        return {prefix: structure}
    return {path: x for k, v in parts for path, x in static_values(v, f"{prefix}.{k}").items()}


class ById:
    """A key that compares an object by identity, and keeps it alive so that its id is not reused."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)


def structure_key(structure: Any) -> Any:
    """A hashable key of a structure: containers by type and keys, static values by type and value, or by identity if they are not
    hashable."""
    if structure is LEAF:
        return "*"
    parts = children(structure)
    if parts is not None:
        cls = structure.cls if isinstance(structure, DataclassNode) else type(structure)
        return cls, tuple([(type(k), k, structure_key(v)) for k, v in parts])
    return type(structure), _static_key(structure)  # the type, since an IntEnum member equals its integer


def _static_key(x: Any) -> Any:
    """A key that compares numbers and arrays by their bits, other values by `==`, and what is not hashable by identity."""
    if isinstance(x, int):
        return int(x)
    if isinstance(x, float):
        return struct.pack("<d", x)
    if isinstance(x, complex):
        return struct.pack("<dd", x.real, x.imag)
    if isinstance(x, (np.ndarray, np.generic)) and not x.dtype.hasobject:
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, slice):
        return structure_key((x.start, x.stop, x.step))
    if isinstance(x, Mapping):
        return frozenset((k, structure_key(v)) for k, v in x.items())
    try:
        hash(x)
    except TypeError:
        return ById(x)
    return x
