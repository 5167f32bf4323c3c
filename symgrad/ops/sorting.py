"""Order: sorting, choosing along a dimension, and the two rows that carry values to and from chosen places.

Here `axis` is one non-negative dimension. Equal elements keep their order, so every choice is the first of the equal ones; NaN is
the largest number. Rows that choose give (values, indices), and send a cotangent back to the chosen places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import INT64
from symgrad.ops.reduction import add, maximum, minimum
from symgrad.ops.shapes import reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def along_type(name: str, x: Any, indices: Any) -> None:
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int64 for index, got {indices.dtype}")
    if len(x.shape) != len(indices.shape):
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as input tensor, got {list(indices.shape)} for {list(x.shape)}"
        )


def _take_along_type(x: Any, indices: Any, *, axis: int) -> Meta:
    along_type("take_along", x, indices)
    for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != axis and n != m:
            raise RuntimeError(
                f"take_along: apart from dimension {axis}, the indices' shape {list(indices.shape)} must be that of the input,"
                f" {list(x.shape)}"
            )
    return Meta(tuple(indices.shape), x.dtype)


def _scatter_along_type(g: Any, indices: Any, *, axis: int, size: int) -> Meta:
    along_type("scatter_along", g, indices)
    if tuple(g.shape) != tuple(indices.shape):
        raise RuntimeError(f"scatter_along: values of shape {list(g.shape)} need as many indices, got {list(indices.shape)}")
    return Meta((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)


def _scatter_along(g, indices, *, axis, size):
    """Indices are flattened first: `np.add.at` is several times as fast on one dimension. A single one per line meets no other."""
    out = np.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
    if g.shape[axis] == 1:
        np.put_along_axis(out, indices, g, axis)
        return out
    inner = int(np.prod(g.shape[axis + 1 :], dtype=np.int64))
    outer = int(np.prod(g.shape[:axis], dtype=np.int64))
    places = indices.reshape(outer, indices.shape[axis], inner)
    if (indices < 0).any():
        places = np.where(places < 0, places + size, places)
    if ((places < 0) | (places >= size)).any():
        raise IndexError(f"scatter_along: index out of bounds for dimension {axis} with size {size}")
    places = (places + np.arange(outer).reshape(-1, 1, 1) * size) * inner + np.arange(inner)
    np.add.at(out.reshape(-1), places.reshape(-1), g.reshape(-1))
    return out


def _scatter_along_text(g, indices, *, axis, size):
    shape = f"{g}.shape[:{axis}] + ({size},) + {g}.shape[{axis + 1}:]"
    take = f"lambda t: jnp.take_along_axis(t, {indices}, {axis})"
    return f"jax.linear_transpose({take}, jax.ShapeDtypeStruct({shape}, {g}.dtype))({g})[0]"


row(
    "take_along", "x indices / axis", lambda x, indices, *, axis: np.take_along_axis(x, indices, axis),
    (lambda xp, g, out, x, indices, *, axis: xp.scatter_along(g, indices, axis=axis, size=x.shape[axis]), None),
    saves=("indices", ""), policy="each", type=_take_along_type, display="GatherBackward0",
    jax=lambda x, indices, *, axis: f"jnp.take_along_axis({x}, {indices}, {axis})",
)  # fmt: skip
row(
    "scatter_along", "g indices / axis size", _scatter_along,
    (lambda xp, g, out, values, indices, *, axis, size: xp.take_along(g, indices, axis=axis), None),
    saves=("indices", ""), policy="each", type=_scatter_along_type, display="ScatterAddBackward0", jax=_scatter_along_text,
)  # fmt: skip


# Sorting.


def order(x: Any, axis: int, descending: bool) -> Any:
    """Indices that sort, equal elements in their order; NaNs come last, or first if descending."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    turn = (*((slice(None),) * axis), slice(None, None, -1))
    return x.shape[axis] - 1 - np.argsort(x[turn], axis, kind="stable")[turn]


def _sort(x, *, axis, descending):
    indices = order(x, axis, descending)
    return np.take_along_axis(x, indices, axis), indices


def _head(axis: int, k: int) -> tuple[Any, ...]:
    return (*((slice(None),) * axis), slice(None, k))


def _topk(x, *, k, axis, largest):
    """A partition finds the k-th value; the elements beyond it, and the first of its equals, are the answer."""
    n = x.shape[axis]
    if k * 4 >= n or n < 512 or (x.dtype.kind == "f" and np.isnan(x).any()) or x.dtype.kind not in "fiu":
        indices = np.ascontiguousarray(order(x, axis, largest)[_head(axis, k)])
    else:
        last = np.moveaxis(x, axis, -1)
        indices = np.moveaxis(_topk_last(last, k, largest), -1, axis)
    return np.take_along_axis(x, indices, axis), np.ascontiguousarray(indices)


def _topk_last(x, k, largest):
    n = x.shape[-1]
    bound = np.partition(x, n - k if largest else k - 1, -1)[..., n - k if largest else k - 1, None]
    beyond, equal = x > bound if largest else x < bound, x == bound
    room = k - add.reduce(beyond, -1, INT64, None, True)
    chosen = beyond | (equal & (np.add.accumulate(equal, -1, INT64) <= room))
    indices = np.nonzero(chosen)[-1].reshape(*x.shape[:-1], k)
    return np.take_along_axis(indices, order(np.take_along_axis(x, indices, -1), x.ndim - 1, largest), -1)


def _chosen_rule(xp, g, out, x, *, axis, **attrs):
    return xp.scatter_along(g[0], out[1], axis=axis, size=x.shape[axis])


def _pair(shape: tuple[int, ...], x: Any) -> tuple[Meta, Meta]:
    return Meta(shape, x.dtype), Meta(shape, INT64)


def _topk_type(x: Any, *, k: int, axis: int, largest: bool) -> tuple[Meta, Meta]:
    if not 0 <= k <= x.shape[axis]:
        raise RuntimeError(f"selected index k out of range (topk: k is {k}, dimension {axis} has size {x.shape[axis]})")
    return _pair((*x.shape[:axis], k, *x.shape[axis + 1 :]), x)


def _order_text(x, *, axis, descending):
    return f"jnp.argsort({x}, axis={axis}, stable=True, descending={descending})"


def with_indices(x: str, axis: int, indices: str) -> str:
    """Values and indices, the indices being computed once."""
    return f"(lambda i: (jnp.take_along_axis({x}, i, {axis}), i))({indices})"


row(
    "argsort", "x / axis descending", lambda x, *, axis, descending: np.ascontiguousarray(order(x, axis, descending)),
    policy="each", type=lambda x, **attrs: Meta(x.shape, INT64), jax=_order_text,
)  # fmt: skip
row(
    "sort", "x / axis descending", _sort, (_chosen_rule,), saves="out1", outputs=2, policy="each", kinds="bif",
    type=lambda x, **attrs: _pair(x.shape, x),
    jax=lambda x, *, axis, descending: with_indices(x, axis, _order_text(x, axis=axis, descending=descending)),
)  # fmt: skip
row(
    "topk", "x / k axis largest", _topk, (_chosen_rule,), saves="out1", outputs=2, policy="each", kinds="bif", type=_topk_type,
    jax=lambda x, *, k, axis, largest: with_indices(
        x, axis, f"jax.lax.slice_in_dim({_order_text(x, axis=axis, descending=largest)}, 0, {k}, axis={axis})"
    ),
)  # fmt: skip


# One element along a dimension: the first largest, the first smallest, the middle one, the k-th, the most frequent.


def kept(x: Any, indices: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """The pair for indices that still have the dimension."""
    values = np.take_along_axis(x, indices, axis)
    shape = values.shape if keepdims else reduced_shape(x.shape, (axis,), False)
    return values.reshape(shape), indices.reshape(shape)


def _one_rule(xp, g, out, x, *, axis, keepdims, **attrs):
    places, g = (xp.reshape(t, shape=reduced_shape(x.shape, (axis,), True)) for t in (out[1], g[0]))
    return xp.scatter_along(g, places, axis=axis, size=x.shape[axis])


def one_along(name: str, args: str, kernel: Any, type_name: str, jax: Any, kinds: str = "bif", **columns: Any) -> None:
    def type_rule(x: Any, *, axis: int, keepdims: bool, **attrs: Any) -> tuple[Meta, Meta]:
        if x.shape[axis] == 0:
            raise IndexError(f"{type_name}(): Expected reduction dim {axis} to have non-zero size.")
        if not 1 <= attrs.get("k", 1) <= x.shape[axis]:
            raise RuntimeError(f"{type_name}(): selected number k out of range for dimension {axis}")
        return _pair(reduced_shape(x.shape, (axis,), keepdims), x)

    row(name, args, kernel, (_one_rule,), saves="out1", outputs=2, policy="each", kinds=kinds, type=type_rule, jax=jax, **columns)


def _extreme_along(name: str, ufunc: Any) -> None:
    def kernel(x, *, axis, keepdims):
        return ufunc.reduce(x, axis, None, None, keepdims), getattr(x, f"arg{name}")(axis, keepdims=keepdims)

    def text(x, *, axis, keepdims):
        attrs = f"axis={axis}, keepdims={keepdims}"
        return f"(jnp.{name}({x}, {attrs}), jnp.arg{name}({x}, {attrs}))"

    one_along(f"{name}_along", "x / axis keepdims", kernel, name, text, display=f"{name.title()}Backward0")


def _rank_text(x: str, axis: int, keepdims: bool, rank: str) -> str:
    """The element of a rank in sorted order."""
    indices = f"jax.lax.dynamic_slice_in_dim(jnp.argsort({x}, axis={axis}, stable=True), {rank}, 1, axis={axis})"
    pair = with_indices(x, axis, indices)
    return pair if keepdims else f"tuple(jnp.squeeze(t, {axis}) for t in {pair})"


def _kthvalue(x, *, k, axis, keepdims):
    if not 1 <= k <= x.shape[axis]:
        raise ValueError("k out of range")
    lead = (slice(None),) * axis
    return kept(x, order(x, axis, False)[(*lead, slice(k - 1, k))], axis, keepdims)


_extreme_along("max", maximum)
_extreme_along("min", minimum)
one_along(
    "kthvalue", "x / k axis keepdims", _kthvalue, "kthvalue",
    lambda x, *, k, axis, keepdims: _rank_text(x, axis, keepdims, str(k - 1)),
)  # fmt: skip
