"""Derivatives of functions as functions: grad, vjp, jvp, Jacobians and the Hessian, nested as one likes.

A level of differentiation works on copies of its arguments. Where a copy comes from a tensor that an outer level, or the user, is
differentiating, it stays connected to it, and the derivative is recorded; otherwise it is a leaf, and results have no history.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.autograd.backward import grad as autograd_grad, zero_gradient
from symgrad.autograd.functional import filled, for_units, push_forward, rows, unit
from symgrad.autograd.grad_mode import differentiating, without_hooks
from symgrad.coercion import points_of, stands_for_tensor
from symgrad.dispatch import tensors as ops
from symgrad.engine import is_leaf, node_of
from symgrad.errors import describe
from symgrad.escapes import AUTOGRAD_GRAD, before_escape
from symgrad.func import tree
from symgrad.mode import is_tracing, local
from symgrad.ops.foreign import hint
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor, wrap
from symgrad.views import detach

Argnums = int | tuple[int, ...]


class Level:
    """One differentiation in progress: the arguments that it differentiates in, and what its results must keep."""

    def __init__(self) -> None:
        self.recording = local.mode.recording
        self.inputs: list[Tensor] = []
        self.outer = self.kept = False

    def points(self, given: Any, beside: Any = ()) -> Any:
        """The arguments to differentiate in, opened, in their containers; numbers have the types that they have beside the others."""
        values = tree.leaves(given)
        for value in values:
            if not stands_for_tensor(value):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {value.__class__}{hint(value)}")
        return tree.rebuild(given, iter([self.open(t) for t in points_of(values, tree.leaves(beside))]))

    def open(self, value: Tensor) -> Tensor:
        """A copy of an argument to differentiate in."""
        if kind(value._array.dtype) not in "fc":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        source = value if self.recording else detach(value)
        copy: Tensor = ops.cast(source, dtype=value._array.dtype)
        copy._requires_grad = True
        self.inputs.append(copy)
        return copy

    def close(self, outputs: list[Tensor]) -> None:
        """See whether the outputs depend on anything else that is being differentiated, or on what is being traced."""
        if outputs:
            before_escape(outputs[0], AUTOGRAD_GRAD)  # whoever looks on is told that a derivative is taken
        depends = self.recording and _reaches_others(outputs, {id(x) for x in self.inputs})
        self.outer = is_tracing() or depends
        self.kept = depends

    def give(self, value: Any) -> Any:
        """A result as the caller sees it."""
        return detach(value) if isinstance(value, Tensor) and not self.kept else value

    def derived(self, found: Any) -> Any:
        """Derivatives as the caller sees them: of what is recorded for a trace alone, only the trace knows."""
        return [self.give(g) for g in found] if self.outer and not self.kept else found


def _reaches_others(outputs: list[Tensor], own: set[int]) -> bool:
    """Whether a leaf that is not in `own` is reached from the outputs."""
    stack = [t._node if t._node is not None else t for t in outputs if t.requires_grad]
    seen: set[Any] = set()
    while stack:
        edge = stack.pop()
        if not isinstance(edge, Tensor):
            node = node_of(edge)
            if node not in seen:
                seen.add(node)
                stack.extend(e for e in node.inputs if is_leaf(e) or hasattr(node_of(e), "inputs"))
        elif id(edge) not in own:
            return True
    return False


def _chosen(args: tuple[Any, ...], argnums: Argnums) -> list[int]:
    """The positions to differentiate in, counted from the left."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {describe(argnums)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    return [n % len(args) for n in numbers]


def _open(level: Level, args: tuple[Any, ...], argnums: Argnums) -> tuple[list[Any], list[Any]]:
    """All arguments with the chosen ones opened, and the chosen ones."""
    opened = list(args)
    positions = _chosen(args, argnums)
    for n, points in zip(positions, level.points([args[n] for n in positions], args), strict=True):
        opened[n] = points
    return opened, [opened[n] for n in positions]


def _auxiliary(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func` and its value: `(gradient, value)`, or `(gradient, (value, aux))`."""
    name = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = Level()
        with differentiating():
            opened, chosen = _open(level, args, argnums)
            value, aux = _auxiliary(func(*opened, **kwargs), has_aux, name)
            _must_be_scalar(value, name)
            level.close([value])
            inputs = level.inputs
            if value.requires_grad:
                found = autograd_grad(value, inputs, create_graph=level.outer, materialize_grads=True)
            else:
                found = tuple(map(zero_gradient, inputs))
        gradient = _arranged(level.derived(found), chosen, argnums)
        given = level.give(value)
        return gradient, ((given, tree.apply(level.give, aux)) if has_aux else given)

    return call


def _direction(given: Any, like: Tensor) -> Tensor:
    """A tangent or cotangent as a tensor; a Python number has the type of what it belongs to."""
    return given if isinstance(given, Tensor) else points_of((given,), (like,))[0]


def _must_be_scalar(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {value.__class__}")
    if value._array.ndim:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {value._array.ndim} dims. Maybe you wanted"
            " to use the vjp or jacrev APIs instead?"
        )


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of the scalar function `func`; with has_aux, `(gradient, aux)`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradient, rest = both(*args, **kwargs)
        return (gradient, rest[1]) if has_aux else gradient

    return call


def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the value of `func` and its gradient: `(value, gradient)`, in JAX's order."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return call


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func` and a function that takes cotangents of it to cotangents of the primals."""
    level = Level()
    with differentiating():
        opened = level.points(list(primals))
        output, aux = _auxiliary(func(*opened), has_aux, "vjp(f, *primals)")
        outputs = _tensors(output, "vjp(f, *primals)")
    level.close(outputs)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 and isinstance(output, Tensor) else cotangents
        seeds = tree.leaves(given)
        if len(seeds) != len(outputs):
            raise RuntimeError(f"Expected {len(outputs)} cotangents, one for each output of f, got {len(seeds)}")
        seeds = [_direction(s, y) for s, y in zip(seeds, outputs, strict=True)]
        wanted = create_graph or level.kept or (local.mode.recording and any(s.requires_grad for s in seeds))
        recorded = wanted or level.outer
        kept = [(y, s) for y, s in zip(outputs, seeds, strict=True) if y.requires_grad]
        if kept:
            sources, vectors = zip(*kept, strict=True)
            found = autograd_grad(sources, level.inputs, vectors, retain_graph, bool(recorded), materialize_grads=True)
        else:
            found = tuple(map(zero_gradient, level.inputs))
        return tree.rebuild(tuple(opened), iter(found if wanted else level.derived(found)))

    value = tree.apply(level.give, output)
    return (value, pull, tree.apply(level.give, aux)) if has_aux else (value, pull)


def _tensors(output: Any, name: str) -> list[Tensor]:
    values = tree.leaves(output)
    for value in values:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{name}: Expected f to return only Tensors, got unsupported type {value.__class__}")
    return values


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of `func` at the primals, and its derivative in the direction of the tangents."""
    for word, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {word} to be a tuple. E.g. it should be valid to call f(*primals).")
    level = Level()
    with differentiating():
        opened = level.points(list(primals))
        output, aux = _auxiliary(func(*opened), has_aux, "jvp(f, primals, tangents)")
        outputs = _tensors(output, "jvp(f, primals, tangents)")
        directions = tree.leaves(tangents)
        if len(directions) == len(level.inputs):
            directions = [_direction(t, x) for t, x in zip(directions, level.inputs, strict=True)]
        _same_shapes(level.inputs, directions)
        level.close(outputs + directions)
        with without_hooks():
            found = push_forward(tuple(outputs), tuple(level.inputs))(tuple(directions), level.outer)
    value, slope = tree.apply(level.give, output), tree.rebuild(output, map(level.give, found))
    return (value, slope, tree.apply(level.give, aux)) if has_aux else (value, slope)


def _same_shapes(primals: list[Tensor], tangents: list[Any]) -> None:
    if len(primals) != len(tangents):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected as many tangents as primals, got {len(tangents)} and {len(primals)}")
    for x, t in zip(primals, tangents, strict=True):
        if t._array.shape != x._array.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not"
                f" supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size {list(t.shape)}."
            )


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, shaped (*output, *input), by one backward pass for each element of the output."""
    return _jacobian(func, argnums, has_aux, _rows)


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, shaped (*output, *input), by one forward derivative for each element of the input."""
    return _jacobian(func, argnums, has_aux, _unhooked(_columns))


def _jacobian(func: Callable[..., Any], argnums: Argnums, has_aux: bool, blocks: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = Level()
        with differentiating():
            opened, chosen = _open(level, args, argnums)
            output, aux = _auxiliary(func(*opened, **kwargs), has_aux, "jacobian")
            outputs = _tensors(output, "jacobian")
            level.close(outputs)
            found = [_arranged(blocks(level, y), chosen, argnums) for y in outputs]
        jacobian = tree.rebuild(output, iter(found))
        return (jacobian, tree.apply(level.give, aux)) if has_aux else jacobian

    return call


def _arranged(blocks: Any, chosen: list[Any], argnums: Argnums) -> Any:
    """Derivatives in all inputs, in the form of the arguments."""
    values = iter(blocks)
    trees = [tree.rebuild(c, values) for c in chosen]
    return trees[0] if isinstance(argnums, int) else tuple(trees)


def _unhooked(blocks: Callable[..., Any]) -> Callable[..., Any]:
    """Jacobians of which hooks see nothing."""

    def run(level: Level, y: Tensor) -> Any:
        with without_hooks():
            return blocks(level, y)

    return run


def _rows(level: Level, y: Tensor) -> Any:
    """The Jacobian of `y` in each input, row by row."""
    return level.derived(rows(y, tuple(level.inputs), level.outer))


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


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of `func`, shaped (*output, *input, *input). Hooks see the first gradient only: PyTorch's
    second derivative is a forward one."""
    return _jacobian(jacrev(func, argnums), argnums, False, _unhooked(_rows))
