"""Sparse arrays of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.backends.xla.kernel import in_x64
from symgrad.typing import Array


def bcoo(places: Array, shape: tuple[int, int], numbers: Array) -> Callable[[Any], Any]:
    """Return a function that makes a BCOO from the values at the first `places`, of a kernel or of NumPy; at the others it has
    `numbers`."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.sparse import BCOO

    indices, rest = jax.device_put(places), in_x64(True, jax.device_put, numbers)
    joined = jax.jit(lambda values: jnp.concatenate([values, rest]))

    def placed(values: Any) -> Any:
        return joined(values) if len(numbers) else jax.device_put(values)

    pattern = BCOO((jnp.zeros(0), indices[:0]), shape=shape, unique_indices=True)
    structure = jax.tree.structure(pattern)

    def make(values: Any) -> Any:
        data = values if not len(numbers) and isinstance(values, jax.Array) else in_x64(True, placed, values)
        return jax.tree.unflatten(structure, (data, indices))  # the constructor would check the positions once more

    return make
