"""one_hot(i, n) W -> W[i]: products with a matrix that has one 1 in each row read or add rows, in place of multiplying by zeros.

    one_hot(i, n) W      ->  W[i]                                 and X one_hot(i, n)' -> X[:, i]
    one_hot(i, n)' X     ->  X added into zeros at the rows i     and X one_hot(i, n)
    Σ_c one_hot(i)[.., c] X[.., c]  ->  X[.., i]

An index that names no class selects zeros, as in `one_hot`. Zeros times infinity or NaN, which are NaN as written, are left out. The pass
changes a product only if its time, as `cost.py` estimates it, exceeds that of the reads, and of starting them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symgrad.compiler.algebra.cost import nanoseconds
from symgrad.compiler.algebra.emit import compute_dtype
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Value, literal
from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.table import Table
from symgrad.ops.promotion import kind

_STARTS = 20_000
"""Nanoseconds that kernels need to start reads by an index tensor."""
_PER_READ = 0.5
_PER_WRITE = 1.0
"""Nanoseconds for each element that is read, or added, at an index."""

a, b, x, y = map(variable, ("a", "b", "x", "y"))
axis, keepdims = variable("axis"), variable("keepdims")


class OneHot(NamedTuple):
    """A value that is 1 where its index along `axis` is the element of `indices` at its other indices, and 0 elsewhere."""

    indices: Value
    axis: int


def one_hot_of(v: Value) -> OneHot | None:
    """Return how a value is one-hot: a result of `one_hot` in another dtype, or with its dimensions in another order; None for others."""
    if v.op == "one_hot":
        return OneHot(v.args[0], v.ndim - 1)
    if v.op in ("cast", "clone", "detach") and kind(v.dtype) in "ifc" and v.args[0].shape == v.shape:
        return one_hot_of(v.args[0])
    if v.op == "reshape":
        found = one_hot_of(v.args[0])
        keeps = found is not None and found.axis == v.args[0].ndim - 1 and v.ndim > 0 and v.shape[-1] == v.args[0].shape[-1]
        return OneHot(xp.reshape(found.indices, shape=v.shape[:-1]), v.ndim - 1) if found is not None and keeps and v.size else None
    if v.op in ("transpose", "permute", "t"):
        found = one_hot_of(v.args[0])
        return None if found is None else _permuted(found, _axes(v))
    return None


def _axes(v: Value) -> tuple[int, ...]:
    """Return which dimension of its argument each dimension of a transpose is."""
    if v.op == "permute":
        return tuple(n % v.ndim for n in v.attrs["axes"])
    axes = list(range(v.ndim))
    i, j = (v.attrs["dim0"], v.attrs["dim1"]) if v.op == "transpose" else (0, v.ndim - 1)
    axes[i], axes[j] = axes[j], axes[i]
    return tuple(axes)


def _permuted(given: OneHot, axes: tuple[int, ...]) -> OneHot:
    rest = tuple(n - (n > given.axis) for n in axes if n != given.axis)
    indices = given.indices if rest == tuple(range(len(rest))) else xp.permute(given.indices, axes=rest)
    return OneHot(indices, axes.index(given.axis))


# products


def _product(xp: Any, m: Any) -> Any:
    """Return a product as reads or sums of rows, or None if neither factor is one-hot, or multiplying is faster."""
    for one, other, is_left in ((m.a, m.b, True), (m.b, m.a, False)):
        hot = one_hot_of(one) if one.ndim and 0 < other.ndim < 3 and one.size and other.size else None
        made = None if hot is None else _reads_or_sums(hot, one, other if is_left or other.ndim == 1 else _transposed(other), is_left)
        if made is None:
            continue
        found, elements = made
        if nanoseconds([_as_written(m)]) <= _STARTS + elements:
            return None
        return found if is_left or other.ndim == 1 else _transposed(found)
    return None


def _reads_or_sums(hot: OneHot, one: Value, table: Value, is_left: bool) -> tuple[Value, float] | None:
    """Return the product of a one-hot factor with the rows of a table, and the time for its elements."""
    summed = one.ndim - 1 if is_left or one.ndim == 1 else one.ndim - 2
    if hot.axis == summed and (is_left or one.ndim < 3):
        found = _rows(hot.indices, table)
        return found, _PER_READ * found.size
    if one.ndim == 2 and hot.axis == 1 - summed:
        found = _added(hot.indices, table, one.shape[hot.axis])
        return found, _PER_WRITE * (found.size + table.size)
    return None


def _as_written(m: Any) -> Value:
    return xp.matmul(m.a, m.b)


def _transposed(x: Value) -> Value:
    return xp.transpose(x, dim0=0, dim1=1)


def _places(indices: Value, classes: int) -> tuple[Value, Value]:
    """Return whether indices name a class, and the indices with 0 in place of those that do not."""
    named = xp.logical_and(xp.ge(indices, 0), xp.lt(indices, classes))
    return named, xp.where(named, indices, 0)


def _rows(indices: Value, table: Value) -> Value:
    """Return the rows of a table at indices, zeros for an index that names no row."""
    flat = xp.reshape(indices, shape=(indices.size,))
    named, places = _places(flat, table.shape[0])
    rows = xp.index(table, places, dims=(0,))
    found = xp.where(_beside(named, rows), rows, 0)
    return xp.reshape(found, shape=(*indices.shape, *table.shape[1:]))


def _added(indices: Value, rows: Value, classes: int) -> Value:
    """Return zeros into which rows are added at indices."""
    named, places = _places(indices, classes)
    wide = xp.cast(rows, dtype=compute_dtype(rows.dtype))
    total = xp.index_back(xp.where(_beside(named, wide), wide, 0), places, shape=(classes, *rows.shape[1:]), dims=(0,))
    return xp.cast(total, dtype=rows.dtype)


def _beside(named: Value, rows: Value) -> Value:
    return xp.reshape(named, shape=(*named.shape, *(1,) * (rows.ndim - 1)))


def _affine(xp: Any, m: Any) -> Any:
    """Return x W' + b, x one-hot, as rows of W' plus b."""
    factors = type(m)(a=m.x, b=xp.transpose(m.a, dim0=0, dim1=1))
    found = _product(xp, factors) if m.a.ndim == 2 else None
    return None if found is None else xp.add(found, m.b)


# sums


def _sum(xp: Any, m: Any) -> Any:
    """Return a sum over classes of a product with one one-hot factor as reads, or None if there is none, or adding is faster."""
    shape = m.x.shape
    axes = {n % len(shape) for n in m.axis}
    for one, other in ((m.x, m.y), (m.y, m.x)):
        hot = one_hot_of(one) if one.shape == other.shape and one.size else None
        if hot is None or hot.axis not in axes:
            continue
        if 2 * nanoseconds([xp.mul(m.x, m.y)]) <= _STARTS + _PER_READ * hot.indices.size:
            return None
        kept = tuple(1 if n == hot.axis else size for n, size in enumerate(shape))
        named, places = _places(hot.indices, shape[hot.axis])
        read = xp.take_along(other, xp.reshape(places, shape=kept), axis=hot.axis)
        read = xp.where(xp.reshape(named, shape=kept), read, 0)
        total = xp.sum(read, axis=tuple(sorted(axes)), keepdims=m.keepdims)
        return xp.cast(total, dtype=m.meta.dtype)
    return None


# rules


def _has_one_hot(*names: str) -> Callable[[Any], bool]:
    """Return the condition that one of these variables is bound to a one-hot value."""
    return lambda m: any([one_hot_of(getattr(m, name)) is not None for name in names])


def _example(n: int) -> Callable[[Any], Value]:
    """Return a function that makes n rows, each one-hot in class 2."""

    def make(xp: Any) -> Value:
        classes = xp.expand(literal(2, np.dtype(np.int64)), shape=(n,))
        made: Value = xp.cast(xp.one_hot(classes, classes=n), dtype=np.dtype(np.float64))
        return made

    return make


def _rule(name: str, pattern: Any, result: Any, names: tuple[str, ...], text: str, **example: Any) -> Rule:
    return Rule(name, pattern, result, _has_one_hot(*names), text, example=example, differentiable=False)


one_hot = Table(
    "one_hot",
    _rule(
        "one_hot_product", P.matmul(a, b), _product, ("a", "b"), "rows that are read, or added, where a or b is one-hot",
        a=_example(100), b=(100, 100),
    ),
    _rule(
        "one_hot_linear", P.linear(x, a, b), _affine, ("x",), "rows of transpose(a) plus b, where x is one-hot",
        x=_example(100), a=(100, 100), b=(100,),
    ),
    _rule(
        "one_hot_sum", P.sum(P.mul(x, y), axis=axis, keepdims=keepdims), _sum, ("x", "y"), "elements that are read where x or y is one-hot",
        x=_example(300), y=(300, 300), axis=(1,), keepdims=False,
    ),
    normal=False,
)  # fmt: skip
"""Equations for matrices with one 1 in each row."""
