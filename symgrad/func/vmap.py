"""vmap: a function of one example as a function of a batch.

The function is run once for each example, on recorded slices, and the results are stacked: whatever the function does is done right, and
derivatives of it nest with vmap in any order. What it does not give is speed. In a function that is traced, one example is: its graph
is run for all of them at once, unless it asks for values, draws random numbers or has effects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.coercion import tensor_of
from symgrad.conversion import is_tensor
from symgrad.dispatch import tensors as ops
from symgrad.errors import TraceError
from symgrad.functional import movedim, select
from symgrad.mode import control_flow_builder
from symgrad.ops.foreign import native, sympy_array
from symgrad.ops.generator import Generator, default_generator
from symgrad.pytree import flatten, is_value, leaves_like, map_leaves, spread, unflatten
from symgrad.tensor import Tensor

_TENSOR = object()
"""What stands for a tensor among results."""
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
    name = getattr(func, "__name__", func.__class__.__name__)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = map_leaves(tensor_of, (args, kwargs), _is_array)
        values, structure = flatten((args, kwargs), _is_leaf)
        dims = _in_dims(name, in_dims, structure[0])
        dims += [0 if isinstance(v, Tensor) else None for v in values[len(dims) :]]
        size = _batch_size(name, in_dims, values, dims)

        def example(slices: list[Any]) -> Any:
            given = iter(slices)
            mine, named = unflatten(structure, [v if d is None else next(given) for v, d in zip(values, dims, strict=True)])
            return func(*mine, **named)

        tracer = control_flow_builder()
        if tracer is not None:
            result = _batched(name, tracer, example, values, dims, out_dims, randomness)
            if result is not None:
                return result[0]
        results = []
        draws = _Draws(randomness)
        for i in range(size):
            slices = [select(v, d, i) for v, d in zip(values, dims, strict=True) if d is not None]
            with draws:
                results.append(example(slices))
            if tracer is not None:
                draws.refuse_repetition()
        return _stack(name, results, out_dims)

    return call


def _is_array(x: Any) -> bool:
    """True for an array of NumPy's, JAX's or SymPy's."""
    return isinstance(x, np.ndarray) or isinstance(native(x), np.ndarray) or sympy_array(x) is not None


def _is_leaf(x: Any) -> bool:
    """True for values, and for a dataclass without tensors, which stays the object that it is."""
    return is_value(x) or not (x is None or isinstance(x, (dict, list, tuple)) or flatten(x, is_tensor)[0])


class _Draws:
    """Random numbers inside: the same for all examples, different, or none. States are arrays here, which a trace does not see."""

    def __init__(self, randomness: str) -> None:
        self.randomness = randomness
        self.state = None if randomness == "different" else Generator.get_state(default_generator)

    def __enter__(self) -> None:
        if self.randomness == "same":
            assert self.state is not None
            Generator.set_state(default_generator, self.state)

    def refuse_repetition(self) -> None:
        """A program that is unrolled draws anew for each example."""
        if self.randomness == "same" and (Generator.get_state(default_generator) != self.state).any():
            raise TraceError(
                "vmap: randomness='same' in a compiled function is for what can be traced once for all examples: this function asks for"
                " values, or has effects; draw the numbers before vmap, or leave the function eager"
            )

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None and self.randomness == "error" and (Generator.get_state(default_generator) != self.state).any():
            raise RuntimeError(RANDOM)


def _in_dims(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[Any]:
    """The mapped dimension of each leaf of the arguments, of which `args` is the structure."""
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching"
            f" the structure of inputs, got: {in_dims.__class__}."
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

    return spread(in_dims, args, complain)


def _batch_size(name: str, in_dims: Any, values: list[Any], dims: list[Any]) -> int:
    sizes = []
    for value, dim in zip(values, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the input is of type"
                f" {value.__class__}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
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


def _batched(name: str, tracer: Any, example: Any, values: list[Any], dims: list[Any], out_dims: Any, randomness: str) -> tuple[Any] | None:
    """The result in a function that is traced, if the graph of one example can be run for all of them."""
    forms: list[tuple[list[Any], Any]] = []

    def run(slices: list[Tensor]) -> list[Tensor]:
        found, structure = flatten(example(slices), _is_leaf)
        forms.append(([_TENSOR if isinstance(leaf, Tensor) else leaf for leaf in found], structure))
        return [leaf for leaf in found if isinstance(leaf, Tensor)]

    found = tracer.vmap(run, [movedim(v, d, 0) for v, d in zip(values, dims, strict=True) if d is not None], randomness)
    if found is None:
        return None
    columns, (form, structure) = iter(found), forms[0]
    parts = [next(columns) if leaf is _TENSOR else leaf for leaf in form]
    return (_arranged(name, structure, form, parts, out_dims, lambda t: ops.clone(select(t, 0, 0)), _with_examples_at),)


def _with_examples_at(t: Tensor, dim: int) -> Tensor:
    """The examples, which come first, at another dimension: new memory, as eager code makes, and no view that cannot be written to."""
    return t if dim % t._array.ndim == 0 else ops.clone(movedim(t, 0, dim))


def _stack(name: str, results: list[Any], out_dims: Any) -> Any:
    form, structure = flatten(results[0], _is_leaf)
    rows = [[leaf for leaf, _ in leaves_like(structure, result, "the result of an example", "the first")] for result in results]
    parts = [column if isinstance(column[0], Tensor) else column[0] for column in zip(*rows, strict=True)]
    return _arranged(
        name, structure, form, parts, out_dims, lambda column: column[0],
        lambda column, dim: ops.stack(*column, axis=dim % (column[0]._array.ndim + 1)),
    )  # fmt: skip


def _arranged(
    name: str,
    structure: Any,
    form: list[Any],
    parts: list[Any],
    out_dims: Any,
    first: Callable[[Any], Any],
    put: Callable[[Any, int], Any],
) -> Any:
    """The results in their containers: of what has no dimension for the examples the `first`, the rest `put` where it is wanted. `form` has
    the leaves of one example, or _TENSOR for its tensors."""

    def complain() -> Exception:
        return ValueError(f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`.")

    arranged = []
    for leaf, kind, dim in zip(parts, form, spread(out_dims, structure, complain), strict=True):
        stands_for_tensor = kind is _TENSOR or isinstance(kind, Tensor)
        if dim is not None and not stands_for_tensor:
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {leaf.__class__}. Did you mean to set out_dims= to None"
                " for output?"
            )
        arranged.append(put(leaf, dim) if dim is not None else first(leaf) if stands_for_tensor else leaf)
    return unflatten(structure, arranged)
