"""Pytrees: flatten and unflatten nested containers of arguments and results (dicts, lists, tuples, named tuples and dataclasses)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from symgrad.compiler.ir.attributes import freeze
from symgrad.errors import GraphError, describe


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


def _is_dataclass_node(x: Any) -> bool:
    return is_dataclass(x) and not isinstance(x, type) and not has_attribute(x, "named_parameters")  # a module is no container


def flatten(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Any]:
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
    made.update(items)
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


def leaves_like(structure: Any, tree: Any, where: str, model: str = "the result") -> Iterator[tuple[Any, str]]:
    """Yield the parts of `tree` at the leaves of `structure`, each with its path. Raises ValueError if `tree` does not match the structure,
    which messages describe as that of `model`."""
    if structure is LEAF:
        yield tree, where
        return
    if isinstance(structure, dict):
        if not isinstance(tree, dict) or tree.keys() != structure.keys():
            got = f"a dict of {', '.join(map(str, tree))}" if isinstance(tree, dict) else describe(tree)
            raise ValueError(f"{where} must be a dict of {', '.join(map(str, structure))}, as {model} is, got {got}")
        for k, part in structure.items():
            yield from leaves_like(part, tree[k], f"{where}[{k!r}]", model)
    elif isinstance(structure, DataclassNode):
        if not isinstance(tree, structure.cls):
            raise ValueError(f"{where} must be a {structure.cls.__name__}, as {model} is, got {describe(tree)}")
        for name, part in structure.parts.items():
            yield from leaves_like(part, getattr(tree, name), f"{where}.{name}", model)
    elif isinstance(structure, (list, tuple)):
        if not isinstance(tree, (list, tuple)) or len(tree) != len(structure):
            raise ValueError(f"{where} must be a {structure.__class__.__name__} of {len(structure)}, as {model} is, got {describe(tree)}")
        for i, (part, given) in enumerate(zip(structure, tree, strict=True)):
            yield from leaves_like(part, given, f"{where}[{i}]", model)


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
        return cls, tuple((type(k), k, structure_key(v)) for k, v in parts)
    try:
        return type(structure), freeze(structure)  # the type, since an IntEnum member equals its integer
    except GraphError:
        return _by_value(structure)


def _by_value(x: Any) -> Any:
    try:
        hash(x)
    except TypeError:
        return ById(x)
    return type(x), x
