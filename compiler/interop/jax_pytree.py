"""Trees as JAX takes them apart, and symgrad's containers among the leaves that JAX finds: dataclasses and dicts of other classes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from symgrad import pytree
from symgrad.pytree import LEAF, is_value, structure_key
from symgrad.tensor import Tensor

ARRAYS = (jax.Array, np.ndarray, np.generic, Tensor, float, complex)
"""Types of leaves that are data, tracers included; integers, booleans and everything else are settings."""


class JaxStructure:
    """JAX's structure of a tree, and symgrad's structure of each of its leaves; equal structures have equal `key`s."""

    __slots__ = ("inner", "key", "outer")

    def __init__(self, outer: Any, inner: Sequence[Any]) -> None:
        self.outer, self.inner = outer, inner
        self.key = outer, tuple([structure_key(s) for s in inner])

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
        given = iter(leaves)
        return jax.tree_util.tree_unflatten(self.outer, [pytree.unflatten(s, given) for s in self.inner])


def flatten(tree: Any, whole: Container[int] = ()) -> tuple[list[tuple[tuple[Any, ...], Any]], JaxStructure]:
    """The leaves of a tree with their paths, and the structure. A container that JAX does not know is taken apart if it has arrays in it,
    and if its position in `tree` is not in `whole`."""
    found, outer = jax.tree_util.tree_flatten_with_path(tree)
    pairs: list[tuple[tuple[Any, ...], Any]] = []
    inner = []
    for path, leaf in found:
        leaves, structure = _flatten_leaf(leaf) if not path or getattr(path[0], "idx", None) not in whole else ([leaf], LEAF)
        names = pytree.paths(structure, "")
        pairs += [((*path, name[1:]) if name else path, x) for name, x in zip(names, leaves, strict=True)]
        inner.append(structure)
    return pairs, JaxStructure(outer, inner)


def _flatten_leaf(leaf: Any) -> tuple[list[Any], Any]:
    if pytree.is_container(leaf) and pytree.flatten(leaf, _is_array)[0]:
        return pytree.flatten(leaf, is_value)
    return [leaf], LEAF


def _is_array(x: Any) -> bool:
    return isinstance(x, ARRAYS)
