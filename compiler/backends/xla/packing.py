"""Packing and unpacking of arrays around a JAX function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.backends.packing import Packing, places
from symgrad.compiler.ir.graph import Graph


def packed(f: Callable[..., Any], graph: Graph, packing: Packing) -> Callable[..., Any]:
    """Return a function of packed arrays that calls `f`, which takes one array for each input of the graph."""
    import jax.numpy as jnp

    single = len(graph.outputs) == 1

    def g(*arrays: Any) -> Any:
        given: list[Any] = [None] * len(graph.inputs)
        for array, group in zip(arrays, packing.inputs, strict=True):
            for i, place in zip(group, places(graph.inputs, group), strict=True):
                given[i] = array if place is None else array[place].reshape(graph.inputs[i].shape)
        found = f(*given)
        found = (found,) if single else found
        results = [found[group[0]] if len(group) == 1 else jnp.concatenate([found[i].ravel() for i in group]) for group in packing.outputs]
        return results[0] if len(results) == 1 else tuple(results)

    g.__name__ = f.__name__
    return g
