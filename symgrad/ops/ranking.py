"""Rank statistics: medians, modes, and the rows that find and count distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import UnknownSize
from symgrad.ops.promotion import INT64, kind
from symgrad.ops.reduction import add, reduction_type, share
from symgrad.ops.sorting import kept, one_along, order, with_indices
from symgrad.ops.spec import Meta
from symgrad.ops.table import row

# The median of everything: the lower of two middle elements. Equal elements share the gradient.


def _median_all(x, *, axis, keepdims):
    return _middle(x, x.size if not np.isnan(x).any() else 2 * x.size)


def _nanmedian_all(x, *, axis, keepdims):
    return _middle(x, x.size - np.count_nonzero(np.isnan(x)))


def _middle(x, length):
    """NaNs are sorted to the end; a length beyond the first of them gives one."""
    k = min(max(length - 1, 0) // 2, x.size - 1)
    if x.size == 0:
        return median_of_nothing(x.dtype)
    return np.partition(x.reshape(-1), k)[k]


def median_of_nothing(dtype: Any) -> Any:
    return np.full((), np.nan if kind(dtype) == "f" else np.iinfo(np.int64).min).astype(dtype)


def _middle_rule(xp, g, out, x, *, axis, keepdims):
    """If the median is NaN, the NaNs count as equal."""
    return share(xp, g, xp.where(x != x, out != out, x == out), x, axis, keepdims)


def _middle_text(skips_nan: bool) -> Any:
    def text(x, *, axis, keepdims):
        nans = f"jnp.sum(jnp.isnan({x}))"
        rank = f"jnp.maximum({x}.size - {nans} - 1, 0) // 2" if skips_nan else f"jnp.where({nans} > 0, {x}.size - 1, ({x}.size - 1) // 2)"
        none = f"jnp.full((), jnp.nan if jnp.issubdtype({x}.dtype, jnp.floating) else jnp.iinfo(jnp.int64).min).astype({x}.dtype)"
        return f"(jnp.sort({x}.reshape(-1))[{rank}] if {x}.size else {none})"

    return text


for _name, _kernel in (("median", _median_all), ("nanmedian", _nanmedian_all)):
    row(
        f"{_name}_all", "x / axis keepdims", _kernel, (_middle_rule,), saves="x out", policy="each", kinds="if", type=reduction_type,
        display=f"{_name.title()}Backward0", jax=_middle_text(_name == "nanmedian"),
    )  # fmt: skip


# Along a dimension: the element at the middle rank, and its index.


def _median_rank(n: int, nans: Any, skips_nan: bool) -> Any:
    """Without skipping, the first NaN is the median if there is one."""
    if skips_nan:
        return np.maximum(n - nans - 1, 0) // 2
    return np.where(nans > 0, n - nans, (n - 1) // 2)


def _median_along(name: str, skips_nan: bool) -> None:
    def kernel(x, *, axis, keepdims):
        rank = _median_rank(x.shape[axis], add.reduce(np.isnan(x), axis, INT64, None, True), skips_nan)
        return kept(x, np.take_along_axis(order(x, axis, False), rank, axis), axis, keepdims)

    def text(x, *, axis, keepdims):
        n, nans = f"{x}.shape[{axis}]", f"jnp.sum(jnp.isnan({x}), axis={axis}, keepdims=True)"
        rank = f"jnp.maximum({n} - {nans} - 1, 0) // 2" if skips_nan else f"jnp.where({nans} > 0, {n} - {nans}, ({n} - 1) // 2)"
        pair = with_indices(x, axis, f"jnp.take_along_axis(jnp.argsort({x}, axis={axis}, stable=True), {rank}, {axis})")
        return pair if keepdims else f"tuple(jnp.squeeze(t, {axis}) for t in {pair})"

    display = f"{name.title()}Backward1"
    one_along(f"{name}_along", "x / axis keepdims", kernel, name, text, kinds="if", display=display)


_median_along("median", False)
_median_along("nanmedian", True)


def _mode(x, *, axis, keepdims):
    """The smallest of the most frequent elements, at its last place: where the first longest run of the sorted line ends."""
    places = order(x, axis, False)
    ordered = np.moveaxis(np.take_along_axis(x, places, axis), axis, -1)
    position = np.arange(ordered.shape[-1])
    starts = np.ones(ordered.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = position - np.maximum.accumulate(np.where(starts, position, 0), -1)
    ends = np.expand_dims(run.argmax(-1), axis)
    return kept(x, np.take_along_axis(places, ends, axis), axis, keepdims)


def _mode_text(x, *, axis, keepdims):
    counts = f"jnp.sum(jnp.expand_dims({x}, {axis + 1}) == jnp.expand_dims({x}, {axis}), axis={axis})"
    latest = f"-jax.lax.broadcasted_iota(jnp.int64, {x}.shape, {axis})"
    places = f"jax.lax.slice_in_dim(jnp.lexsort(({latest}, {x}, -{counts}), axis={axis}), 0, 1, axis={axis})"
    pair = with_indices(x, axis, places)
    return pair if keepdims else f"tuple(jnp.squeeze(t, {axis}) for t in {pair})"


one_along("mode", "x / axis keepdims", _mode, "mode", _mode_text, kinds="bif")


# Distinct elements. How many there are depends on values, so these rows have no shape before they run.


def _no_shape(name: str) -> Any:
    def rule(*args: Any, **attrs: Any) -> Meta:
        raise UnknownSize(f"{name}: the size of the result is known only from values, so it has no shape before it runs")

    return rule


def _unique(x, *, axis):
    """PyTorch counts every NaN as another element."""
    return np.unique(x, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)


def _unique_consecutive(x, *, axis):
    line = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    starts = np.ones(len(line), bool)
    if len(line) > 1:
        starts[1:] = (line[1:] != line[:-1]).reshape(len(line) - 1, -1).any(1)
    inverse = np.add.accumulate(starts, dtype=INT64) - 1
    values = np.array(line[starts] if axis is None else np.moveaxis(line[starts], 0, axis))
    return values, inverse.reshape(x.shape) if axis is None else inverse, np.bincount(inverse).astype(INT64)


def _bincount(x, weights, *, minlength):
    counts = np.bincount(x, weights, minlength)
    return counts if weights is None else counts.astype(weights.dtype if weights.dtype.kind == "f" else np.float64)


row(
    "unique", "x / axis", _unique, outputs=3, policy="each", type=_no_shape("unique"),
    jax=lambda x, *, axis: f"jnp.unique({x}, return_inverse=True, return_counts=True, axis={axis}, equal_nan=False)",
)  # fmt: skip
row("unique_consecutive", "x / axis", _unique_consecutive, outputs=3, policy="each", type=_no_shape("unique_consecutive"))
row(
    "bincount", "x weights / minlength", _bincount, policy="each", type=_no_shape("bincount"),
    jax=lambda x, weights, *, minlength: f"jnp.bincount({x}, {weights}, {minlength})",
)  # fmt: skip


# Where numbers belong in sorted ones: (how many are less, or at most as large).


def searchsorted_type(sequence: Any, values: Any, *, right: bool) -> Meta:
    if len(sequence.shape) > 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundary tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor"
            f" must match, but we got boundaries tensor {list(sequence.shape)} and input value tensor {list(values.shape)}"
        )
    return Meta(tuple(values.shape), INT64)


def _searchsorted(sequence, values, *, right):
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(sequence.searchsorted(values, side), INT64)
    searchsorted_type(sequence, values, right=right)
    out = np.empty(values.shape, INT64)
    for i in np.ndindex(*values.shape[:-1]):
        out[i] = sequence[i].searchsorted(values[i], side)
    return out


def _searchsorted_text(sequence, values, *, right):
    """JAX's takes one sequence; NaN is the largest number in both."""
    one = f"lambda s, v: jnp.searchsorted(s, v, side={'right' if right else 'left'!r}).astype(jnp.int64)"
    whole = f"jnp.searchsorted({sequence}, {values}, side={'right' if right else 'left'!r}).astype(jnp.int64)"
    return f"{whole} if {sequence}.ndim == 1 else jnp.vectorize({one}, signature='(n),(m)->(m)')({sequence}, {values})"


row(
    "searchsorted", "sequence values / right", _searchsorted, (None, None), policy="compare", kinds="bif", type=searchsorted_type,
    jax=_searchsorted_text,
)  # fmt: skip
