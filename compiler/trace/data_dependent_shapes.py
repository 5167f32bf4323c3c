"""Rows whose result size depends on values, such as the number of nonzero or distinct elements.

A program has the size that it was traced with. It also computes the actual size, which is a path condition: a call with another size takes
another path. The implementations below use only rows of known shape, and stay in bounds where the actual size differs: the results are
then discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.guards.conditions import PathConditions
from symgrad.compiler.ir.builder import detached, xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import Value
from symgrad.compiler.support.source_lines import user_line
from symgrad.ops.spec import Meta, Row

INT64, BOOL = np.dtype(np.int64), np.dtype(bool)
DataDependentResult = tuple[Any, Value | None, int]
"""The values of the results, the graph value of the actual size (None: it never changes), and the size in the trace."""


def _flat(x: Any) -> Any:
    return xp.reshape(x, shape=(x.size,))


def _first(x: Any, n: int) -> Any:
    return xp.getitem(x, index=((0, n, 1),))


def _positions(flags: Any, n: int) -> Any:
    """The positions of the first `n` True elements of the 1-d `flags`; if there are fewer, positions of False elements follow."""
    return _first(xp.argsort(xp.cast(xp.bitwise_not(flags), dtype=INT64), axis=0, descending=False), n)


def _count(flags: Any) -> Any:
    return xp.sum(xp.cast(flags, dtype=INT64), axis=tuple(range(len(flags.shape))), keepdims=False)


def nonzero(args: tuple[Any, ...], attrs: Any, result: Any) -> DataDependentResult:
    """The indices of the nonzero elements, one row for each."""
    (x,), n = args, result._array.shape[0]
    if not x.size or not x.ndim:
        size = None if not x.size else xp.cast(xp.ne(x, 0), dtype=INT64)
        return filled(xp, 0, Meta((n, x.ndim), INT64)), size, n
    flags = xp.ne(_flat(x), 0)
    rest, columns = _positions(flags, n), []
    for length in reversed(x.shape):
        columns.append(xp.remainder(rest, length))
        rest = xp.floor_divide(rest, length)
    return xp.stack(*reversed(columns), axis=1), _count(flags), n


def _runs(line: Any) -> Any:
    """Boolean flags of the elements of the 1-d `line` that differ from their predecessor; the first one always counts."""
    one = filled(xp, True, Meta((1,), BOOL))
    if line.size == 1:
        return one
    n = line.size
    return xp.cat(one, xp.ne(xp.getitem(line, index=((1, n, 1),)), xp.getitem(line, index=((0, n - 1, 1),))), axis=0)


def _distinct(x: Any, line: Any, ranks: Callable[[Any], Any], n: int) -> DataDependentResult:
    flags = _runs(line)
    starts = _positions(flags, n)
    ends = xp.cat(xp.getitem(starts, index=((1, n, 1),)), filled(xp, x.size, Meta((1,), INT64)), axis=0)
    rank = xp.cumsum(xp.cast(flags, dtype=INT64), axis=0, reverse=False) - 1
    return (xp.take_along(line, starts, axis=0), xp.reshape(ranks(rank), shape=x.shape), ends - starts), _count(flags), n


def unique(args: tuple[Any, ...], attrs: Any, result: Any) -> DataDependentResult | None:
    """The distinct elements in ascending order, the index among them of each element of the input, and their counts. None with an axis, or
    for an empty input: the row's own type rule decides then."""
    (x,), n = args, result[0]._array.shape[0] if attrs["axis"] is None else 0
    if attrs["axis"] is not None or not x.size:
        return None
    line, order = xp.sort(_flat(x), axis=0, descending=False)
    back = xp.argsort(order, axis=0, descending=False)
    return _distinct(x, line, lambda rank: xp.take_along(rank, back, axis=0), n)


def unique_consecutive(args: tuple[Any, ...], attrs: Any, result: Any) -> DataDependentResult | None:
    """The first element of each run of equal elements, the index of its run for each element of the input, and the lengths of the runs.
    None as in `unique`."""
    (x,) = args
    if attrs["axis"] is not None or not x.size:
        return None
    return _distinct(x, _flat(x), lambda rank: rank, result[0]._array.shape[0])


def bincount(args: tuple[Any, ...], attrs: Any, result: Any) -> DataDependentResult:
    """The count, or the sum of weights, of each integer from 0 up to the largest one in the input, for at least `minlength` integers."""
    (x, weights), n = args, result._array.shape[0]
    dtype = result._array.dtype
    if not x.size:
        return filled(xp, 0, Meta((n,), dtype)), None, n
    terms = filled(xp, 1, Meta(x.shape, dtype)) if weights is None else xp.cast(weights, dtype=dtype)
    inside = xp.minimum(xp.cast(x, dtype=INT64), n - 1)
    size = xp.maximum(xp.cast(xp.amax(x, axis=(0,), keepdims=False), dtype=INT64) + 1, attrs["minlength"])
    return xp.scatter_along(terms, inside, axis=0, size=n), size, n


DATA_DEPENDENT_ROWS: dict[str, Callable[..., DataDependentResult | None]] = {
    "nonzero": nonzero, "unique": unique, "unique_consecutive": unique_consecutive, "bincount": bincount,
}  # fmt: skip


def apply_data_dependent(path: PathConditions, row: Row, operands: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> Any:
    """The values of the results of a row in DATA_DEPENDENT_ROWS, or None if it has no implementation for these operands. The size of the
    result becomes a path condition."""
    found = DATA_DEPENDENT_ROWS[row.name](operands, attrs, result)
    if found is None:
        return None
    values, size, n = found
    if size is not None:
        path.add(size, n, f"the size of {row.name} at {user_line()}")
    if row.differentiable:
        return values
    # the row has no derivative, but the ops of its implementation do
    return tuple(map(detached, values)) if isinstance(values, tuple) else detached(values)
