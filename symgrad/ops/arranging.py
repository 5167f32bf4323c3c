"""Shape rows that copy: elements in another order, repeated, or placed among zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.shaping import diagonal_type
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def _same(x: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, x.dtype)


def triangle_type(name: str) -> Any:
    def rule(x: Any, *, diagonal: int) -> Meta:
        if len(x.shape) < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return Meta(x.shape, x.dtype)

    return rule


def diag_embed_type(x: Any, *, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> Meta:
    expected = diagonal_type(Meta(shape, x.dtype), offset=offset, axis1=axis1, axis2=axis2).shape
    if expected != tuple(x.shape):
        raise RuntimeError(f"diag_embed: a diagonal of shape {list(expected)} is wanted, got {list(x.shape)}")
    return Meta(shape, x.dtype)


def tile_type(x: Any, *, reps: tuple[int, ...]) -> Meta:
    lead = len(reps) - len(x.shape)
    return Meta(tuple(r * n for r, n in zip(reps, (1,) * lead + tuple(x.shape), strict=True)), x.dtype)


def _flip(x, *, axes):
    return np.flip(x, axes).copy()


def _roll(x, *, shifts, axes):
    return np.asarray(np.roll(x, shifts, axes or None), order="C")  # ascontiguousarray would give a number a dimension


def _tile(x, *, reps):
    return np.tile(x, reps)


def _untile(xp, g, out, x, *, reps):
    """Sum over the copies: each dimension of g is (copies, elements)."""
    lead = len(reps) - len(x.shape)
    split: list[int] = []
    for r, n in zip(reps, (1,) * lead + tuple(x.shape), strict=True):
        split += (r, n)
    summed = xp.sum(xp.reshape(g, shape=tuple(split)), axis=tuple(range(0, len(split), 2)), keepdims=False)
    return xp.reshape(summed, shape=x.shape)


def _diag_embed(x, *, shape, offset, axis1, axis2):
    out = np.zeros(shape, x.dtype)
    view = np.diagonal(out, offset, axis1, axis2)
    view.flags.writeable = True
    view[...] = x
    return out


def _unfold_transpose(x, *, shape, axis, size, step):
    """The transpose of unfold: overlapping windows add up."""
    out = np.zeros(shape, x.dtype)
    if not shape:
        return out + x.sum()
    windows = x.shape[axis]
    lead = (slice(None),) * axis
    for i in range(size):
        out[(*lead, slice(i, i + (windows - 1) * step + 1, step))] += x[..., i]
    return out


row(
    "flip", "x / axes", _flip, (lambda xp, g, out, x, *, axes: xp.flip(g, axes=axes),), policy="each", type=_same,
    jax=lambda x, *, axes: f"jnp.flip({x}, {axes!r})",
)  # fmt: skip
row(
    "roll", "x / shifts axes", _roll,
    (lambda xp, g, out, x, *, shifts, axes: xp.roll(g, shifts=tuple(-s for s in shifts), axes=axes),), policy="each", type=_same,
    jax=lambda x, *, shifts, axes: f"jnp.roll({x}, {shifts!r}, {axes!r})" if axes else f"jnp.roll({x}, {shifts[0]!r})",
)  # fmt: skip
row("tile", "x / reps", _tile, (_untile,), policy="each", type=tile_type, display="RepeatBackward0", jax="jnp.tile")
row(
    "tril", "x / diagonal", lambda x, *, diagonal: np.tril(x, diagonal),
    (lambda xp, g, out, x, *, diagonal: xp.tril(g, diagonal=diagonal),), policy="each", type=triangle_type("tril"),
    jax=lambda x, *, diagonal: f"jnp.tril({x}, {diagonal!r})",
)  # fmt: skip
row(
    "triu", "x / diagonal", lambda x, *, diagonal: np.triu(x, diagonal),
    (lambda xp, g, out, x, *, diagonal: xp.triu(g, diagonal=diagonal),), policy="each", type=triangle_type("triu"),
    jax=lambda x, *, diagonal: f"jnp.triu({x}, {diagonal!r})",
)  # fmt: skip
row(
    "diag_embed", "x / shape offset axis1 axis2", _diag_embed,
    (lambda xp, g, out, x, *, shape, **where: xp.diagonal(g, **where),), policy="each", type=diag_embed_type,
    jax=lambda x, *, shape, offset, axis1, axis2: _diag_embed_text(x, shape, offset, axis1, axis2),
)  # fmt: skip
row(
    "unfold_transpose", "x / shape axis size step", _unfold_transpose,
    (lambda xp, g, out, x, *, shape, **windows: xp.unfold(g, **windows),),
    policy="each", type=lambda x, *, shape, axis, size, step: Meta(shape, x.dtype),
    jax=lambda x, *, shape, axis, size, step: (
        f"jnp.zeros({shape!r}, {x}.dtype).at[{':, ' * axis}jnp.arange({x}.shape[{axis}])[:, None] * {step} + jnp.arange({size})]"
        f".add(jnp.moveaxis({x}, -1, {axis + 1}))"
    ),
)  # fmt: skip


def _diag_embed_text(x: str, shape: tuple[int, ...], offset: int, axis1: int, axis2: int) -> str:
    """Rows and columns of the diagonal as index arrays, the diagonal's own dimension moved to where NumPy puts them."""
    n = diagonal_type(Meta(shape, None), offset=offset, axis1=axis1, axis2=axis2).shape[-1]
    index = [":"] * len(shape)
    index[axis1], index[axis2] = (f"jnp.arange({start}, {start + n})" for start in (max(0, -offset), max(0, offset)))
    place = min(axis1, axis2) if abs(axis1 - axis2) == 1 else 0
    return f"jnp.zeros({shape!r}, {x}.dtype).at[{', '.join(index)}].set(jnp.moveaxis({x}, -1, {place}))"
