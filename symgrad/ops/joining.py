"""Rows that join tensors, and rows that cut one into several views."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.indexing import as_slices, index_text
from symgrad.ops.promotion import result_type
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def cat_type(*tensors: Any, axis: int) -> Meta:
    first = tensors[0].shape
    for i, t in enumerate(tensors):
        if len(t.shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(t.shape)}")
        for dim, (n, m) in enumerate(zip(first, t.shape, strict=True)):
            if dim != axis and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {n} but got size {m} for tensor"
                    f" number {i} in the list."
                )
    total = sum(t.shape[axis] for t in tensors)
    return Meta((*first[:axis], total, *first[axis + 1 :]), result_type(*tensors))


def stack_type(*tensors: Any, axis: int) -> Meta:
    first = tensors[0].shape
    for i, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(t.shape)} at entry {i}"
            )
    return Meta((*first[:axis], len(tensors), *first[axis:]), result_type(*tensors))


def region(shape: tuple[int, ...], axis: int, item: tuple[int, int, int] | int) -> tuple[Any, ...]:
    """The index that takes `item` of dimension `axis` and all of those before it."""
    return (*((0, n, 1) for n in shape[:axis]), item)


def _stack(*tensors, axis):
    return np.stack(tensors, axis) if axis else np.array(tensors)  # for many small arrays half the time, and never more


def _cat_rule(xp, g, out, *tensors, index, axis):
    start = sum(t.shape[axis] for t in tensors[:index])
    return xp.getitem(g, index=region(g.shape, axis, (start, start + tensors[index].shape[axis], 1)))


def _split(x, *, axis, sizes):
    pieces, start, lead = [], 0, (slice(None),) * axis
    for size in sizes:
        pieces.append(x[(*lead, slice(start, start + size))])
        start += size
    return tuple(pieces)


def _unsplit(xp, g, out, x, *, axis, sizes):
    if all(piece is not None for piece in g):
        return xp.cat(*g, axis=axis)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    places = [region(x.shape, axis, (a, a + n, 1)) for a, n in zip(starts, sizes, strict=True)]
    return _assembled(xp, g, x, places)


def _unbind(x, *, axis):
    lead = (slice(None),) * axis
    return tuple(x[(*lead, i, ...)] for i in range(x.shape[axis]))


def _rebind(xp, g, out, x, *, axis):
    if all(piece is not None for piece in g):
        return xp.stack(*g, axis=axis)
    return _assembled(xp, g, x, [region(x.shape, axis, i) for i in range(len(g))])


def _assembled(xp, g, x, places):
    """Cotangents of some of the pieces, zeros elsewhere."""
    used = [(piece, place) for piece, place in zip(g, places, strict=True) if piece is not None]
    return xp.assemble(*(piece for piece, _ in used), shape=x.shape, places=tuple(place for _, place in used))


def _assemble(*pieces, shape, places):
    out = np.zeros(shape, pieces[0].dtype)
    for piece, place in zip(pieces, places, strict=True):
        out[as_slices(place)] = piece
    return out


def _assemble_text(*pieces: str, shape: Any, places: Any) -> str:
    text = f"jnp.zeros({shape!r}, {pieces[0]}.dtype)"
    for piece, place in zip(pieces, places, strict=True):
        text += f".at[{index_text(place)}].set({piece})"
    return text


def split_type(x: Any, *, axis: int, sizes: tuple[int, ...]) -> tuple[Meta, ...]:
    if sum(sizes) != x.shape[axis]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {x.shape[axis]} (input tensor's size at dimension {axis}), but"
            f" got split_sizes={list(sizes)}"
        )
    return tuple(Meta((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes)


def unbind_type(x: Any, *, axis: int) -> tuple[Meta, ...]:
    return (Meta((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype),) * int(x.shape[axis])


row(
    "cat", "*tensors / axis", lambda *tensors, axis: np.ascontiguousarray(np.concatenate(tensors, axis)), (_cat_rule,), type=cat_type,
    jax=lambda *tensors, axis: f"jnp.concatenate([{', '.join(tensors)}], axis={axis})",
)  # fmt: skip
row(
    "stack", "*tensors / axis", _stack,
    (lambda xp, g, out, *tensors, index, axis: xp.getitem(g, index=region(g.shape, axis, index)),), type=stack_type,
    jax=lambda *tensors, axis: f"jnp.stack([{', '.join(tensors)}], axis={axis})",
)  # fmt: skip
row(
    "assemble", "*pieces / shape places", _assemble,
    (lambda xp, g, out, *pieces, index, shape, places: xp.getitem(g, index=places[index]),),
    type=lambda *pieces, shape, places: Meta(shape, pieces[0].dtype), jax=_assemble_text,
)  # fmt: skip
for _name in ("split", "split_with_sizes"):  # PyTorch has two names for it
    row(
        _name, "x / axis sizes", _split, (_unsplit,), policy="each", type=split_type, outputs=0, view=True,
        jax=lambda x, *, axis, sizes: f"jnp.split({x}, {tuple(sum(sizes[:i]) for i in range(1, len(sizes)))!r}, axis={axis})",
    )  # fmt: skip
row(
    "unbind", "x / axis", _unbind, (_rebind,), policy="each", type=unbind_type, outputs=0, view=True,
    jax="jnp.unstack",
)  # fmt: skip
