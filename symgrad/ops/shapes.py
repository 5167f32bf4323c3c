"""Shape algebra: broadcasting, axes, and the type rules that rows share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from symgrad.ops.promotion import BOOL, compute_type
from symgrad.ops.spec import Meta


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape, or an error that names the op and both shapes."""
    sizes = set(shapes) - {()}
    if len(sizes) <= 1:
        return tuple(sizes.pop()) if sizes else ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(_mismatch(name, shapes)) from None


def _mismatch(name: str, shapes: tuple[tuple[int, ...], ...]) -> str:
    given = " and ".join(str(list(shape)) for shape in shapes)
    for x, y in pairwise(shapes):
        ndim = max(len(x), len(y))
        for dim in range(ndim - 1, -1, -1):
            a, b = (s[dim - ndim + len(s)] if dim - ndim + len(s) >= 0 else 1 for s in (x, y))
            if a != b and 1 not in (a, b):
                return (
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
                    f" ({name}: cannot broadcast {given})"
                )
    return f"{name}: cannot broadcast {given}"


def elementwise_type(name: str, policy: str) -> Any:
    """The type rule of an elementwise row: shapes broadcast, types meet by the policy."""
    def rule(*operands: Any, **attrs: Any) -> Meta:
        shape = broadcast_shapes(name, *(tuple(o.shape) for o in operands if hasattr(o, "shape")))
        dtype = BOOL if policy == "compare" else compute_type(policy, operands) or operands[0].dtype
        return Meta(shape, dtype)

    return rule


def integer(argument: str, given: Any, function: str = "") -> int:
    """An argument that must be an integer: fractions would be cut off, and booleans are most often meant for another argument."""
    if given.__class__ is int:
        return given
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        name = f"{function}(): " if function else ""
        raise TypeError(f"{name}argument '{argument}' must be int, not {given.__class__.__name__}")
    return given.__index__()  # type: ignore[no-any-return]


def normalize_axis(axis: int, ndim: int) -> int:
    """A dimension in [0, ndim), PyTorch's error otherwise; a 0-d tensor has dimensions 0 and -1."""
    if axis.__class__ is not int:
        axis = integer("dim", axis)
    rank = max(ndim, 1)
    if not -rank <= axis < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis})")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Distinct dimensions in [0, ndim); None and () mean all."""
    if axes is None or (not isinstance(axes, int) and len(axes) == 0):
        return tuple(range(ndim))
    if isinstance(axes, int):
        axes = (axes,)
    result = tuple(normalize_axis(axis, ndim) for axis in axes)
    if len(set(result)) < len(result):
        raise RuntimeError(f"dim {next(a for a in result if result.count(a) > 1)} appears multiple times in the list of dims")
    return result if ndim else ()


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left of one when axes are folded."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of broadcasting: sum `g` down to `shape`."""
    lead = len(g.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and g.shape[i + lead] != 1)
    if axes:
        g = xp.sum(g, axis=axes, keepdims=True)
    return xp.reshape(g, shape=shape) if lead else g


def infer_shape(name: str, size: int, shape: Sequence[int]) -> tuple[int, ...]:
    """A requested shape with its -1 filled in, PyTorch's errors otherwise."""
    shape = tuple(map(int, shape))
    known = prod(shape)
    if known == size and (not shape or min(shape) >= 0):
        return shape
    if shape.count(-1) > 1:
        raise RuntimeError(f"only one dimension can be inferred, got shape {list(shape)} ({name})")
    if any(n < -1 for n in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)} at index {shape.index(min(shape))} of shape {list(shape)} ({name})")
    known = prod(n for n in shape if n != -1)
    if -1 in shape:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {size} elements into shape {list(shape)} because the unspecified dimension size -1 can be"
                f" any value and is ambiguous ({name})"
            )
        if size % known == 0:
            return tuple(size // known if n == -1 else n for n in shape)
    if known != size:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size} ({name})")
    return shape
