"""Nested containers of arguments and results: dicts, lists and tuples (named ones too) taken apart and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from symgrad.errors import describe


class Leaf:
    """Where the next leaf goes."""

    def __repr__(self) -> str:
        return "*"


LEAF = Leaf()


def flatten(tree: Any, is_leaf: Any) -> tuple[list[Any], Any]:
    """The leaves in order, and the structure with LEAF in their places; what is neither container nor leaf stays in the structure."""
    leaves: list[Any] = []
    return leaves, _take(tree, is_leaf, leaves)


def _take(tree: Any, is_leaf: Any, leaves: list[Any]) -> Any:
    if is_leaf(tree):
        leaves.append(tree)
        return LEAF
    if isinstance(tree, dict):
        return {k: _take(v, is_leaf, leaves) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return _rebuilt(tree, [_take(v, is_leaf, leaves) for v in tree])
    return tree


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """The leaves put back into the structure."""
    return _give(structure, iter(leaves))


def _give(structure: Any, leaves: Iterator[Any]) -> Any:
    if structure is LEAF:
        return next(leaves)
    if isinstance(structure, dict):
        return {k: _give(v, leaves) for k, v in structure.items()}
    if isinstance(structure, (list, tuple)):
        return _rebuilt(structure, [_give(v, leaves) for v in structure])
    return structure


def _rebuilt(like: Any, items: list[Any]) -> Any:
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def paths(structure: Any, prefix: str) -> list[str]:
    """A name for each leaf: `batch.x`, `layers.0`."""
    if structure is LEAF:
        return [prefix]
    if isinstance(structure, dict):
        items: Any = structure.items()
    elif isinstance(structure, (list, tuple)):
        items = zip(getattr(structure, "_fields", range(len(structure))), structure, strict=True)
    else:
        return []
    return [path for k, v in items for path in paths(v, f"{prefix}.{k}")]


def leaves_like(structure: Any, tree: Any, where: str) -> Iterator[tuple[Any, str]]:
    """What stands in a tree at the leaves of a structure, each with a name for its place; ValueError if the tree has another form."""
    if structure is LEAF:
        yield tree, where
        return
    if isinstance(structure, dict):
        if not isinstance(tree, dict) or tree.keys() != structure.keys():
            raise ValueError(f"{where} must be a dict of {', '.join(map(str, structure))}, as the result is, got {describe(tree)}")
        for k, part in structure.items():
            yield from leaves_like(part, tree[k], f"{where}[{k!r}]")
    elif isinstance(structure, (list, tuple)):
        if not isinstance(tree, (list, tuple)) or len(tree) != len(structure):
            raise ValueError(f"{where} must be a {type(structure).__name__} of {len(structure)}, as the result is, got {describe(tree)}")
        for i, (part, given) in enumerate(zip(structure, tree, strict=True)):
            yield from leaves_like(part, given, f"{where}[{i}]")
