"""Scalars that a traced function has computed, passed where an op takes a Python number: they stay values of the program.

As in PyTorch only the number is used: no gradient flows back to it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.dispatch import tensors as ops
from symgrad.mode import local
from symgrad.ops.promotion import FLOAT64, kind
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array
from symgrad.views import detach, store


def is_computed(value: Any) -> bool:
    """True if a number is a one-element tensor, or a symbolic argument, of a traced function, and may differ at the next run."""
    return is_symbolic_scalar(value) or is_computed_tensor(value)


def is_computed_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and local.mode.capture is not None and value._array.size == 1


def fixed(value: Any) -> Any:
    """Return a computed tensor as a detached operand of no dimensions; anything else unchanged."""
    return ops.reshape(detach(value), shape=()) if is_computed_tensor(value) else value


def _constant(array: Array) -> Tensor:
    t = wrap(array)
    if local.mode.capture is not None:
        local.mode.capture.on_constant(t)
    return t


def _single(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as a tensor of this dtype."""
    if not is_computed(value):
        return _constant(np.asarray(value, dtype))
    one = fixed(value)
    if not isinstance(one, Tensor):
        one = ops.mul(_constant(np.ones((), np.asarray(value.number).dtype)), value)  # in the type that Python would compute in
    return ops.cast(one, dtype=dtype)


def filled(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], requires_grad: bool) -> Tensor:
    """Return a tensor filled with one number."""
    result = store(_constant(np.zeros(shape, dtype)), ops.expand(_single(value, dtype), shape=shape))
    return result.requires_grad_(requires_grad)


def known(data: Any) -> tuple[Any, list[Any]]:
    """Return nested sequences with the current values in place of computed scalars, and a flat list of all leaves. Tensors that require
    grad stay: a copy would lose their history, which is reported elsewhere."""
    if isinstance(data, (list, tuple)):
        found = [known(x) for x in data]
        return [x for x, _ in found], [number for _, numbers in found for number in numbers]
    if is_symbolic_scalar(data):
        return data.number, [data]
    if isinstance(data, Tensor) and not data._array.ndim and not data.requires_grad:
        return data._array[()], [data]
    return data, [data]


def gathered(numbers: list[Any], like: Array) -> Tensor:
    """Return numbers, some of them computed, as a tensor of the shape and dtype of `like`."""
    found = [ops.reshape(_single(x, like.dtype), shape=(1,)) for x in numbers]
    return ops.reshape(ops.cat(*found, axis=0), shape=like.shape)


def spaced(start: Any, end: Any, count: int, dtype: np.dtype[Any]) -> Tensor:
    """Return `count` evenly spaced numbers, computed from both ends towards the middle, so that both ends are exact."""
    compute = dtype if kind(dtype) in "fc" else FLOAT64
    first, last, indices = _single(start, compute), _single(end, compute), np.arange(count)
    step = ops.div(ops.sub(last, first), max(count - 1, 1))
    ahead = ops.add(first, ops.mul(_constant(indices.astype(compute)), step))
    behind = ops.sub(last, ops.mul(_constant((count - 1 - indices).astype(compute)), step))
    values = ops.where(_constant(indices < count // 2 + (count == 1)), ahead, behind)
    return ops.cast(values, dtype=dtype)


def stepped(start: Any, end: Any, step: Any, dtype: np.dtype[Any]) -> Tensor:
    """Return start, start + step, ... while less than `end`. The count depends on the values, and becomes a condition of the program."""
    if not any(is_computed_tensor(x) for x in (start, end, step)):  # Python scalars: symbolic ones add their own conditions
        if step == 0:
            raise RuntimeError("step must be nonzero")
        count = math.ceil((end - start) / step)
    else:
        first, last, one = (_single(x, FLOAT64) for x in (start, end, step))
        ratio = ops.div(ops.sub(last, first), one)
        if not bool(ops.isfinite(ratio)):
            raise RuntimeError("step must be nonzero" if bool(ops.eq(one, 0)) else "unsupported range: a bound of arange() is not finite")
        count = int(ops.ceil(ratio))
    if count < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    values = ops.add(_single(start, FLOAT64), ops.mul(_constant(np.arange(count).astype(FLOAT64)), _single(step, FLOAT64)))
    return ops.cast(values, dtype=dtype)
