"""Shape rows that share memory: the same elements, seen otherwise, on arrays and on tensors alike.

Attributes are enough to make the view again from another base of the same shape: that is how history follows a write (`symgrad.views`).
"""

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
    if not shape:
        return Meta((), x.dtype)
    i, j = normalize_axis(dim0, len(shape)), normalize_axis(dim1, len(shape))
    shape[i], shape[j] = shape[j], shape[i]
    return Meta(tuple(shape), x.dtype)


def permute_type(x: Any, *, axes: tuple[int, ...]) -> Meta:
    if len(axes) != len(x.shape):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of"
            f" dimensions i.e. input.dim() = {len(x.shape)} is not equal to len(dims) = {len(axes)}"
        )
    return Meta(tuple(x.shape[a] for a in axes), x.dtype)


def expand_type(x: Any, *, shape: tuple[int, ...]) -> Meta:
    if broadcast_shapes("expand", x.shape, shape) != tuple(shape):
        raise RuntimeError(f"expand: the shape {list(x.shape)} cannot be expanded to {list(shape)}")
    return Meta(tuple(shape), x.dtype)


def diagonal_type(x: Any, *, offset: int, axis1: int, axis2: int) -> Meta:
    rows, columns = x.shape[axis1], x.shape[axis2]
    rest = tuple(n for i, n in enumerate(x.shape) if i not in (axis1, axis2))
    return Meta((*rest, max(0, min(rows + min(offset, 0), columns - max(offset, 0)))), x.dtype)


def unfold_type(x: Any, *, axis: int, size: int, step: int) -> Meta:
    length = x.shape[axis] if x.shape else 1
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not x.shape:
        return Meta((size,), x.dtype)
    count = (length - size) // step + 1
    return Meta((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)


def _reshape(x, *, shape):
    return x.reshape(shape)


def _transpose(x, *, dim0, dim1):
    return x.swapaxes(dim0, dim1) if x.ndim else x.view()


def _permute(x, *, axes):
    return x.transpose(axes)


def squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape without those of the dimensions `axes` (None: all) that have size 1."""
    return tuple([n for i, n in enumerate(shape) if n != 1 or (axes is not None and i not in axes)])


def _squeeze(x, *, axes):
    return x.reshape(squeezed(x.shape, axes))


def _unsqueeze(x, *, axis):
    shape = x.shape
    return x.reshape((*shape[:axis], 1, *shape[axis:]))


def _expand(x, *, shape):
    """Zero strides, like np.broadcast_to, which takes four times as long and forbids writing."""
    if x.__class__ is not np.ndarray:
        return np.broadcast_to(x, shape)
    if x.size == 1 and x.ndim <= len(shape) and x.flags.c_contiguous:
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    lead = len(shape) - x.ndim
    strides = tuple([0 if i < lead or x.shape[i - lead] != n else x.strides[i - lead] for i, n in enumerate(shape)])
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise ValueError("shapes do not broadcast")
    if x.size and x.flags.c_contiguous:
        return np.ndarray(shape, x.dtype, x, 0, strides)
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def _diagonal(x, *, offset, axis1, axis2):
    view = np.diagonal(x, offset, axis1, axis2)
    if x.flags.writeable:
        view.flags.writeable = True  # NumPy is cautious for the sake of old code
    return view


def _unfold(x, *, axis, size, step):
    meta = unfold_type(x, axis=axis, size=size, step=step)
    if not x.ndim:
        return np.lib.stride_tricks.as_strided(x, meta.shape, (x.itemsize,))
    s = x.strides
    return np.lib.stride_tricks.as_strided(x, meta.shape, (*s[:axis], s[axis] * step, *s[axis + 1 :], s[axis]))


def _unexpand(xp, g, out, x, *, shape):
    return g  # the engine sums it down to the shape of x


def _back(xp, g, out, x, **attrs):
    return xp.reshape(g, shape=x.shape)


def _unpermute(xp, g, out, x, *, axes):
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return xp.permute(g, axes=tuple(inverse))


def _undiagonal(xp, g, out, x, *, offset, axis1, axis2):
    return xp.diag_embed(g, shape=x.shape, offset=offset, axis1=axis1, axis2=axis2)


def _squeeze_title(node: Any) -> str:
    axes = node.attrs["axes"]
    return "SqueezeBackward0" if axes is None else "SqueezeBackward1" if len(axes) < 2 else "SqueezeBackward2"


row(
    "reshape", "x / shape", _reshape, (_back,), policy="each", type=reshape_type, view=True, may_copy=True, display="ViewBackward0",
    jax="jnp.reshape",
)  # fmt: skip
row(
    "transpose", "x / dim0 dim1", _transpose, (lambda xp, g, out, x, *, dim0, dim1: xp.transpose(g, dim0=dim0, dim1=dim1),),
    policy="each", type=transpose_type, view=True, jax=lambda x, *, dim0, dim1: f"jnp.swapaxes({x}, {dim0}, {dim1})",
)  # fmt: skip
row(
    "t", "x", lambda x: x.T, (lambda xp, g, out, x: xp.t(g),), policy="each", type=lambda x: Meta(x.shape[::-1], x.dtype), view=True,
    jax="jnp.transpose",
)  # fmt: skip
row(
    "permute", "x / axes", _permute, (_unpermute,), policy="each", type=permute_type, view=True, jax="jnp.transpose",
)  # fmt: skip
row(
    "squeeze", "x / axes", _squeeze, (_back,), policy="each", type=lambda x, *, axes: Meta(squeezed(x.shape, axes), x.dtype), view=True,
    display=_squeeze_title,
    jax=lambda x, *, axes: (
        f"jnp.squeeze({x})" if axes is None else f"jnp.squeeze({x}, {axes!r})"
    ),
)  # fmt: skip
row(
    "unsqueeze", "x / axis", _unsqueeze, (_back,), policy="each", view=True, jax="jnp.expand_dims",
    type=lambda x, *, axis: Meta((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype),
)  # fmt: skip
row("expand", "x / shape", _expand, (_unexpand,), policy="each", type=expand_type, view=True, jax="jnp.broadcast_to")
row(
    "diagonal", "x / offset axis1 axis2", _diagonal, (_undiagonal,), policy="each", type=diagonal_type, view=True, jax="jnp.diagonal",
)  # fmt: skip
row(
    "unfold", "x / axis size step", _unfold,
    (lambda xp, g, out, x, *, axis, size, step: xp.unfold_transpose(g, shape=x.shape, axis=axis, size=size, step=step),),
    policy="each", type=unfold_type, view=True,
    jax=lambda x, *, axis, size, step: (
        f"jnp.moveaxis(jnp.take({x}, jnp.arange(({x}.shape[{axis}] - {size}) // {step} + 1)[:, None] * {step} + jnp.arange({size}),"
        f" axis={axis}), {axis + 1}, -1)"
    ),
)  # fmt: skip
