"""vmap: a function of one example as a function of a batch.

The function is run once for each example, on recorded slices, and the results are stacked: whatever the function does is done right, and
derivatives of it nest with vmap in any order. What it does not give is speed; a compiled function does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.func import tree
from symgrad.functional import select
from symgrad.ops.generator import Generator, default_generator
from symgrad.tensor import Tensor

RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on"
    " vmap or perform the randomness operation out of vmap"
)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over a batch: `in_dims` says which dimension of each argument holds the examples (None: the argument is shared),
    `out_dims` where they stand in each result. Keyword arguments are mapped over dimension 0."""
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        dims = _in_dims(name, in_dims, args) + [0 if isinstance(v, Tensor) else None for v in tree.leaves(kwargs)]
        values = tree.leaves((args, kwargs))
        size = _batch_size(name, in_dims, values, dims)
        results = []
        draws = _Draws(randomness)
        for i in range(size):
            slices = [v if d is None else select(v, d, i) for v, d in zip(values, dims, strict=True)]
            mine, named = tree.rebuild((args, kwargs), iter(slices))
            with draws:
                results.append(func(*mine, **named))
        return _stack(name, results, out_dims)

    return call


class _Draws:
    """Random numbers inside: the same for all examples, different, or none. States are arrays here, which a trace does not see."""

    def __init__(self, randomness: str) -> None:
        self.randomness = randomness
        self.state = None if randomness == "different" else Generator.get_state(default_generator)

    def __enter__(self) -> None:
        if self.randomness == "same":
            assert self.state is not None
            Generator.set_state(default_generator, self.state)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None and self.randomness == "error" and (Generator.get_state(default_generator) != self.state).any():
            raise RuntimeError(RANDOM)


def _in_dims(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[Any]:
    """The mapped dimension of each tensor among the arguments."""
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching"
            f" the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with"
            " no inputs. The latter is unsupported."
        )

    def complain() -> Exception:
        return ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`:"
            f" {len(args)} arguments were given."
        )

    return tree.spread(in_dims, args, complain)


def _batch_size(name: str, in_dims: Any, values: list[Any], dims: list[Any]) -> int:
    sizes = []
    for value, dim in zip(values, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the input is of type"
                f" {type(value)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        ndim = value._array.ndim
        if not -ndim <= dim < ndim:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of"
                f" dimensionality {ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
            )
        sizes.append(value._array.shape[dim])
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one of the in_dims must not be None")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    if sizes[0] == 0:
        raise ValueError(f"vmap({name}): the mapped dimension has size 0, so that the form of the result cannot be known")
    return int(sizes[0])


def _stack(name: str, results: list[Any], out_dims: Any) -> Any:
    first = results[0]

    def complain() -> Exception:
        return ValueError(f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`.")

    columns = zip(*(tree.leaves(result) for result in results), strict=True)
    stacked = []
    for column, dim in zip(columns, tree.spread(out_dims, first, complain), strict=True):
        if dim is None:
            stacked.append(column[0])
            continue
        if not isinstance(column[0], Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(column[0])}. Did you mean to set out_dims="
                " to None for output?"
            )
        stacked.append(ops.stack(*column, axis=dim % (column[0]._array.ndim + 1)))
    return tree.rebuild(first, iter(stacked))
