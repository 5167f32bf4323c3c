"""Loops and branches that stay what they are when a function is compiled: scan, while_loop, fori_loop and cond.

Eagerly they are plain Python loops, and autograd records what runs. While a function is traced the body is run once, on tensors without
values, and the loop becomes one value of the graph: see `symgrad.compiler.loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad.coercion import stands_for_tensor
from symgrad.dispatch import tensors as ops
from symgrad.errors import describe
from symgrad.from_data import tensor
from symgrad.mode import control_flow_builder, local
from symgrad.observer import Observer
from symgrad.ops.foreign import native, sympy_array
from symgrad.ops.generator import Generator, default_generator
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.pytree import LEAF, describe_form, flatten, leaves_like, map_leaves, places, unflatten
from symgrad.tensor import Tensor, wrap

__all__ = ["cond", "fori_loop", "scan", "while_loop"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Go through `xs` along their first dimension with `carry, y = f(carry, x)`; gives the last carry, and all `y` stacked.

    The carry, `xs` and `y` are tensors, or containers of them; without `xs`, `length` says how many steps there are, and x is None. In
    `reverse` the last x comes first, and its y is still the last. A carry keeps its shapes and dtypes from step to step."""
    (carry, carries), (given, slices) = _taken_apart("carry", init), _taken_apart("xs", xs)
    count = _length(given, length)
    step = _Step(f, carry, given)
    loops = control_flow_builder()
    if loops is not None:
        last, ys = loops.scan(step, carries, slices, count, bool(reverse))
    else:
        last, ys = _scanned(step, carries, slices, count, reverse)
    return carry.build(last), step.results.build(ys)


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any, *, max_steps: int | None = None) -> Any:
    """`while cond_fn(carry): carry = body_fn(carry)`, from `init` on; gives the last carry.

    With `max_steps` it ends after so many steps at the latest. A compiled loop needs that to be differentiated in reverse, which costs
    the memory of `max_steps` carries; forwards (jvp) it does not."""
    if max_steps is not None and (type(max_steps) is not int or max_steps < 0):
        raise TypeError(f"while_loop: max_steps is a number of steps, got {max_steps!r}")
    carry, now = _taken_apart("carry", init)

    def step(carries: Sequence[Tensor]) -> list[Tensor]:
        return carry.matched(body_fn(carry.build(carries)), body_fn)

    def test(carries: Sequence[Tensor]) -> Any:
        return _truth("while_loop", cond_fn(carry.build(carries)), cond_fn)

    loops = control_flow_builder()
    if loops is not None:
        return carry.build(loops.while_loop(test, step, now, max_steps))
    count = 0
    while count != max_steps and test(now):
        now, count = step(now), count + 1
    return carry.build(now)


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): carry = body(i, carry)`, from `init` on; gives the last carry. `i` is a tensor of type int64.

    Bounds that are tensors make it a while_loop, which a compiled function cannot differentiate in reverse."""
    lower, upper = _without_foreign(lower), _without_foreign(upper)
    if all(isinstance(x, (int, np.integer)) for x in (lower, upper)):
        places = tensor(np.arange(int(lower), int(upper), dtype=np.int64))
        return scan(lambda carry, i: (body(i, carry), None), init, places)[0]
    for x in (lower, upper):
        if not isinstance(x, (Tensor, int, np.integer)):
            raise TypeError(f"fori_loop: bounds are whole numbers, or tensors of them, got {describe(x)}")
    start, end = (x if isinstance(x, Tensor) else tensor(int(x)) for x in (lower, upper))
    _, last = while_loop(lambda state: state[0] < end, lambda state: (state[0] + 1, body(state[0], state[1])), (start, init))
    return last


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """`true_fn(*operands) if pred else false_fn(*operands)`; both give tensors, or containers of them, of the same shapes and dtypes."""
    truth = _truth("cond", pred, None)
    operands = map_leaves(_without_foreign, operands, _is_foreign)
    loops = control_flow_builder()
    if loops is None or not isinstance(truth, Tensor):
        return _numbers_too(true_fn(*operands) if truth else false_fn(*operands), true_fn if truth else false_fn)
    forms: list[_Form] = []

    def true() -> list[Tensor]:
        form, tensors = _taken_apart("result", true_fn(*operands), true_fn)
        forms.append(form)
        return tensors

    def false() -> list[Tensor]:
        return forms[0].matched(false_fn(*operands), false_fn, f"true_fn ({_place(true_fn)}) gives", "false_fn gives")

    results = loops.cond(truth, true, false)
    if results is None:
        return _numbers_too(true_fn(*operands) if truth else false_fn(*operands), true_fn)
    return forms[0].build(results)


def _without_foreign(x: Any) -> Any:
    """A SymPy number as a Python number, as a branch computes with it; arrays of SymPy's and JAX's as tensors; anything else as it is."""
    plain = native(x)
    if isinstance(plain, np.ndarray) or sympy_array(x) is not None:
        return tensor(x)
    return x if plain is None else float(plain) if isinstance(plain, Fraction) else plain


def _is_foreign(x: Any) -> bool:
    return native(x) is not None or sympy_array(x) is not None


def _numbers_too(result: Any, function: Any) -> Any:
    form, tensors = _taken_apart("result", result, function)
    return form.build(tensors)


# containers


def _taken_apart(what: str, container: Any, source: Any = None) -> tuple[_Form, list[Tensor]]:
    """The form of a container, and its tensors; numbers and arrays in it become tensors, None stays what it is."""
    leaves, structure = flatten(container)
    paths = places(structure, what)
    tensors = [_tensor(path, leaf, source) for path, leaf in zip(paths, leaves, strict=True)]
    return _Form(what, structure, paths, [(t._array.shape, t._array.dtype) for t in tensors]), tensors


class _Form:
    """A container without its tensors: its structure, and the place and type of each tensor."""

    def __init__(self, what: str, structure: Any, paths: list[str], types: list[Any]) -> None:
        self.what, self.structure, self.paths, self.types = what, structure, paths, types

    def build(self, tensors: Sequence[Any]) -> Any:
        """The same container with other tensors."""
        return unflatten(self.structure, tensors)

    def matched(self, other: Any, source: Any, before: str = "it is", after: str = "then") -> list[Tensor]:
        """The tensors of another container of the same form and types; TypeError names the first place where it is not."""

        def mismatch(path: str, wanted: Any, came: Any) -> TypeError:
            return TypeError(f"{path} must keep its form: {_form(wanted)} is wanted, {_form(came)} came ({_place(source)})")

        leaves = list(leaves_like(self.structure, other, self.what, mismatch=mismatch))
        found = []
        for (leaf, path), (shape, dtype) in zip(leaves, self.types, strict=True):
            new = leaf if isinstance(leaf, Tensor) else _tensor(path, leaf, source, dtype)
            if (new._array.shape, new._array.dtype) != (shape, dtype):
                kept = f"{path} must keep its shape and dtype: {before} {dtype}{list(shape)}, {after} {_type(new)}"
                raise TypeError(f"{kept} ({_place(source)}); cast or expand it")
            found.append(new)
        return found


def _form(x: Any) -> str:
    return f"a dict of {list(x)}" if isinstance(x, dict) else "a tensor" if x is LEAF else describe_form(x)


def _type(t: Tensor) -> str:
    return f"{t._array.dtype}{list(t._array.shape)}"


def _tensor(path: str, leaf: Any, source: Any, dtype: Any = None) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    if is_symbolic_scalar(leaf) and not isinstance(leaf, bool):  # a number that may be another one at the next run
        return tensor(type(leaf.number)(0), dtype=dtype) + leaf  # type: ignore[no-any-return]
    if stands_for_tensor(leaf):
        return tensor(leaf) if dtype is None else tensor(leaf, dtype=dtype)
    taken = "tensors and numbers, in dicts, lists, tuples and dataclasses"
    raise TypeError(f"{path} is {describe(leaf)}: loops and branches take {taken}{_place(source, ' ')}")


def _place(function: Any, gap: str = "") -> str:
    """Where a function of the user's stands: `model.py:12`."""
    code = getattr(function, "__code__", None)
    return "" if function is None else f"{gap}{code.co_filename}:{code.co_firstlineno}" if code is not None else f"{gap}{function!r}"


# steps


class _Step:
    """One step of a scan, on lists of tensors."""

    def __init__(self, f: Callable[..., Any], carry: _Form, xs: _Form) -> None:
        self.f, self.carry, self.xs = f, carry, xs
        self.results: Any = None
        """What y is like; known after the first step."""

    def __call__(self, carries: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        found = self.f(self.carry.build(carries), self.xs.build(slices))
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(f"scan: f must return (carry, y), got {describe(found)} ({_place(self.f)}); y may be None")
        new = self.carry.matched(found[0], self.f)
        if self.results is None:
            self.results, ys = _taken_apart("y", found[1], self.f)
            return new, ys
        return new, self.results.matched(found[1], self.f)


def _length(xs: _Form, length: int | None) -> int:
    for path, (shape, dtype) in zip(xs.paths, xs.types, strict=True):
        if not shape:
            raise ValueError(f"scan: {path} is one number, {dtype}[], and has no first dimension to go through")
    sizes = {path: shape[0] for path, (shape, _) in zip(xs.paths, xs.types, strict=True)}
    if length is None and not sizes:
        raise ValueError("scan: without xs, length= must say how many steps there are")
    count = int(next(iter(sizes.values())) if length is None else length)
    for path, size in sizes.items():
        if size != count:
            raise ValueError(f"scan: {path} has {size} entries along its first dimension where {count} are wanted")
    if count < 0:
        raise ValueError(f"scan: length={length} is no number of steps")
    return count


def _scanned(
    step: _Step, carries: list[Tensor], slices: list[Tensor], count: int, reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    if not count:
        return carries, _none_of(step, carries, slices)
    columns = [ops.unbind(x, axis=0) for x in slices]
    places = reversed(range(count)) if reverse else range(count)
    rows: list[list[Tensor]] = []
    for t in places:
        carries, ys = step(carries, [column[t] for column in columns])
        rows.append(ys)
    if reverse:
        rows.reverse()
    return carries, [ops.stack(*column, axis=0) for column in zip(*rows, strict=True)]


class _TypesOnly(Observer):
    """Nothing is computed: results have a type and no values."""

    abstract = True


def _none_of(step: _Step, carries: Sequence[Tensor], slices: Sequence[Tensor]) -> list[Tensor]:
    """What no steps give: the body is run without values, to see what y is like."""
    mode, state = local.mode, Generator.get_state(default_generator)
    outer = mode.swap_capture(_TypesOnly(mode.capture))
    try:
        _, ys = step([without_values(t) for t in carries], [without_values(x, 1) for x in slices])
    finally:
        mode.swap_capture(outer)
        Generator.set_state(default_generator, state)
    return [wrap(np.zeros((0, *y._array.shape), y._array.dtype)) for y in ys]


def without_values(t: Tensor, skip: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor of the same type, without the first `skip` dimensions."""
    return wrap(np.broadcast_to(np.zeros((), t._array.dtype), t._array.shape[skip:]), requires_grad)


def _truth(what: str, x: Any, source: Any) -> Any:
    """A condition: one truth value, as a tensor or as Python's."""
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if not isinstance(x, (Tensor, list)) and stands_for_tensor(x):
        x = tensor(x)
    if not isinstance(x, Tensor) or x._array.size != 1:
        raise TypeError(f"{what}: a condition is one truth value, got {describe(x)}{_place(source, ' ')}")
    return x


def is_traced() -> bool:
    """Whether a loop becomes a value of a graph here, or runs."""
    return control_flow_builder() is not None
