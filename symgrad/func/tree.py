"""Nested tuples, lists and dictionaries with values at their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The values of a tree, from left to right; dictionaries in the order of their entries."""
    if isinstance(tree, dict):
        return [leaf for branch in tree.values() for leaf in leaves(branch)]
    if isinstance(tree, (tuple, list)):
        return [leaf for branch in tree for leaf in leaves(branch)]
    return [tree]


def rebuild(tree: Any, values: Iterator[Any]) -> Any:
    """A tree of the same form with other values."""
    if isinstance(tree, dict):
        return type(tree)((key, rebuild(branch, values)) for key, branch in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuild(branch, values) for branch in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(rebuild(branch, values) for branch in tree)
    return next(values)


def apply(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `function` of each value in its place."""
    return rebuild(tree, iter([function(leaf) for leaf in leaves(tree)]))


def spread(prefix: Any, tree: Any, complain: Callable[[], Exception]) -> list[Any]:
    """A prefix of a tree, one value for each leaf: a value of the prefix stands for the whole branch at its place."""
    if isinstance(prefix, dict):
        if not isinstance(tree, dict) or prefix.keys() != tree.keys():
            raise complain()
        return [value for key in tree for value in spread(prefix[key], tree[key], complain)]
    if isinstance(prefix, (tuple, list)):
        if not isinstance(tree, (tuple, list)) or len(prefix) != len(tree):
            raise complain()
        return [value for p, t in zip(prefix, tree, strict=True) for value in spread(p, t, complain)]
    return [prefix] * len(leaves(tree))
