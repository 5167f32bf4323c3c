"""Rows that read and write at positions: fixed ones, or those in an index tensor."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.elements.registry import element


def _chosen(at: Any, index: Any) -> list[Any]:
    """Return the position that a basic index reads for element `at` of its result."""
    rest, place = list(at), []
    for item in index:
        if item is None:
            rest.pop(0)
        elif isinstance(item, tuple):
            place.append(item[0] + rest.pop(0) * item[2])
        else:
            place.append(item)
    return [*place, *rest]


def _found(ix: Any, at: Any, index: Any) -> tuple[Any, list[Any]]:
    """Invert `_chosen`: return a condition that the basic index reads position `at`, and the element of its result there."""
    hits, element, rest = [], [], list(at)
    for item in index:
        if item is None:
            element.append(0)
        elif isinstance(item, tuple):
            start, stop, step = item
            k, beside = ix.divided(rest.pop(0) - start, step)
            hits += [ix.delta(beside, 0), ix.within(k, 0, len(range(start, stop, step)))]
            element.append(k)
        else:
            hits.append(ix.delta(rest.pop(0), item))
    return ix.all(hits), [*element, *rest]


@element("getitem")
def _(ix: Any, at: Any, x: Any, *, index: Any) -> Any:
    return x(*_chosen(at, index))


@element("embed")
def _(ix: Any, at: Any, x: Any, *, shape: Any, index: Any) -> Any:
    hit, place = _found(ix, at, index)
    return hit * x(*place)


@element("assemble")
def _(ix: Any, at: Any, *pieces: Any, shape: Any, places: Any) -> Any:
    result = 0
    for piece, index in zip(pieces, places, strict=True):
        hit, place = _found(ix, at, index)
        result += hit * piece(*place)
    return result


@element("view_write")
def _(ix: Any, at: Any, base: Any, value: Any, *, path: Any) -> Any:
    """The value where the view reads, else the base: the path of the view maps its elements to positions in the base."""
    places = ix.path(base.shape, path)
    lead = lambda k: k[len(k) - value.ndim :]
    hit = lambda *k: ix.all([ix.delta(i, place) for i, place in zip(at, places(k), strict=True)])
    written = ix.sum(lambda *k: hit(*k) * value(*lead(k)), *places.shape)
    return ix.where(ix.sum(hit, *places.shape), written, base(*at))


# --- index tensors at dimensions


def _layout(x: Any, at: Any, indices: Any, dims: Any, ndim: int) -> tuple[Any, Any]:
    """Split the indices of an element of x[i, j, :] into those of the index tensors' broadcast shape, and the rest."""
    common = max(i.ndim for i in indices)
    start = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return at[start : start + common], (*at[:start], *at[start + common :])


def _named(ix: Any, shape: Any, indices: Any, dims: Any, inner: Any) -> list[Any]:
    """Return the position in each indexed dimension that element `inner` of the index tensors names; negative ones count from the end."""
    return [ix.wrapped(index(*inner[len(inner) - index.ndim :]), shape[d]) for index, d in zip(indices, dims, strict=True)]


@element("index")
def _(ix: Any, at: Any, x: Any, *indices: Any, dims: Any) -> Any:
    inner, rest = _layout(x, at, indices, dims, x.ndim)
    place = list(rest)
    for dim, k in zip(dims, _named(ix, x.shape, indices, dims, inner), strict=True):
        place.insert(dim, k)
    return x(*place)


@element("index_select")
def _(ix: Any, at: Any, x: Any, indices: Any, *, axis: int) -> Any:
    return x(*at[:axis], indices(at[axis]) if indices.ndim else indices(), *at[axis + (indices.ndim > 0) :])


def _spread_over(ix: Any, at: Any, shape: Any, indices: Any, dims: Any) -> tuple[Any, Any, list[int]]:
    """Return a condition that element k of the index tensors names position `at`; the element of x[i, j, :] for k; and the sizes of k."""
    common = ix.broadcast(*(i.shape for i in indices))
    rest = [i for d, i in enumerate(at) if d not in dims]
    start = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    hit = lambda *k: ix.all([ix.delta(at[d], i) for d, i in zip(dims, _named(ix, shape, indices, dims, k), strict=True)])
    return hit, lambda *k: (*rest[:start], *k, *rest[start:]), common


@element("index_back")
def _(ix: Any, at: Any, x: Any, *indices: Any, shape: Any, dims: Any) -> Any:
    hit, place, sizes = _spread_over(ix, at, shape, indices, dims)
    return ix.sum(lambda *k: hit(*k) * x(*place(*k)), *sizes)


@element("index_put")
def _(ix: Any, at: Any, x: Any, value: Any, *indices: Any, dims: Any, accumulate: bool) -> Any:
    """The last of several values for one position is kept."""
    hit, place, sizes = _spread_over(ix, at, x.shape, indices, dims)
    given = lambda *k: value(*place(*k)[len(place(*k)) - value.ndim :])
    if accumulate:
        return x(*at) + ix.sum(lambda *k: hit(*k) * given(*k), *sizes)
    return ix.last(hit, given, x(*at), *sizes)


# --- index tensors that are read in step, along one dimension


def _along(at: Any, axis: int, k: Any) -> tuple[Any, ...]:
    return (*at[:axis], k, *at[axis + 1 :])


@element("take_along")
def _(ix: Any, at: Any, x: Any, indices: Any, *, axis: int) -> Any:
    return x(*_along(at, axis, indices(*at)))


@element("scatter_along")
def _(ix: Any, at: Any, g: Any, indices: Any, *, axis: int, size: int) -> Any:
    read = lambda k: _along(at, axis, k)
    return ix.sum(lambda k: ix.delta(at[axis], indices(*read(k))) * g(*read(k)), g.shape[axis])


def _reached(ix: Any, at: Any, indices: Any, axis: int) -> Any:
    """Return a condition that the index tensor, which may be smaller than x off the axis, has elements at this position."""
    return ix.all([ix.within(i, 0, n) for d, (i, n) in enumerate(zip(at, indices.shape, strict=True)) if d != axis])


@element("scatter")
def _(ix: Any, at: Any, x: Any, src: Any, indices: Any, *, axis: int) -> Any:
    read = lambda k: _along(at, axis, k)
    hit = lambda k: _reached(ix, at, indices, axis) * ix.delta(at[axis], indices(*read(k)))
    return ix.last(hit, lambda k: src(*read(k)[: src.ndim]), x(*at), indices.shape[axis])


@element("scatter_add")
def _(ix: Any, at: Any, x: Any, src: Any, indices: Any, *, axis: int) -> Any:
    read = lambda k: _along(at, axis, k)
    hit = lambda k: _reached(ix, at, indices, axis) * ix.delta(at[axis], indices(*read(k)))
    return x(*at) + ix.sum(lambda k: hit(k) * src(*read(k)[: src.ndim]), indices.shape[axis])


@element("index_add")
def _(ix: Any, at: Any, x: Any, source: Any, indices: Any, *, axis: int) -> Any:
    return x(*at) + ix.sum(lambda k: ix.delta(at[axis], indices(k)) * source(*_along(at, axis, k)), indices.shape[0])


@element("index_copy")
def _(ix: Any, at: Any, x: Any, source: Any, indices: Any, *, axis: int) -> Any:
    return ix.last(lambda k: ix.delta(at[axis], indices(k)), lambda k: source(*_along(at, axis, k)), x(*at), indices.shape[0])


@element("index_fill")
def _(ix: Any, at: Any, x: Any, source: Any, indices: Any, *, axis: int) -> Any:
    return ix.last(lambda k: ix.delta(at[axis], indices(k)), lambda k: source(), x(*at), indices.shape[0])


# --- tables and classes


@element("one_hot")
def _(ix: Any, at: Any, indices: Any, *, classes: int) -> Any:
    return ix.delta(indices(*at[:-1]), at[-1])


@element("embedding")
def _(ix: Any, at: Any, weight: Any, indices: Any, scale: Any, *, padding: Any) -> Any:
    return weight(indices(*at[: indices.ndim]), *at[indices.ndim :])


def _counts(ix: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """Return the weight of a target's class, 0 for an ignored target."""
    return ix.differs(target, ignore_index) * (1 if weight is None else weight(target))


@element("nll_loss")
def _(ix: Any, at: Any, x: Any, target: Any, weight: Any, *, axis: int, ignore_index: int, reduction: str) -> Any:
    def value(*k: Any) -> Any:
        return -_counts(ix, target(*k), weight, ignore_index) * x(*k[:axis], target(*k), *k[axis:])

    if reduction == "none":
        return value(*at)
    total = ix.sum(value, *target.shape)
    if reduction == "sum":
        return total
    return ix.quotient(total, ix.sum(lambda *k: _counts(ix, target(*k), weight, ignore_index), *target.shape))


@element("nll_spread")
def _(ix: Any, at: Any, g: Any, target: Any, weight: Any, *, axis: int, ignore_index: int, reduction: str, classes: int) -> Any:
    k = (*at[:axis], *at[axis + 1 :])
    value = -_counts(ix, target(*k), weight, ignore_index) * ix.delta(at[axis], target(*k)) * g(*k[len(k) - g.ndim :])
    if reduction != "mean":
        return value
    return ix.quotient(value, ix.sum(lambda *k: _counts(ix, target(*k), weight, ignore_index), *target.shape))
