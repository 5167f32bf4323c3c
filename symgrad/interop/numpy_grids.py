"""Sequences of NumPy between ends that are tensors: adapters."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import as_dtype, constant, floating, option, pair, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor


def _between(start: Tensor, stop: Tensor, num: int, endpoint: bool, axis: int) -> tuple[Tensor, Tensor]:
    """Numbers at equal distances, in a new dimension, and the distance."""
    parts = max(num - 1 if endpoint else num, 1)
    step = (stop - start) / parts
    start, stop = functional.broadcast_tensors(start, stop)
    places = constant(np.arange(num), start).reshape(-1, *[1] * start.ndim)
    found = start + places * step
    if endpoint and num > 1:
        found = functional.cat([found[:-1], stop.unsqueeze(0)])
    return functional.movedim(found, 0, axis) if found.ndim > 1 and axis != 0 else found, step


@implements(np.linspace)
def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    found, step = _between(*_ends(start, stop), int(num), endpoint, axis)
    found = found if dtype is None else found.to(as_dtype(dtype))
    return (found, step) if retstep else found


def _ends(start: Any, stop: Any) -> tuple[Tensor, Tensor]:
    """Both ends as tensors; a number takes on the type of the other end."""
    ends = start, stop
    known = next(tensor(x) for x in ends if not isinstance(x, (int, float)))
    like = floating(known)
    first, last = (constant(x, like) if isinstance(x, (int, float)) else floating(x) for x in ends)
    return first, last


@implements(np.logspace)
def _logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    if isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        start = constant(start, floating(base))
    found, _ = _between(*_ends(start, stop), int(num), endpoint, axis)
    result = functional.pow(tensor(base).to(found.dtype), found)
    return result if dtype is None else result.to(as_dtype(dtype))


@implements(np.geomspace)
def _geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    first, last = functional.broadcast_tensors(*_ends(start, stop))
    exponent, _ = _between((last / first).log() * 0, (last / first).log(), int(num), endpoint, 0)
    found = first * exponent.exp()
    if endpoint and num > 1:
        found = functional.cat([found[:-1], last.unsqueeze(0)])
    result = functional.movedim(found, 0, axis) if found.ndim > 1 and axis != 0 else found
    return result if dtype is None else result.to(as_dtype(dtype))


@implements(np.arange)
def _arange(start_or_stop: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """`np.arange(0, t, like=t)`: how many numbers there are is a guard."""
    start, stop = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    bounds = start, stop, step
    like = next(tensor(x) for x in bounds if isinstance(x, Tensor))
    first, last, by = (tensor(x).to(like.dtype) for x in (start, stop, step))
    count = max(0, int(((last - first) / by).ceil()))
    found = first + constant(np.arange(count), first) * by
    return found if dtype is None else found.to(as_dtype(dtype))


@implements(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    x = tensor(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    powers = [x * 0 + 1]
    for _ in range((x.numel() if N is None else N) - 1):
        powers.append(powers[-1] * x)
    if N == 0:
        raise option("numpy.vander", "takes at least one column")
    return functional.stack(powers if increasing else powers[::-1], dim=1)


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (functional.movedim(t, i, -1) for t, i in zip(pair(a, b), (axisa, axisb), strict=True))
    if x.shape[-1] == 2 == y.shape[-1]:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors")
    x, y = functional.broadcast_tensors(x, y)
    found = functional.cross(x, y, dim=-1)
    return functional.movedim(found, -1, axisc)
