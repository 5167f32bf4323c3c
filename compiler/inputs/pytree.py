"""Nested containers of arguments and results taken apart and put together again: dicts, lists, tuples (named ones too) and dataclasses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from symgrad.compiler.ir.attributes import freeze
from symgrad.errors import GraphError, describe


class Leaf:
    """Where the next leaf goes."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


class DataclassNode:
    """A dataclass taken apart into its fields. It is put together from them alone, without its `__init__`; one without leaves is kept."""

    __slots__ = ("cls", "original", "parts")

    def __init__(self, cls: type, parts: dict[str, Any], whole: Any = None) -> None:
        self.cls, self.parts, self.original = cls, parts, whole

    def rebuild(self, parts: dict[str, Any]) -> Any:
        if self.original is not None:
            return self.original
        made: Any = object.__new__(self.cls)
        for name, part in parts.items():
            object.__setattr__(made, name, part)  # a frozen one has no other way
        return made


def has_attribute(x: Any, name: str) -> bool:
    """Whether an object has an attribute. The `__getattr__` of a user's class may raise anything: a KeyError, say."""
    try:
        return hasattr(x, name)
    except Exception:
        return False


def _is_dataclass_node(x: Any) -> bool:
    return is_dataclass(x) and not isinstance(x, type) and not has_attribute(x, "named_parameters")  # a module is no container


def flatten(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Any]:
    """The leaves in order, and the structure with LEAF in their places; what is neither container nor leaf stays in the structure."""
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
    """The leaves put back into the structure."""
    return _unflatten_from(structure, iter(leaves))


def replace_leaves(structure: Any, leaves: Iterable[Any]) -> Any:
    """The structure with something else in the places of its leaves, LEAF where they stay: still a structure."""
    return _unflatten_from(structure, iter(leaves), lambda record, parts: DataclassNode(record.cls, parts, record.original))


def leaf_count(structure: Any) -> int:
    """How many leaves there are in a structure."""
    return 1 if structure is LEAF else sum(leaf_count(v) for _, v in children(structure) or ())


def without_static_values(structure: Any) -> Any:
    """The structure with None in place of what is no leaf and no container."""
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
    """The items in a dictionary of the same kind: an ordered one, one with defaults."""
    if type(like) is dict:
        return items
    made = copy.copy(like)
    made.update(items)
    return made


def children(structure: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a container in order, with their keys, field names or numbers; None for what is no container."""
    if isinstance(structure, dict):
        return list(structure.items())
    if isinstance(structure, (list, tuple)):
        return list(zip(getattr(structure, "_fields", range(len(structure))), structure, strict=True))
    return list(structure.parts.items()) if isinstance(structure, DataclassNode) else None


def paths(structure: Any, prefix: str) -> list[str]:
    """A name for each leaf: `batch.x`, `layers.0`."""
    if structure is LEAF:
        return [prefix]
    return [path for k, v in children(structure) or () for path in paths(v, f"{prefix}.{k}")]


def leaves_like(structure: Any, tree: Any, where: str, model: str = "the result") -> Iterator[tuple[Any, str]]:
    """What stands in a tree at the leaves of a structure, each with a name for its place; ValueError if the tree has another form than the
    structure, which is that of a `model`."""
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
    """What is no leaf and no container, by its path."""
    if structure is LEAF:
        return {}
    parts = children(structure)
    if parts is None:
        return {prefix: structure}
    return {path: x for k, v in parts for path, x in static_values(v, f"{prefix}.{k}").items()}


class ById:
    """An object that is compared by identity, and kept, so that no other can be taken for it."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)


def structure_key(structure: Any) -> Any:
    """A key of a structure: its containers by type, and what is in it by value; by identity what cannot be hashed."""
    if structure is LEAF:
        return "*"
    parts = children(structure)
    if parts is not None:
        cls = structure.cls if isinstance(structure, DataclassNode) else type(structure)
        return cls, tuple((type(k), k, structure_key(v)) for k, v in parts)
    try:
        return type(structure), freeze(structure)  # an enum of integers is no integer
    except GraphError:
        return _by_value(structure)


def _by_value(x: Any) -> Any:
    try:
        hash(x)
    except TypeError:
        return ById(x)
    return type(x), x
