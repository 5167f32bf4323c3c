"""Reductions: rows that fold dimensions away. `axis` is always a sorted tuple of distinct non-negative dimensions here."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from symgrad.ops.promotion import BOOL, FLOAT32, INT64, kind
from symgrad.ops.shapes import normalize_axes, reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import row

add: Any = np.add  # NumPy's stubs do not know that `reduce` takes all its arguments by position, which is faster
multiply: Any = np.multiply
maximum: Any = np.maximum
minimum: Any = np.minimum
_UINT8 = np.dtype(np.uint8)


class Everything(tuple[int, ...]):
    """The axes of a reduction for which none were named: PyTorch has another node for it, SumBackward0 beside SumBackward1."""

    __slots__ = ()


_EVERYTHING = [Everything(range(ndim)) for ndim in range(65)]


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """What a caller named, as the rows want it."""
    if dim is None:
        return _EVERYTHING[ndim]
    if dim.__class__ is int and 0 <= dim < ndim:
        return (dim,)
    return tuple(sorted(normalize_axes(dim, ndim)))


def count(shape: tuple[int, ...], axis: tuple[int, ...]) -> int:
    """How many elements are folded into one."""
    return prod([shape[i] for i in axis])


def reduction_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), x.dtype)


def sum_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), INT64 if kind(x.dtype) in "bi" else x.dtype)


def index_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), INT64)


def truth_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), _UINT8 if x.dtype == _UINT8 else BOOL)


def restore(xp: Any, g: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`g` with the folded dimensions back in place (of size 1), or as it is where it fits `x` without: a single number does."""
    if keepdims or len(axis) == len(x.shape):
        return g
    return xp.reshape(g, shape=reduced_shape(x.shape, axis, True))


def spread(xp: Any, g: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`g` repeated over the folded dimensions: the transpose of a sum."""
    if keepdims or len(axis) < len(x.shape):  # a single number spreads as it is
        g = restore(xp, g, x, axis, keepdims)
    return xp.expand(g, shape=x.shape)


def numbered(name: str) -> Any:
    """PyTorch's two names of a node, for reductions without and with dimensions."""
    return lambda node: f"{name}Backward{0 if node.attrs['axis'].__class__ is Everything else 1}"


def call(name: str) -> Any:
    """The lowering of a reduction that JAX calls by this name."""
    return lambda x, *, axis, keepdims: f"{name}({x}, axis={tuple(axis)}, keepdims={keepdims})"


_ALL_BUT_CHANNELS = (0, *range(2, 64))


def wide_sum(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """The sum of floats. NumPy sums pairwise along the last dimension only; long leading ones go in blocks."""
    if x.size > 1024 and axis and axis[-1] < x.ndim - 1 and x.flags.c_contiguous and axis == _EVERYTHING[len(axis)]:
        return _blocked_sum(x, len(axis), keepdims)
    if x.size > 1024 and x.ndim > 2 and axis == _ALL_BUT_CHANNELS[: x.ndim - 1] and x.flags.c_contiguous:
        x = _blocked_sum(x, 1, True)  # image by image: NumPy would go row by row, and those are short
    return add.reduce(x, axis, None, None, keepdims)


def sum_of_squares(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Of a whole array by BLAS, block by block: that is fast, and the error stays that of a pairwise sum."""
    if x.dtype.kind == "c":
        return wide_sum(x.real**2 + x.imag**2, axis, keepdims)
    if len(axis) == x.ndim and x.size > 2048 and x.flags.c_contiguous:
        line = x.reshape(-1)
        blocks = line[: len(line) // 1024 * 1024].reshape(-1, 1024)
        rest = line[blocks.size :]
        total = add.reduce(np.vecdot(blocks, blocks)) + np.vecdot(rest, rest)
        return total.reshape((1,) * x.ndim) if keepdims else total
    return wide_sum(x * x, axis, keepdims)


def _blocked_sum(x, lead, keepdims, block=128):
    length, rest = prod(x.shape[:lead]), x.shape[lead:]
    x = x.reshape(length, *rest)
    whole = length - length % block
    if whole <= block:
        total = add.reduce(x, 0)
    else:
        total = wide_sum(add.reduce(x[:whole].reshape(-1, block, *rest), 1), (0,), False)
        if whole < length:
            total += add.reduce(x[whole:], 0)
    return total.reshape((1,) * lead + rest) if keepdims else total


def _sum(x, *, axis, keepdims):
    dtype = x.dtype
    if dtype.kind == "b" and len(axis) == x.ndim and not keepdims:
        return np.int64(np.count_nonzero(x))
    if dtype.kind in "biu":
        return add.reduce(x, axis, INT64, None, keepdims)
    if dtype.itemsize == 2:
        return add.reduce(x.astype(FLOAT32), axis, None, None, keepdims).astype(dtype)
    return wide_sum(x, axis, keepdims)


def _mean(x, *, axis, keepdims):
    n = x.size if len(axis) == x.ndim else count(x.shape, axis)
    total = wide_sum(x, axis, keepdims)
    return np.divide(total, n, out=total) if total.__class__ is np.ndarray and total.ndim else np.divide(total, n)


def _nansum(x, *, axis, keepdims):
    return _sum(np.where(x != x, 0, x), axis=axis, keepdims=keepdims)


row(
    "sum", "x / axis keepdims", _sum, (lambda xp, g, out, x, *, axis, keepdims: spread(xp, g, x, axis, keepdims),),
    policy="each", type=sum_type, display=numbered("Sum"), jax=call("jnp.sum"),
)  # fmt: skip
row(
    "mean", "x / axis keepdims", _mean,
    (lambda xp, g, out, x, *, axis, keepdims: spread(xp, g / count(x.shape, axis), x, axis, keepdims),),
    policy="each", type=reduction_type, display=numbered("Mean"), jax=call("jnp.mean"),
    compose=lambda xp, x, *, axis, keepdims: xp.sum(x, axis=axis, keepdims=keepdims) / count(x.shape, axis),
)  # fmt: skip
row(
    "nansum", "x / axis keepdims", _nansum,
    (lambda xp, g, out, x, *, axis, keepdims: xp.where(x == x, restore(xp, g, x, axis, keepdims), 0),),
    saves="x", policy="each", type=sum_type, jax=call("jnp.nansum"),
)  # fmt: skip


# Products. The derivative of a product in one factor is the product of the others, which zeros must not turn into 0/0.


def _prod(x, *, axis, keepdims):
    return multiply.reduce(x, axis, INT64 if kind(x.dtype) in "bi" else None, None, keepdims)


def _prod_rule(xp, g, out, x, *, axis, keepdims):
    """All dimensions at once, or one: then the others' product is taken along it."""
    if len(axis) == 1:
        return restore(xp, g, x, axis, keepdims) * xp.prod_rest(x, axis=axis[0])
    flat = xp.prod_rest(xp.reshape(x, shape=(prod(x.shape),)), axis=0)
    return xp.reshape(flat, shape=x.shape) * restore(xp, g, x, axis, keepdims)


def _prod_rest(x, *, axis):
    total = multiply.reduce(x, axis, None, None, True)
    if np.isfinite(total).all() and total.all():
        return total / x
    before, after = np.ones_like(x), np.ones_like(x)
    head, tail = _ends(axis)
    np.multiply.accumulate(x[head], axis, out=before[tail])
    np.multiply.accumulate(x[tail][_flip(axis)], axis, out=after[head][_flip(axis)])
    return before * after


def _ends(axis: int) -> tuple[Any, Any]:
    """Indices of all but the last, and of all but the first."""
    lead = (slice(None),) * axis
    return (*lead, slice(None, -1)), (*lead, slice(1, None))


def _flip(axis: int) -> tuple[Any, ...]:
    return (*((slice(None),) * axis), slice(None, None, -1))


def _prod_rest_rule(xp, g, out, x, *, axis):
    """The result is (product of those before) * (product of those after), and both are scans, whose rules take zeros."""
    before = xp.shift(xp.cumprod(x, axis=axis, reverse=False), axis=axis, by=1, fill=1)
    after = xp.shift(xp.cumprod(x, axis=axis, reverse=True), axis=axis, by=-1, fill=1)
    ahead = [xp.shift(t, axis=axis, by=-1, fill=0) for t in (x, g * after)]
    behind = [xp.shift(t, axis=axis, by=1, fill=0) for t in (x, g * before)]
    from_before = xp.recurrence(*ahead, axis=axis, reverse=True)
    from_after = xp.recurrence(*behind, axis=axis, reverse=False)
    return before * from_before + after * from_after


def _prod_rest_text(x, *, axis):
    before = f"jnp.cumprod(jnp.roll({x}, 1, {axis}).at[{_first(axis)}].set(1), {axis})"
    return f"{before} * jnp.flip(jnp.cumprod(jnp.roll(jnp.flip({x}, {axis}), 1, {axis}).at[{_first(axis)}].set(1), {axis}), {axis})"


def _first(axis: int) -> str:
    """The first element along a dimension, as a slice: there may be none."""
    return ":, " * axis + ":1"


row(
    "prod", "x / axis keepdims", _prod, (_prod_rule,), saves="x", policy="each", type=sum_type, display=numbered("Prod"),
    jax=call("jnp.prod"),
)  # fmt: skip
row("prod_rest", "x / axis", _prod_rest, (_prod_rest_rule,), saves="x", type=lambda x, *, axis: Meta(x.shape, x.dtype), jax=_prod_rest_text)


# Extremes. Equal ones share the gradient evenly.


def extreme_type(name: str) -> Any:
    def rule(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
        refuse_empty(name, x.shape, axis)
        return reduction_type(x, axis=axis, keepdims=keepdims)

    return rule


def refuse_empty(name: str, shape: tuple[int, ...], axis: tuple[int, ...], error: Any = RuntimeError) -> None:
    """An extreme of nothing does not exist."""
    if axis.__class__ is Everything and 0 in shape:
        hint = " Specify the reduction dim with the 'dim' argument." if error is RuntimeError else ""
        raise error(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{hint}")
    for i in axis:
        if shape[i] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {i} to have non-zero size.")


def share(xp, g, mask, x, axis, keepdims):
    """Give `g` to the elements of the mask, in equal parts."""
    ties = xp.cast(xp.sum(mask, axis=axis, keepdims=keepdims), dtype=np.dtype(x.dtype))
    return restore(xp, g / ties, x, axis, keepdims) * mask


def _extreme_rule(xp, g, out, x, *, axis, keepdims):
    return share(xp, g, x == restore(xp, out, x, axis, keepdims), x, axis, keepdims)


def _whole_extreme_rule(xp, g, out, x, *, axis, keepdims):
    """Here NaNs count as equal: if there are any, they are the extreme."""
    return share(xp, g, (x == out) | (x != x), x, axis, keepdims)


def extremes(name: str, ufunc: Any, jax: str) -> None:
    """amax, which takes dimensions, and the max() of everything."""

    def kernel(x, *, axis, keepdims):
        return ufunc.reduce(x, axis, None, None, keepdims)

    columns: dict[str, Any] = {"saves": "x out", "policy": "each", "kinds": "bif", "jax": call(jax)}
    compose = lambda xp, x, **attrs: getattr(xp, f"a{name}")(x, **attrs)
    row(f"a{name}", "x / axis keepdims", kernel, (_extreme_rule,), type=extreme_type(f"a{name}"), **columns)
    display = f"{name.title()}Backward1"
    row(
        f"{name}_all", "x / axis keepdims", kernel, (_whole_extreme_rule,), type=extreme_type(name), display=display, compose=compose,
        **columns,
    )  # fmt: skip


extremes("max", maximum, "jnp.max")
extremes("min", minimum, "jnp.min")


def _aminmax(x, *, axis, keepdims):
    return minimum.reduce(x, axis, None, None, keepdims), maximum.reduce(x, axis, None, None, keepdims)


def _aminmax_rule(xp, g, out, x, *, axis, keepdims):
    parts = [_extreme_rule(xp, gi, o, x, axis=axis, keepdims=keepdims) for gi, o in zip(g, out, strict=True) if gi is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _aminmax_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> tuple[Meta, Meta]:
    if any(x.shape[i] == 0 for i in axis):
        if len(axis) == 1:
            raise IndexError(f"aminmax: Expected reduction dim {axis[0]} to have non-zero size.")
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
    meta = reduction_type(x, axis=axis, keepdims=keepdims)
    return meta, meta


row(
    "aminmax", "x / axis keepdims", _aminmax, (_aminmax_rule,), saves="x out", outputs=2, policy="each", kinds="bif", type=_aminmax_type,
    jax=lambda x, **attrs: f"({call('jnp.min')(x, **attrs)}, {call('jnp.max')(x, **attrs)})",
)  # fmt: skip


def arg_extreme(name: str) -> None:
    """The index of the first extreme along one dimension, or among all elements in row-major order."""

    def kernel(x, *, axis, keepdims):
        whole = len(axis) != 1
        indices = getattr(x, name)(None if whole else axis[0])
        return np.asarray(indices).reshape(reduced_shape(x.shape, axis, keepdims)) if keepdims else indices

    def type_rule(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
        refuse_empty(name, x.shape, axis, IndexError)
        return index_type(x, axis=axis, keepdims=keepdims)

    def text(x, *, axis, keepdims):
        return f"jnp.{name}({x}, axis={axis[0] if len(axis) == 1 else None}, keepdims={keepdims})"

    row(name, "x / axis keepdims", kernel, policy="each", kinds="if", type=type_rule, jax=text)


arg_extreme("argmax")
arg_extreme("argmin")


# Truth and counting.


def truth(name: str, ufunc: Any) -> None:
    def kernel(x, *, axis, keepdims):
        result = ufunc.reduce(x, axis, BOOL, None, keepdims)
        return result if x.dtype != _UINT8 else result.astype(_UINT8)

    row(name, "x / axis keepdims", kernel, policy="each", type=truth_type, jax=call(f"jnp.{name}"))


truth("all", np.logical_and)
truth("any", np.logical_or)
row(
    "count_nonzero", "x / axis keepdims", lambda x, *, axis, keepdims: add.reduce(x != 0, axis, INT64, None, keepdims),
    policy="each", type=index_type, jax=call("jnp.count_nonzero"),
)  # fmt: skip


# log(sum(exp)), kept whole: it neither overflows nor loses its small terms.


def _logsumexp(x, *, axis, keepdims):
    top = maximum.reduce(x, axis, None, None, True, -np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(wide_sum(np.exp(x - top), axis, True)) + top
    return total if keepdims else total.reshape(reduced_shape(x.shape, axis, False))


row(
    "logsumexp", "x / axis keepdims", _logsumexp,
    (lambda xp, g, out, x, *, axis, keepdims: restore(xp, g, x, axis, keepdims) * xp.exp(x - restore(xp, out, x, axis, keepdims)),),
    saves="x out", policy="float", type=reduction_type, jax=call("jax.scipy.special.logsumexp"),
)  # fmt: skip
