"""Derivatives of functions as functions, in reverse mode: grad, vjp, Jacobians and the Hessian, nested as one likes.

A level of differentiation works on copies of its arguments. Where a copy comes from a tensor that an outer level, or the user, is
differentiating, it stays connected to it, and the derivative is recorded; otherwise it is a leaf, and results have no history.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.autograd.backward import grad as autograd_grad, zero_gradient
from symgrad.autograd.functional import rows
from symgrad.autograd.grad_mode import differentiating, without_hooks
from symgrad.coercion import points_of, stands_for_tensor
from symgrad.conversion import is_tensor
from symgrad.dispatch import tensors as ops
from symgrad.engine import is_leaf, node_of
from symgrad.errors import describe
from symgrad.escapes import AUTOGRAD_GRAD, before_escape
from symgrad.mode import is_tracing, local
from symgrad.ops.foreign import elementwise_array, hint
from symgrad.ops.promotion import kind
from symgrad.pytree import flatten, is_container, is_value, leaves, leaves_like, map_leaves, unflatten
from symgrad.tensor import Tensor
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
        values, structure = flatten(given)
        for value in values:
            if not stands_for_tensor(value):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {value.__class__}{hint(value)}")
            elementwise_array(value)
        return unflatten(structure, [self.open(t) for t in points_of(values, leaves(beside))])

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

    def give_all(self, tree: Any) -> Any:
        """Results in their containers, as the caller sees them."""
        return map_leaves(self.give, tree, is_tensor)

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
        return gradient, ((given, level.give_all(aux)) if has_aux else given)

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
        outputs, structure = _tensors(output, "vjp(f, *primals)")
    level.close(outputs)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds = _leaves_like(structure, _cotangent(structure, cotangents), "the cotangent", "the result")
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
        return unflatten(primal_structure, found if wanted else level.derived(found))

    primal_structure = flatten(tuple(opened))[1]
    value = level.give_all(output)
    return (value, pull, level.give_all(aux)) if has_aux else (value, pull)


def _tensors(output: Any, name: str) -> tuple[list[Tensor], Any]:
    """The tensors of an output, and its structure."""
    values, structure = flatten(output)
    for value in values:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{name}: Expected f to return only Tensors, got unsupported type {value.__class__}")
    return values, structure


def _cotangent(structure: Any, cotangents: tuple[Any, ...]) -> Any:
    """The cotangent of an output, given as one argument or, part by part, as several."""
    if len(cotangents) != 1:
        return cotangents
    (given,) = cotangents
    single = isinstance(structure, (tuple, list)) and len(structure) == 1  # of which the only part may be given
    return cotangents if single and not (isinstance(given, (tuple, list)) and len(given) == 1) else given


def _leaves_like(structure: Any, given: Any, what: str, model: str) -> list[Any]:
    """Tangents or cotangents in the order of what they belong to; entries of dicts are found by their keys. A flat row of values is taken
    in its own order."""
    if isinstance(given, (tuple, list)) and not any(map(is_container, given)):
        return leaves(given)
    if is_value(given):
        return [given]
    try:
        return [leaf for leaf, _ in leaves_like(structure, given, what, model)]
    except ValueError as error:
        raise RuntimeError(str(error)) from None


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, shaped (*output, *input), by one backward pass for each element of the output."""
    return _jacobian(func, argnums, has_aux, _rows)


def _jacobian(func: Callable[..., Any], argnums: Argnums, has_aux: bool, blocks: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = Level()
        with differentiating():
            opened, chosen = _open(level, args, argnums)
            output, aux = _auxiliary(func(*opened, **kwargs), has_aux, "jacobian")
            outputs, structure = _tensors(output, "jacobian")
            level.close(outputs)
            found = [_arranged(blocks(level, y), chosen, argnums) for y in outputs]
        jacobian = unflatten(structure, found)
        return (jacobian, level.give_all(aux)) if has_aux else jacobian

    return call


def _arranged(blocks: Any, chosen: list[Any], argnums: Argnums) -> Any:
    """Derivatives in all inputs, in the form of the arguments."""
    values = iter(blocks)
    trees = [unflatten(flatten(c)[1], values) for c in chosen]
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


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of `func`, shaped (*output, *input, *input). Hooks see the first gradient only: PyTorch's
    second derivative is a forward one."""
    return _jacobian(jacrev(func, argnums), argnums, False, _unhooked(_rows))
