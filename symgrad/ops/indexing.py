"""Rows that read and write at places given by an index.

A basic index is an attribute: a tuple with, for each dimension, a non-negative int or a slice as (start, stop, step), and None for a new
dimension. Index arrays are data: `dims` says which dimension each of them walks along; all other dimensions are taken whole.
The transpose of reading is adding into zeros, and the transpose of that is reading again, so derivatives of any order stay in these rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.errors import UnknownSize
from symgrad.ops.promotion import INT64
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import elementwise, row


@lru_cache(maxsize=4096)
def as_slices(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy's form of a basic index; the ellipsis makes the result an array, and a view, even if it has no dimensions."""
    return (*(slice(*item) if item.__class__ is tuple else item for item in index), ...)


def index_text(index: tuple[Any, ...]) -> str:
    parts = [
        f"{item[0]}:{item[1]}" + (f":{item[2]}" if item[2] != 1 else "") if item.__class__ is tuple else repr(item) for item in index
    ]
    return ", ".join((*parts, "..."))


def getitem_type(x: Any, *, index: tuple[Any, ...]) -> Meta:
    shape, dim = [], 0
    for item in index:
        if item is None:
            shape.append(1)
            continue
        if item.__class__ is tuple:
            shape.append(len(range(*item)))
        dim += 1
    return Meta((*shape, *x.shape[dim:]), x.dtype)


def _getitem(x, *, index):
    return x[as_slices(index)]


def _embed(x, *, shape, index):
    out = np.zeros(shape, x.dtype)
    out[as_slices(index)] = x
    return out


def _getitem_title(node: Any) -> str:
    """PyTorch's name of the last step that an index is made of."""
    index = node.attrs["index"]
    for item in reversed(index):
        if item is None:
            return "UnsqueezeBackward0"
        return "SliceBackward0" if item.__class__ is tuple else "SelectBackward0"
    return "AliasBackward0"


row(
    "getitem", "x / index", _getitem, (lambda xp, g, out, x, *, index: xp.embed(g, shape=x.shape, index=index),),
    policy="each", type=getitem_type, view=True, display=_getitem_title, jax=lambda x, *, index: f"{x}[{index_text(index)}]",
)  # fmt: skip
row(
    "embed", "x / shape index", _embed, (lambda xp, g, out, x, *, shape, index: xp.getitem(g, index=index),),
    policy="each", type=lambda x, *, shape, index: Meta(shape, x.dtype), display="SliceBackward0",
    jax=lambda x, *, shape, index: f"jnp.zeros({shape!r}, {x}.dtype).at[{index_text(index)}].set({x})",
)  # fmt: skip


# --- index arrays ---------------------------------------------------------------------------------------------------------


def places(indices: tuple[Any, ...], dims: tuple[int, ...]) -> tuple[Any, ...]:
    """NumPy's index: arrays at their dimensions, everything elsewhere."""
    index: list[Any] = [slice(None)] * (dims[-1] + 1)
    for dim, array in zip(dims, indices, strict=True):
        index[dim] = array
    return tuple(index)


def _places_text(indices: tuple[str, ...], dims: tuple[int, ...]) -> str:
    index = [":"] * (dims[-1] + 1)
    for dim, text in zip(dims, indices, strict=True):
        index[dim] = text
    return ", ".join(index)


def index_shape(shape: tuple[int, ...], indices: tuple[Any, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Where the index arrays stand side by side their common shape replaces their dimensions; else it comes first."""
    try:
        common = np.broadcast_shapes(*(i.shape for i in indices))
    except ValueError:
        given = ", ".join(str(list(i.shape)) for i in indices)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {given}") from None
    rest = [n for d, n in enumerate(shape) if d not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:at], *common, *rest[at:])


def index_type(x: Any, *indices: Any, dims: tuple[int, ...]) -> Meta:
    shape = index_shape(x.shape, indices, dims)
    for dim, index in zip(dims, indices, strict=True):
        check_range(index, x.shape[dim], dim)
    return Meta(shape, x.dtype)


def check_range(index: Any, size: int, dim: int, error: type[Exception] = IndexError) -> None:
    """PyTorch's complaint about an index array that leaves its dimension (arrays only: a Meta has no values)."""
    if not isinstance(index, np.ndarray) or not index.size:
        return
    low, high = int(index.min()), int(index.max())
    least = -size if error is IndexError else 0  # only x[index] counts from the end
    if low < least or high >= size:
        raise error(f"index {low if low < least else high} is out of bounds for dimension {dim} with size {size}")


def _index(x, *indices, dims):
    out = x[places(indices, dims)]
    return out if out.__class__ is np.ndarray else np.asarray(out)


def _index_back(x, *indices, shape, dims):
    """Add x into zeros at the places; places that occur twice receive both."""
    out = np.zeros(shape, x.dtype)
    if len(indices) == 1 and dims == (0,) and len(shape) > 1 and indices[0].size > 8:
        return _add_rows(out, indices[0].reshape(-1), x.reshape(indices[0].size, *shape[1:]))
    np.add.at(out, places(indices, dims), x)
    return out


def _add_rows(out, index, x):
    """np.add.at for whole rows of zeros. Sorted, equal ones are a run: the first of each run is written, the second of each added..."""
    index = np.where(index < 0, index + len(out), index)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(starts, append=len(ordered))
    if lengths.max() > 8:  # runs, not rounds
        out[ordered[starts]] = np.add.reduceat(x[order], starts, axis=0)
        return out
    out[ordered[starts]] = x[order[starts]]
    for nth in range(1, lengths.max()):
        some = starts[lengths > nth] + nth
        out[ordered[some]] += x[order[some]]
    return out


def index_back_type(x: Any, *indices: Any, shape: tuple[int, ...], dims: tuple[int, ...]) -> Meta:
    return Meta(shape, x.dtype)


def index_put_type(x: Any, value: Any, *indices: Any, dims: tuple[int, ...], accumulate: bool) -> Meta:
    shape = index_type(x, *indices, dims=dims).shape
    given = tuple(getattr(value, "shape", ()))
    try:
        fits = np.broadcast_shapes(shape, given) == shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of shape {list(shape)}"
        )
    return Meta(x.shape, x.dtype)


def put(x: Any, value: Any, indices: tuple[Any, ...], dims: tuple[int, ...], accumulate: bool) -> None:
    """The write itself, also for tensors that are not recorded."""
    if accumulate:
        np.add.at(x, places(indices, dims), np.asarray(value).astype(x.dtype, copy=False))
    else:
        x[places(indices, dims)] = value


def _index_put(x, value, *indices, dims, accumulate):
    out = x.copy()
    put(out, value, indices, dims, accumulate)
    return out


def _index_put_x(xp, g, out, x, value, *indices, dims, accumulate):
    return g if accumulate else xp.index_put(g, 0, *indices, dims=dims, accumulate=False)


row(
    "index", "x *indices / dims", _index,
    (lambda xp, g, out, x, *indices, dims: xp.index_back(g, *indices, shape=x.shape, dims=dims), None), saves=("indices", ""),
    policy="each", type=index_type, jax=lambda x, *indices, dims: f"{x}[{_places_text(indices, dims)}]",
)  # fmt: skip
row(
    "index_back", "x *indices / shape dims", _index_back,
    (lambda xp, g, out, x, *indices, shape, dims: xp.index(g, *indices, dims=dims), None), saves=("indices", ""),
    policy="each", type=index_back_type, display="IndexPutBackward0",
    jax=lambda x, *indices, shape, dims: f"jnp.zeros({shape!r}, {x}.dtype).at[{_places_text(indices, dims)}].add({x})",
)  # fmt: skip
row(
    "index_put", "x value *indices / dims accumulate", _index_put,
    (_index_put_x, lambda xp, g, out, x, value, *indices, dims, accumulate: xp.index(g, *indices, dims=dims), None),
    saves=("indices", "indices", ""), policy="each", type=index_put_type,
    jax=lambda x, value, *indices, dims, accumulate: (
        f"{x}.at[{_places_text(indices, dims)}].{'add' if accumulate else 'set'}(jnp.asarray({value}, {x}.dtype))"
    ),
)  # fmt: skip
row(
    "index_select", "x indices / axis", lambda x, indices, *, axis: np.take(x, indices, axis),
    (lambda xp, g, out, x, indices, *, axis: xp.index_back(g, indices, shape=x.shape, dims=(axis,)), None), saves=("indices", ""),
    policy="each", type=lambda x, indices, *, axis: index_type(x, indices, dims=(axis,)), jax="jnp.take",
)  # fmt: skip


# --- masks ----------------------------------------------------------------------------------------------------------------


def masked_fill_type(x: Any, mask: Any, value: Any) -> Meta:
    return Meta(broadcast_shapes("masked_fill", x.shape, mask.shape), x.dtype)


def numbered(name: str, argument: int) -> Any:
    """PyTorch's name of a node for a number (0) or a tensor (1) as that argument."""
    return lambda node: f"{name}{int(hasattr(node.inputs[argument], 'shape'))}"


def _nonzero(x):
    return np.argwhere(x) if x.ndim else np.zeros((int(bool(x)), 0), INT64)


def nonzero_type(x: Any) -> Meta:
    raise UnknownSize("nonzero: how many elements are nonzero is known only from values, so its result has no shape before it runs")


elementwise(
    "masked_fill", "x mask value", lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
    (lambda xp, g, out, x, mask, value: xp.where(mask, 0, g), None, lambda xp, g, out, x, mask, value: xp.where(mask, g, 0)),
    saves=("mask", "", "mask"), policy="each", type=masked_fill_type,
    sympy=lambda sp, x, mask, value: sp.Piecewise((value, mask), (x, True)),
    jax=lambda x, mask, value: f"jnp.where({mask}, {value}, {x}).astype({x}.dtype)", display=numbered("MaskedFillBackward", 2),
)  # fmt: skip
row("nonzero", "x", _nonzero, policy="each", type=nonzero_type, jax="jnp.argwhere")
