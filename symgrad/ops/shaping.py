"""Shape rows: the same elements, arranged otherwise. Most are views, on arrays and on tensors alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.shapes import broadcast_shapes, infer_shape, normalize_axis
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def reshape_type(x: Any, *, shape: tuple[int, ...]) -> Meta:
    return Meta(infer_shape("reshape", int(np.prod(x.shape, dtype=np.int64)), shape), x.dtype)


def transpose_type(x: Any, *, dim0: int, dim1: int) -> Meta:
    shape = list(x.shape)
    i, j = normalize_axis(dim0, len(shape)), normalize_axis(dim1, len(shape))
    shape[i], shape[j] = shape[j], shape[i]
    return Meta(tuple(shape), x.dtype)


def expand_type(x: Any, *, shape: tuple[int, ...]) -> Meta:
    if broadcast_shapes("expand", x.shape, shape) != tuple(shape):
        raise RuntimeError(f"expand: the shape {list(x.shape)} cannot be expanded to {list(shape)}")
    return Meta(tuple(shape), x.dtype)


def _reshape(x, *, shape):
    return x.reshape(shape)


def _transpose(x, *, dim0, dim1):
    return x.swapaxes(dim0, dim1)


def _expand(x, *, shape):
    """Zero strides, like np.broadcast_to, which takes four times as long."""
    if x.__class__ is not np.ndarray or not x.flags.c_contiguous or x.size == 0:
        return np.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    strides = tuple(
        0 if i < lead or x.shape[i - lead] != n else x.strides[i - lead] for i, n in enumerate(shape)
    )
    if any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise ValueError("shapes do not broadcast")
    return np.ndarray(shape, x.dtype, x, 0, strides)


def _unexpand(xp, g, out, x, *, shape):
    return g  # the engine sums it down to the shape of x


row(
    "reshape", "x / shape", _reshape, (lambda xp, g, out, x, *, shape: xp.reshape(g, shape=x.shape),),
    policy="each", type=reshape_type, view=True, display="ViewBackward0",
)  # fmt: skip
row(
    "transpose", "x / dim0 dim1", _transpose, (lambda xp, g, out, x, *, dim0, dim1: xp.transpose(g, dim0=dim0, dim1=dim1),),
    policy="each", type=transpose_type, view=True,
)  # fmt: skip
row("expand", "x / shape", _expand, (_unexpand,), policy="each", type=expand_type, view=True)


def follow(xp: Any, x: Any, path: Any) -> Any:
    """Apply the view rows of a path."""
    for name, attrs in path:
        x = getattr(xp, name)(x, **attrs)
    return x


def _view_write(base, value, *, path):
    from symgrad.ops.namespace import raw

    out = base.copy()
    follow(raw, out, path)[...] = value
    return out


def _outside(xp, g, out, base, value, *, path):
    return xp.view_write(g, 0 * follow(xp, g, path), path=path)


row(
    "view_write", "base value / path", _view_write, (_outside, lambda xp, g, out, base, value, *, path: follow(xp, g, path)),
    policy="first", type=lambda base, value, *, path: Meta(base.shape, base.dtype), display="CopySlices",
)  # fmt: skip
