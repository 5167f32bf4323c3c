"""Pooling: maxima and means of windows, and their transposes."""

from __future__ import annotations

from math import prod
from typing import Any

from symgrad.compiler.ir.elements.registry import element


def _place(window: Any, k: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    return [i * s + j * d - p for i, j, s, p, d in zip(window, k, stride, padding, dilation, strict=True)]


@element("max_pool", output=0)
def _(ix: Any, at: Any, x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    n, c, *window = at

    def tap(*k: Any) -> Any:
        place = _place(window, k, stride, padding, dilation)
        return ix.where(ix.inside(place, x.shape[2:]), x(n, c, *place), -ix.infinity)

    return ix.fold("max", tap, *kernel)


@element("pool_gather")
def _(ix: Any, at: Any, x: Any, indices: Any) -> Any:
    return x(*at[:2], *ix.unflat(indices(*at), x.shape[2:]))


@element("pool_scatter")
def _(ix: Any, at: Any, g: Any, indices: Any, *, input_shape: Any) -> Any:
    flat = ix.flat(at[2:], input_shape)
    return ix.sum(lambda *k: ix.delta(flat, indices(*at[:2], *k)) * g(*at[:2], *k), *g.shape[2:])


def _reach(ix: Any, i: Any, size: int, taps: int, step: int, edge: int, include: bool) -> Any:
    """Return the number of elements of a window along one dimension: of the padded input, or of the input alone."""
    start = i * step - edge
    if include:
        return ix.min(start + taps, size + edge) - start
    return ix.min(start + taps, size) - ix.max(start, 0)


def _divisor(ix: Any, window: Any, shape: Any, kernel: Any, stride: Any, padding: Any, include: bool, override: Any) -> Any:
    if override:
        return override
    sizes = zip(window, shape, kernel, stride, padding, strict=True)
    return prod((_reach(ix, i, n, k, s, p, include) for i, n, k, s, p in sizes), start=ix.number(1))


@element("avg_pool")
def _(
    ix: Any, at: Any, x: Any, *, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
) -> Any:
    n, c, *window = at

    def tap(*k: Any) -> Any:
        place = _place(window, k, stride, padding, (1,) * len(k))
        return ix.inside(place, x.shape[2:]) * x(n, c, *place)

    return ix.sum(tap, *kernel) / _divisor(ix, window, x.shape[2:], kernel, stride, padding, count_include_pad, divisor_override)


@element("avg_unpool")
def _(
    ix: Any, at: Any, g: Any, *, input_shape: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: Any,
) -> Any:  # fmt: skip
    n, c, *place = at

    def share(*window: Any) -> Any:
        starts = [i * s - p for i, s, p in zip(window, stride, padding, strict=True)]
        hit = ix.all([ix.within(j - start, 0, k) for j, start, k in zip(place, starts, kernel, strict=True)])
        return hit * g(n, c, *window) / _divisor(ix, window, input_shape, kernel, stride, padding, count_include_pad, divisor_override)

    return ix.sum(share, *g.shape[2:])


def _ends(ix: Any, i: Any, size: int, count: int) -> tuple[Any, Any]:
    """Return the first index of the i-th of `count` nearly equal windows, and the one after its last."""
    return ix.divided(i * size, count)[0], ix.divided((i + 1) * size + count - 1, count)[0]


@element("adaptive_avg_pool")
def _(ix: Any, at: Any, x: Any, *, output_size: Any) -> Any:
    n, c, *window = at
    ends = [_ends(ix, i, size, count) for i, size, count in zip(window, x.shape[2:], output_size, strict=True)]
    hit = lambda *k: ix.all([ix.between(j, first, last) for j, (first, last) in zip(k, ends, strict=True)])
    count = prod((last - first for first, last in ends), start=ix.number(1))
    return ix.sum(lambda *k: hit(*k) * x(n, c, *k), *x.shape[2:]) / count


@element("adaptive_avg_unpool")
def _(ix: Any, at: Any, g: Any, *, input_shape: Any) -> Any:
    n, c, *place = at

    def share(*window: Any) -> Any:
        ends = [_ends(ix, i, size, count) for i, size, count in zip(window, input_shape, g.shape[2:], strict=True)]
        hit = ix.all([ix.between(j, first, last) for j, (first, last) in zip(place, ends, strict=True)])
        return hit * g(n, c, *window) / prod((last - first for first, last in ends), start=ix.number(1))

    return ix.sum(share, *g.shape[2:])
