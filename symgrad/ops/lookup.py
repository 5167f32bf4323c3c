"""Rows that look up: embedding (a row of a table for each index), one_hot, and nll_loss (a class of a prediction for each target)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from symgrad.ops.spec import Meta
from symgrad.ops.table import row

# embedding: `scale` is None, or a factor for the gradient of each index; the row `padding` of the table gets no gradient.


def _embedding_rule(xp, g, out, weight, indices, scale, *, padding):
    count, width = prod(indices.shape), prod(weight.shape[1:])
    flat, g = xp.reshape(indices, shape=(count,)), xp.reshape(g, shape=(count, width))
    if padding is not None:
        g = xp.where(xp.reshape(flat, shape=(count, 1)) == padding, 0, g)
    if scale is not None:
        g = g * xp.reshape(scale, shape=(count, 1))
    return xp.index_back(g, flat, shape=tuple(weight.shape), dims=(0,))


row(
    "embedding", "weight indices scale / padding", lambda weight, indices, scale, *, padding: weight.take(indices, 0),
    (_embedding_rule, None, None), saves=("indices scale", "", ""), policy="each",
    type=lambda weight, indices, scale, *, padding: Meta((*indices.shape, *weight.shape[1:]), weight.dtype),
    jax=lambda weight, indices, scale, *, padding: f"jnp.take({weight}, {indices}, axis=0)",
)  # fmt: skip


# one_hot: 1 at the class that an index names, 0 elsewhere; all are 0 for an index that names none.

row(
    "one_hot", "indices / classes", lambda indices, *, classes: (indices[..., None] == np.arange(classes)).astype(np.int64),
    policy="each", type=lambda indices, *, classes: Meta((*indices.shape, classes), np.dtype(np.int64)),
    jax=lambda indices, *, classes: f"jax.nn.one_hot({indices}, {classes}, dtype='int64')",
)  # fmt: skip


# nll_loss: -x[target] * weight[target], reduced. Targets equal to `ignore_index` do not count. It is linear in x; `nll_spread` is its
# transpose.


def _chosen(target, weight, ignore_index, dtype):
    """The class of each target, and its weight: 0 if it does not count, None if all have weight 1."""
    counted = target != ignore_index
    if counted.all():
        return target, None if weight is None else weight[target]
    index = np.where(counted, target, 0)
    return index, counted.astype(dtype) if weight is None else np.where(counted, weight[index], 0)


def _cells(index, axis):
    """Where the classes stand in an array that has them along `axis`."""
    grid = list(np.indices(index.shape, sparse=True))
    return (*grid[:axis], index, *grid[axis:])


def _nll_loss(x, target, weight, *, axis, ignore_index, reduction):
    index, factor = _chosen(target, weight, ignore_index, x.dtype)
    value = np.negative(x[_cells(index, axis)])
    if factor is not None:
        value = np.where(factor == 0, 0, value) * factor  # what does not count may be infinite
    if reduction == "none":
        return value
    total = np.add.reduce(value, axis=None)
    if reduction == "sum":
        return total
    return np.divide(total, value.size if factor is None else np.add.reduce(factor, axis=None))


def _nll_spread(g, target, weight, *, axis, ignore_index, reduction, classes):
    index, factor = _chosen(target, weight, ignore_index, g.dtype)
    out = np.zeros((*target.shape[:axis], classes, *target.shape[axis:]), g.dtype)
    value = -g if factor is None else -g * factor
    if reduction == "mean":
        count = target.size if factor is None else np.add.reduce(factor, axis=None)
        value = value / count if factor is None else np.where(factor == 0, 0, value / count)
    out[_cells(index, axis)] = value
    return out


def nll_type(x: Any, target: Any, weight: Any, *, axis: int, ignore_index: int, reduction: str) -> Meta:
    if tuple(target.shape) != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise RuntimeError(f"nll_loss: a target of size {list(target.shape)} does not fit an input of size {list(x.shape)}")
    return Meta(tuple(target.shape) if reduction == "none" else (), x.dtype)


def _spread_type(g: Any, target: Any, weight: Any, *, axis: int, classes: int, **attrs: Any) -> Meta:
    return Meta((*target.shape[:axis], classes, *target.shape[axis:]), g.dtype)


def _texts(target: str, weight: str | None, axis: int, ignore_index: int) -> tuple[str, str]:
    """The index along the axis, and the factors."""
    safe = f"jnp.where({target} == {ignore_index}, 0, {target})"
    return f"jnp.expand_dims({safe}, {axis})", f"({target} != {ignore_index})" + (f" * {weight}[{safe}]" if weight else "")


def _nll_text(x: str, target: str, weight: str | None, *, axis: int, ignore_index: int, reduction: str) -> str:
    index, factor = _texts(target, weight, axis, ignore_index)
    value = f"jnp.where({target} == {ignore_index}, 0, -jnp.take_along_axis({x}, {index}, {axis}).squeeze({axis})) * ({factor})"
    return {"none": value, "sum": f"jnp.sum({value})", "mean": f"jnp.sum({value}) / jnp.sum({factor})"}[reduction]


def _spread_text(g: str, target: str, weight: str | None, *, axis: int, ignore_index: int, reduction: str, classes: int) -> str:
    _, factor = _texts(target, weight, axis, ignore_index)
    value = f"-{g} * ({factor})" + (f" / jnp.sum({factor})" if reduction == "mean" else "")
    return f"jax.nn.one_hot({target}, {classes}, axis={axis}, dtype={g}.dtype) * jnp.expand_dims({value}, {axis})"


def _nll_rule(xp, g, out, x, target, weight, *, axis, **attrs):
    return xp.nll_spread(g, target, weight, axis=axis, classes=x.shape[axis], **attrs)


def _title(node: Any) -> str:
    return "NllLossBackward0" if len(node.inputs[0].shape) < 3 else "NllLoss2DBackward0"


row(
    "nll_loss", "x target weight / axis ignore_index reduction", _nll_loss,
    (_nll_rule, None, None),
    saves=("target weight", "", ""), policy="each", type=nll_type, jax=_nll_text, display=_title,
)  # fmt: skip
row(
    "nll_spread", "g target weight / axis ignore_index reduction classes", _nll_spread,
    (lambda xp, h, out, g, target, weight, *, classes, **attrs: xp.nll_loss(h, target, weight, **attrs), None, None),
    saves=("target weight", "", ""), policy="each", type=_spread_type, jax=_spread_text,
)  # fmt: skip
