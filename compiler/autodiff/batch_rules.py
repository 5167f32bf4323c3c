"""Batching rules of rows that work along axes, on the last two dimensions, by indices, and on windows.

Each rule applies the row, or another one, to arguments with a new leading dimension. It returns None if it does not apply: the row then
runs on each slice (`symgrad.compiler.autodiff.map_slices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.compiler.autodiff.batch import align_batched, rule, shifted_axes, with_batch_axis
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Value, row_of
from symgrad.ops.table import TABLE

Args = Sequence[tuple[Any, bool]]


@rule(
    "squeeze", "diagonal", "unfold", "fft", "split", "split_with_sizes", "unbind", "prod_rest", "max_all", "min_all", "aminmax",
    "all", "any", "count_nonzero", "var", "std", "var_mean", "std_mean", "vector_norm", "argsort", "sort", "topk",
    "max_along", "min_along", "kthvalue", "median_along", "nanmedian_along", "mode", "cumprod",
    "logcumsumexp", "shift", "cummax", "cummin", "glu", "unfold_transpose", "diag_embed", "unsqueeze",
)  # fmt: skip
def _along_axes(v: Value, args: Args, size: int) -> Any:
    """Shift the axes by one; if the result has more dimensions, they count in the result."""
    x, ndim = v.args[0], v.ndim if v.op in ("unsqueeze", "diag_embed", "unfold_transpose") else v.args[0].ndim
    attrs = shifted_axes(v.attrs, ndim)
    if attrs is None or not x.ndim:
        return None
    if "shape" in attrs:
        attrs["shape"] = (size, *attrs["shape"])
    return apply(row_of(v), (args[0][0],), attrs)


@rule("roll")
def _roll(v: Value, args: Args, size: int) -> Any:
    """Without axes, roll each slice flattened."""
    x, shifts, axes = args[0][0], v.attrs["shifts"], v.attrs["axes"]
    if axes:
        return xp.roll(x, shifts=shifts, axes=tuple(a % v.ndim + 1 for a in axes))
    return xp.reshape(xp.roll(xp.reshape(x, shape=(size, v.size)), shifts=shifts, axes=(1,)), shape=x.shape)


@rule("argmax", "argmin", "median_all", "nanmedian_all")
def _of_everything(v: Value, args: Args, size: int) -> Any:
    """With one axis, shift it; over all axes, reduce each slice flattened; over several but not all, no other row does it."""
    x, axis = args[0][0], v.attrs["axis"]
    if len(axis) == 1:
        return _along_axes(v, args, size)
    if len(axis) != v.args[0].ndim:
        return None
    flat = xp.reshape(x, shape=(size, v.args[0].size))
    if v.op in ("argmax", "argmin"):
        found = apply(row_of(v), (flat,), {"axis": (1,), "keepdims": False})
    else:
        found = apply(TABLE[v.op.replace("_all", "_along")], (flat,), {"axis": 1, "keepdims": False})[0]
    return xp.reshape(found, shape=(size, *v.shape))


@rule("cross", "recurrence", "take_along", "scatter_along", "scatter_add")
def _together(v: Value, args: Args, size: int) -> Any:
    """All arguments have the axis, so all of them get the batch dimension."""
    ndims = {a.ndim for a in v.args}
    attrs = shifted_axes(v.attrs, max(ndims))
    if attrs is None or len(ndims) > 1 or not max(ndims):
        return None
    return apply(row_of(v), tuple(with_batch_axis(a, has, size) for a, has in args), attrs)


@rule("inv", "det", "cofactor", "cofactor_derivative", "slogdet", "solve", "solve_triangular", "cholesky", "eigh", "eig", "svd", "qr",
      "euclidean_distance", "view_as_real", "view_as_complex")  # fmt: skip
def _of_the_last_dimensions(v: Value, args: Args, size: int) -> Any:
    """Rows on the last dimensions broadcast over all leading ones."""
    if len({a.ndim for a in v.args}) > 1:
        return None
    return apply(row_of(v), tuple(with_batch_axis(a, has, size) for a, has in args), dict(v.attrs))


@rule("scatter")
def _scatter(v: Value, args: Args, size: int) -> Any:
    """Like `_together`; a scalar source, shared by all slices, stays a scalar."""
    if v.args[1].ndim or args[1][1] or not v.ndim:
        return _together(v, args, size) if v.args[1].ndim else None
    (x, has), (source, _), (indices, chosen) = args
    return apply(
        row_of(v), (with_batch_axis(x, has, size), source, with_batch_axis(indices, chosen, size)), shifted_axes(v.attrs, v.ndim) or {}
    )


@rule("replace")
def _replace(v: Value, args: Args, size: int) -> Any:
    return xp.replace(with_batch_axis(*args[0], size), align_batched(*args[1], v.ndim))


@rule("t")
def _t(v: Value, args: Args, size: int) -> Any:
    x = args[0][0]
    return xp.transpose(x, dim0=1, dim1=2) if x.ndim == 3 else x


@rule("trace")
def _trace(v: Value, args: Args, size: int) -> Any:
    return xp.sum(xp.diagonal(args[0][0], offset=0, axis1=1, axis2=2), axis=(1,), keepdims=False)


@rule("tile")
def _tile(v: Value, args: Args, size: int) -> Any:
    x, reps = args[0][0], v.attrs["reps"]
    ndim = max(len(reps), v.args[0].ndim)
    return xp.tile(align_batched(x, True, ndim), reps=(1,) * (ndim - len(reps) + 1) + tuple(reps))


@rule("index_select")
def _index_select(v: Value, args: Args, size: int) -> Any:
    """Shared indices select behind the batch dimension; batched indices into a shared tensor select all slices at once, flattened."""
    (x, x_has), (indices, has) = args
    ndim = v.args[0].ndim
    axis = v.attrs["axis"] % ndim if ndim else 0
    if not has:
        return xp.index_select(x, indices, axis=axis + 1) if ndim else None
    if x_has or v.args[1].ndim != 1 or not ndim:
        return None
    found = xp.index_select(x, xp.reshape(indices, shape=(size * v.args[1].size,)), axis=axis)
    found = xp.reshape(found, shape=(*v.shape[:axis], size, *v.shape[axis:]))
    return xp.permute(found, axes=(axis, *(i for i in range(v.ndim + 1) if i != axis)))


@rule("index_add", "index_copy", "index_fill")
def _index_written(v: Value, args: Args, size: int) -> Any:
    (x, x_has), (source, source_has), (indices, has) = args
    attrs = shifted_axes(v.attrs, v.ndim) if v.ndim else None
    if has or attrs is None or (v.args[1].ndim != v.ndim and (v.args[1].ndim or source_has)):
        return None
    return apply(
        row_of(v), (with_batch_axis(x, x_has, size), with_batch_axis(source, source_has, size) if source.ndim else source, indices), attrs
    )


@rule("index", "index_back", "index_put")
def _index(v: Value, args: Args, size: int) -> Any:
    """Indices must be shared and in adjacent dimensions; otherwise NumPy moves their dimensions to the front."""
    count = 2 if v.op == "index_put" else 1
    dims = v.attrs["dims"]
    if any(has for _, has in args[count:]) or tuple(dims) != tuple(range(dims[0], dims[0] + len(dims))):
        return None
    attrs = dict(v.attrs) | {"dims": tuple(d + 1 for d in dims)}
    if v.op == "index_back":
        attrs["shape"] = (size, *attrs["shape"])
    indices = [a for a, _ in args[count:]]
    x = with_batch_axis(*args[0], size)
    if v.op != "index_put":
        return apply(row_of(v), (x, *indices), attrs)
    ndim = v.ndim - len(dims) + max(i.ndim for i in v.args[2:])
    return apply(row_of(v), (x, align_batched(*args[1], ndim), *indices), attrs)


@rule("embedding", "searchsorted")
def _looked_up(v: Value, args: Args, size: int) -> Any:
    """The table must be shared; indices or values may have any shape."""
    if args[0][1] or any(has for _, has in args[2:]):
        return None
    if v.op == "searchsorted" and v.args[0].ndim != 1:
        return None
    return apply(row_of(v), tuple(a for a, _ in args), dict(v.attrs))


@rule("one_hot")
def _one_hot(v: Value, args: Args, size: int) -> Any:
    return apply(row_of(v), (args[0][0],), dict(v.attrs))


@rule("assemble")
def _assemble(v: Value, args: Args, size: int) -> Any:
    everywhere = (0, size, 1)
    attrs = {"shape": (size, *v.attrs["shape"]), "places": tuple((everywhere, *place) for place in v.attrs["places"])}
    return apply(row_of(v), tuple(with_batch_axis(a, has, size) for a, has in args), attrs)


@rule("max_pool", "avg_pool", "adaptive_avg_pool", "avg_unpool", "adaptive_avg_unpool", "pool_scatter", "pool_gather")
def _windows(v: Value, args: Args, size: int) -> Any:
    """The new dimension is merged into the batch dimension."""
    merged = [with_batch_axis(a, has, size) for a, has in args]
    merged = [xp.reshape(a, shape=(size * a.shape[1], *a.shape[2:])) for a in merged]
    found = apply(row_of(v), tuple(merged), dict(v.attrs))
    if not isinstance(found, tuple):
        return xp.reshape(found, shape=(size, *v.shape))
    return tuple(xp.reshape(part, shape=(size, *shape)) for part, shape in zip(found, v.shape, strict=True))
