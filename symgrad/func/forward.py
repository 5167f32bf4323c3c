"""Forward derivatives of functions: jvp, the Jacobian column by column, and Hessian-vector products.

While a function is being traced, the differentiated one is traced by itself, without values, and its graph is differentiated forwards: a
loop carries the tangents, and nothing is transposed. Eagerly, and if Python depends on values, tangents come from the recorded tape, as the
transpose of the vector-Jacobian product.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.autograd.functional import filled, for_units, push_forward, unit
from symgrad.autograd.grad_mode import differentiating, without_hooks
from symgrad.dispatch import tensors as ops
from symgrad.func.derivatives import (
    Argnums,
    Level,
    _arranged,
    _auxiliary,
    _chosen,
    _direction,
    _jacobian,
    _leaves_like,
    _open,
    _tensors,
    _unhooked,
    grad,
    vjp,
)  # fmt: skip
from symgrad.mode import control_flow_builder
from symgrad.pytree import flatten, unflatten
from symgrad.tensor import Tensor, wrap

_JVP = "jvp(f, primals, tangents)"


class Results:
    """Runs a function on tensors, and remembers the form of its result."""

    def __init__(self, func: Callable[..., Any], name: str) -> None:
        self.func, self.name = func, name
        self.form: Any = None

    def of(self, opened: list[Any]) -> Callable[[list[Tensor]], list[Tensor]]:
        """Return the function from a list of tensors to a list of tensors, with arguments in the form of `opened`."""
        structure = flatten(opened)[1]

        def run(given: list[Tensor]) -> list[Tensor]:
            found, self.form = _tensors(self.func(*unflatten(structure, given)), self.name)
            return found

        return run

    def build(self, tensors: Sequence[Any]) -> Any:
        return unflatten(self.form, tensors)


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of `func` at the primals, and its derivative in the direction of the tangents."""
    _require_tuples(primals, tangents, _JVP)
    level = Level()
    with differentiating():
        opened = level.points(list(primals))
        traced = None if has_aux else _traced_jvp(level, func, opened, primals, tangents)
        if traced is not None:
            return traced
        output, aux = _auxiliary(func(*opened), has_aux, _JVP)
        outputs, structure = _tensors(output, _JVP)
        directions = directions_of(level, primals, tangents)
        level.close(outputs + directions)
        with without_hooks():
            found = push_forward(tuple(outputs), tuple(level.inputs))(tuple(directions), level.outer)
    value, slope = level.give_all(output), unflatten(structure, map(level.give, found))
    return (value, slope, level.give_all(aux)) if has_aux else (value, slope)


def _traced_jvp(level: Level, func: Callable[..., Any], opened: list[Any], primals: Any, tangents: Any) -> tuple[Any, Any] | None:
    """The value and the derivative from a graph; None if nobody traces, or Python depends on values."""
    if control_flow_builder() is None:
        return None
    from symgrad.compiler.trace.transformed import run_jvp

    results, directions = Results(func, _JVP), directions_of(level, primals, tangents)
    found = run_jvp(results.of(opened), level.inputs, directions)
    if found is None:
        return None
    level.close([*found, *directions])
    given, count = [level.give(t) for t in found], len(found) // 2
    return results.build(given[:count]), results.build(given[count:])


def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The Hessian of the scalar function `func` at the primals, times the tangents, without forming the Hessian: in the form of the
    argument if there is one, else in a tuple.

    While a function is being traced this is the forward derivative of the gradient. Eagerly it is the gradient of the gradient, which
    takes one backward pass less there.
    """
    _require_tuples(primals, tangents, "hvp(f, primals, tangents)")
    argnums: Argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    slope = grad(func, argnums)
    if control_flow_builder() is not None:
        return jvp(slope, primals, tangents)[1]
    level = Level()
    with differentiating():
        level.points(list(primals))
        directions_of(level, primals, tangents)  # they are checked here: vjp speaks of cotangents
    _, pull = vjp(slope, *primals)
    with without_hooks():
        found = pull(tangents[0] if len(primals) == 1 else tangents)
    return found[0] if len(primals) == 1 else found


def _require_tuples(primals: Any, tangents: Any, name: str) -> None:
    for word, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(f"{name}: Expected {word} to be a tuple. E.g. it should be valid to call f(*primals).")


def directions_of(level: Level, primals: Any, tangents: Any) -> list[Tensor]:
    """The tangents in the order of the primals, as tensors of their shapes."""
    found = _leaves_like(flatten(primals)[1], tangents, "tangents", "the argument")
    if len(found) == len(level.inputs):
        found = [_direction(t, x) for t, x in zip(found, level.inputs, strict=True)]
    require_shapes(level.inputs, found)
    return found


def require_shapes(primals: list[Tensor], tangents: list[Any]) -> None:
    """Raise RuntimeError unless tangents have the shapes of the primals."""
    if len(primals) != len(tangents):
        raise RuntimeError(f"{_JVP}: Expected as many tangents as primals, got {len(tangents)} and {len(primals)}")
    for x, t in zip(primals, tangents, strict=True):
        if t._array.shape != x._array.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not"
                f" supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size {list(t.shape)}."
            )


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, shaped (*output, *input), by one forward derivative for each element of the input."""
    from_tape = _jacobian(func, argnums, has_aux, _unhooked(_columns))

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        traced = None if has_aux or control_flow_builder() is None else _traced_jacobian(func, argnums, args, kwargs)
        return from_tape(*args, **kwargs) if traced is None else traced[0]

    return call


def _traced_jacobian(func: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], kwargs: Any) -> tuple[Any] | None:
    """The Jacobian from a graph, in a tuple; None if Python depends on values."""
    from symgrad.compiler.trace.transformed import run_jacobian

    level, places = Level(), _chosen(args, argnums)

    def of_chosen(*chosen: Any) -> Any:
        filled = dict(zip(places, chosen, strict=True))
        return func(*(filled.get(i, arg) for i, arg in enumerate(args)), **kwargs)

    results = Results(of_chosen, "jacobian")
    with differentiating():
        _, chosen = _open(level, args, argnums)
        found = run_jacobian(results.of(chosen), level.inputs)
        if found is None:
            return None
        level.close(found)
    given, count = [level.give(t) for t in found], len(level.inputs)
    return (results.build([_arranged(given[k : k + count], chosen, argnums) for k in range(0, len(given), count)]),)


def _columns(level: Level, y: Tensor) -> list[Tensor]:
    """The Jacobian of `y` in each input, column by column, or by all columns at once in a function that is traced."""
    zeros = [filled(x._array, 0) for x in level.inputs]
    push = push_forward((y,), tuple(level.inputs))

    def along(i: int, tangent: Tensor) -> list[Tensor]:
        return [*push(tuple(tangent if j == i else zero for j, zero in enumerate(zeros)), level.outer)]

    results = []
    for i, x in enumerate(level.inputs):
        shape, last = (*y._array.shape, *x._array.shape), y._array.ndim
        at_once = for_units(lambda units, i=i: along(i, units[0]), x._array) if y.requires_grad else None  # type: ignore[misc]
        if at_once is not None:
            block = ops.permute(at_once[0], axes=(*range(1, last + 1), 0))
        else:
            found = [t for k in range(x._array.size) for t in along(i, unit(x._array, k))]
            block = ops.stack(*found, axis=last) if found else wrap(np.zeros(shape, y._array.dtype))
        results.append(level.give(ops.reshape(block, shape=shape)))
    return results
