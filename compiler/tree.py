"""Nested containers of arguments and results: dicts, lists and tuples (named ones too) taken apart and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


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
