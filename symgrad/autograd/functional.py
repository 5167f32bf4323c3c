"""Derivatives of functions by rows: jacobian, hessian, and products with vectors. PyTorch's `torch.autograd.functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from symgrad.application import constant
from symgrad.autograd.backward import grad, zero_gradient
from symgrad.autograd.grad_mode import differentiating, without_hooks
from symgrad.autograd.strict import require_gradients, require_history
from symgrad.coercion import points_of, stands_for_tensor
from symgrad.dispatch import tensors as ops
from symgrad.mode import control_flow_builder, local
from symgrad.ops.foreign import class_name, hint
from symgrad.tensor import Tensor, wrap
from symgrad.views import detach

Function = Callable[..., Any]


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of `func` at `inputs`: a tensor of shape (*output, *input), in tuples where there are several of either."""
    with differentiating():
        xs, one_input = _fresh(inputs, create_graph)
        ys, one_output = _outputs(func(*xs), "jacobian", strict)
        with without_hooks() if strategy == "forward-mode" else nullcontext():
            blocks = [rows(y, xs, create_graph, (i, strict)) for i, y in enumerate(ys)]
    columns = [block[0] if one_input else block for block in blocks]
    return columns[0] if one_output else tuple(columns)


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Hessian of a scalar `func` at `inputs`: shape (*input, *input), in a tuple of tuples for several inputs."""
    one = _is_one(inputs)

    def gradients(*xs: Tensor) -> Any:
        value = _scalar(func(*xs), "hessian", strict)
        found = pull_back((value,), xs, None, True)
        if strict:
            require_history(found, "jacobian")
        return found[0] if one else found

    return jacobian(gradients, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The outputs of `func`, and the product of the vector `v` with its Jacobian."""
    with differentiating():
        xs, one_input = _fresh(inputs, create_graph)
        ys, one_output = _outputs(func(*xs), "vjp", strict)
        vs = _vectors(v, ys, "the user-provided function returns a single Tensor with a single element")
        found = pull_back(ys, xs, vs, create_graph, "back" if strict else None)
    return _given(ys, one_output, create_graph), _given(found, one_input, create_graph)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The outputs of `func`, and the product of its Jacobian with the vector `v`."""
    with differentiating():
        xs, _ = _fresh(inputs, create_graph)
        ys, one_output = _outputs(func(*xs), "jvp", strict)
        vs = _vectors(v, xs, "the input to the user-provided function is a single Tensor with a single element")
        found = push_forward(ys, xs, strict)(vs, create_graph)
        if strict:
            require_gradients(found, create_graph, "back_trick")
    return _given(ys, one_output, create_graph), _given(found, one_output, create_graph)


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a scalar `func`, and the product of the vector `v` with its Hessian."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a scalar `func`, and the product of its Hessian with the vector `v`: the Hessian is symmetric."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(name: str, func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool) -> Any:
    with differentiating():
        xs, one = _fresh(inputs, create_graph)
        vs = _vectors(v, xs, "the input to the user-provided function is a single Tensor with a single element")
        value = _scalar(func(*xs), name, strict)
        slopes = _gradients((value,), xs, None, True)
        if strict:
            require_history(slopes, "jacobian")
        found = pull_back(slopes, xs, vs, create_graph, "double_back" if strict else None)
    return _given((value,), True, create_graph), _given(found, one, create_graph)


def rows(output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool, strict: tuple[int, bool] = (0, False)) -> tuple[Any, ...]:
    """The Jacobians of one output in several inputs: one backward pass for each element of the output, or one for all in a function that is
    traced."""
    if not output.requires_grad:
        return tuple(_zeros((*output._array.shape, *x._array.shape), x) for x in inputs)
    blocks = None if strict[1] else _at_once(output, inputs, create_graph)
    if blocks is not None:
        return blocks
    found = [_row(output, inputs, k, create_graph, strict) for k in range(output._array.size)]
    return tuple(
        _stacked([row[j] for row in found], (*output._array.shape, *x._array.shape), x, create_graph) for j, x in enumerate(inputs)
    )


def _at_once(output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Any, ...] | None:
    """The same by one backward pass for all unit vectors; None if nobody traces, or it cannot be done that way."""
    y, used = output._array, list[int]()

    def example(seeds: list[Tensor]) -> list[Tensor]:
        pulled = grad(output, inputs, seeds[0], retain_graph=True, create_graph=True, allow_unused=True)
        used[:] = [j for j, g in enumerate(pulled) if g is not None]
        return [pulled[j] for j in used]

    found = for_units(example, y)
    if found is None:
        return None
    blocks = dict(zip(used, found if create_graph else map(detach, found), strict=True))
    shapes = [(*y.shape, *x._array.shape) for x in inputs]
    return tuple(
        ops.reshape(blocks[j], shape=shape) if j in blocks else _zeros(shape, inputs[j]) for j, shape in enumerate(shapes)
    )


def for_units(example: Callable[[list[Tensor]], list[Tensor]], like: Any) -> list[Tensor] | None:
    """What a function of one tensor gives for all unit vectors in the shape of an array, stacked, in a function that is traced; None if
    nobody traces, or the unit vectors must be taken one after the other."""
    tracer, size = control_flow_builder(), like.size
    if tracer is None or size < 2:
        return None
    units = ops.reshape(ops.eye(rows=size, columns=size, dtype=like.dtype), shape=(size, *like.shape))
    return tracer.vmap(example, [units], "error")


def _zeros(shape: tuple[int, ...], x: Tensor) -> Tensor:
    """A derivative in `x` of what does not depend on it."""
    return filled(np.broadcast_to(np.zeros((), x._array.dtype), shape), 0)


def filled(like: Any, number: int) -> Tensor:
    """A tensor of one number, in the shape of an array."""
    return constant(np.full_like(like, number, order="C"), number)


def unit(like: Any, k: int) -> Tensor:
    """The unit vector of the element `k`, in the shape of an array."""
    if like.size == 1:
        return filled(like, 1)
    array = np.zeros_like(like, order="C")
    array.reshape(-1)[k] = 1
    return wrap(array)


def _row(output: Tensor, inputs: tuple[Tensor, ...], k: int, create_graph: bool, strict: tuple[int, bool]) -> tuple[Any, ...]:
    found = grad(output, inputs, unit(output._array, k), retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict[1]:
        require_gradients(found, create_graph, "back", f"Output {strict[0]}")
    return tuple(zero_gradient(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _stacked(found: list[Tensor], shape: tuple[int, ...], x: Tensor, create_graph: bool) -> Tensor:
    if not found:
        return _zeros(shape, x)
    if not create_graph and local.mode.capture is None:
        return wrap(np.stack([g._array for g in found]).reshape(shape))
    return ops.reshape(ops.stack(*found, axis=0), shape=shape)


def _gradients(ys: Sequence[Any], xs: Sequence[Any], vs: Any, create_graph: bool) -> tuple[Any, ...]:
    """The cotangents of inputs for cotangents `vs` of outputs (some may be None), None where nothing depends on one."""
    kept = [(y, v) for y, v in zip(ys, [None] * len(ys) if vs is None else vs, strict=True) if y is not None and y.requires_grad]
    if not kept:
        return (None,) * len(xs)
    sources, seeds = zip(*kept, strict=True)
    return grad(sources, xs, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True)


def pull_back(ys: Sequence[Any], xs: Sequence[Any], vs: Any, create_graph: bool, stage: str | None = None) -> tuple[Any, ...]:
    """The same, with zeros where nothing depends on an input; if a stage of strict mode is given, that is an error."""
    found = _gradients(ys, xs, vs, create_graph)
    if stage is not None:
        require_gradients(found, create_graph, stage)
    return tuple(zero_gradient(x) if g is None else g for g, x in zip(found, xs, strict=True))


def push_forward(outputs: tuple[Any, ...], inputs: tuple[Tensor, ...], strict: bool = False) -> Callable[..., tuple[Any, ...]]:
    """A function from tangents of the inputs to tangents of the outputs, recorded if asked.

    A vector-Jacobian product is linear in its vector, and the product of the Jacobian with tangents is the transpose of that.
    """
    moving = [y for y in outputs if y.requires_grad]
    vectors = [filled(y._array, 0).requires_grad_() for y in moving]
    pulled = grad(moving, inputs, vectors, create_graph=True, allow_unused=True) if moving else ()
    if strict:
        require_history(pulled, "grad_inputs")

    def push(tangents: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
        pairs = [(p, t) for p, t in zip(pulled, tangents, strict=False) if p is not None and p.requires_grad]
        found: tuple[Any, ...] = tuple(zero_gradient(y) for y in moving)
        if pairs:
            sources, seeds = zip(*pairs, strict=True)
            found = grad(sources, vectors, seeds, retain_graph=True, create_graph=create_graph, materialize_grads=True)
        results = iter(found)
        return tuple(next(results) if y.requires_grad else zero_gradient(y) for y in outputs)

    return push


def _fresh(inputs: Any, create_graph: bool) -> tuple[tuple[Tensor, ...], bool]:
    """The inputs as tensors of their own that require grad; with create_graph they stay connected to what was given."""
    one = _is_one(inputs)
    given = (inputs,) if one else tuple(inputs)
    for i, x in enumerate(given):
        if not stands_for_tensor(x):
            raise TypeError(f"The inputs given to the function must be Tensors, but input {i} is {class_name(x)}{hint(x)}")
    xs = []
    for x in points_of(given):
        t = ops.cast(x, dtype=x._array.dtype) if create_graph and x.requires_grad else detach(x)
        t._requires_grad = True
        xs.append(t)
    return tuple(xs), one


def _is_one(inputs: Any) -> bool:
    """Whether there is one input: tuples and lists hold several."""
    return not isinstance(inputs, (tuple, list)) and stands_for_tensor(inputs)


def _outputs(result: Any, name: str, strict: bool) -> tuple[tuple[Tensor, ...], bool]:
    one = isinstance(result, Tensor)
    ys = (result,) if one else tuple(result)
    for i, y in enumerate(ys):
        if not isinstance(y, Tensor):
            raise TypeError(f"The outputs of the function given to {name} must be Tensors, but output {i} is {y.__class__.__name__}")
    if strict:
        require_history(ys, "outputs")
    return ys, one


def _scalar(result: Any, name: str, strict: bool) -> Tensor:
    if not isinstance(result, Tensor):
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if strict:
        require_history((result,), "outputs")
    if result._array.size != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return result if result._array.shape == () else ops.reshape(result, shape=())


def _vectors(v: Any, like: tuple[Tensor, ...], single: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0]._array.size != 1:
            raise RuntimeError(f"The vector v can only be None if {single}.")
        return (filled(like[0]._array, 1),)
    vs = (v,) if _is_one(v) else tuple(v)
    if len(vs) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
    vs = tuple(given if isinstance(given, Tensor) else points_of((given,), (x,))[0] for given, x in zip(vs, like, strict=True))
    for i, (given, x) in enumerate(zip(vs, like, strict=True)):
        if given._array.shape != x._array.shape:
            entry = "" if _is_one(v) else f"Entry {i} in "
            raise RuntimeError(f"{entry}v has invalid size: should be {x.shape} but got {given.shape}.")
    return vs


def _given(values: tuple[Any, ...], one: bool, create_graph: bool) -> Any:
    results = values if create_graph else tuple(detach(v) for v in values)
    return results[0] if one else results
