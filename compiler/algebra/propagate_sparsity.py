"""Sparse Jacobians, graph to bands: index sets and closed forms of the nonzeros, propagated from an input to the values that depend on it.

    elementwise rows      scale the bands of their arguments by the derivative: one vector for each diagonal
    moves                 slices, paddings, joins, transposes and broadcasts move the box of a band
    reductions            scale by the derivative, then sum over dimensions
    index tensors         read or write rows that are listed
    compositions          products of matrices become products and sums of elements
    everything else       is opaque: each element depends on all columns of the argument, and has no closed form

The set is never too small: a nonzero stays in it if its value happens to be zero. It is exact for programs of the first four kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from symgrad.compiler.algebra import band_moves as moves
from symgrad.compiler.algebra.band import Band, Constants, NotBoxed, distinct, identity, opaque, scaled
from symgrad.compiler.algebra.band_merge import merged
from symgrad.compiler.algebra.listed_rows import READING, SENDING, PlaceReader, read, sent
from symgrad.compiler.algebra.sums_of_products import COMPOSITIONS
from symgrad.compiler.autodiff.pull import dependents, is_differentiable
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Value, outputs_of, row_of, toposort
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import unbroadcast
from symgrad.ops.spec import Meta, Row
from symgrad.ops.variants import variant

MAX_NONZEROS = 1 << 25
"""Bands of one value with more nonzeros than this are not propagated."""


class NoBands(Exception):  # caught by the caller, which computes a dense Jacobian
    """There are too many nonzeros, or complex values, which have no bands."""


def propagate(outputs: Sequence[Value], x: Value, constants: Constants, places: PlaceReader) -> list[list[Band]]:
    """Return the bands of each output's Jacobian in the input x. `places` evaluates index tensors."""
    return _Propagation(x, constants, places).bands(outputs)


class _Propagation:
    def __init__(self, x: Value, constants: Constants, places: PlaceReader) -> None:
        self.x, self.constants, self.places = x, constants, places
        self.known: dict[Value, list[Band]] = {x: [identity(x)] if x.size else []}

    def bands(self, outputs: Sequence[Value]) -> list[list[Band]]:
        order = [v for v in toposort(outputs, self.known) if v not in self.known]
        depends = dependents(order, [v for v, bands in self.known.items() if bands], is_differentiable)
        for v in order:
            if isinstance(v.dtype, tuple):
                continue
            source = v.args[0] if v.op == OUTPUT else v
            active = source in depends and v.op not in (INPUT, LITERAL) and v.size
            if active and kind(v.dtype) == "c":
                raise NoBands
            self.known[v] = self._checked(merged(list(self._rule(v, source)))) if active and kind(v.dtype) == "f" else []
        return [self.known[v] for v in outputs]

    def _checked(self, bands: list[Band]) -> list[Band]:
        if sum(b.count for b in bands) > MAX_NONZEROS:
            raise NoBands
        return bands

    def _rule(self, v: Value, source: Value) -> Iterator[Band]:
        """Iterate over the bands of v: an application, or one output of `source`."""
        op, row = source.op, row_of(source)
        if row.pullback is not None:
            yield from self._opaque(v, source)
        elif row.elementwise:
            yield from self._elementwise(v)
        elif op in _MOVES and (op in _SEVERAL) == (v is not source):
            yield from self._moved(v, source)
        elif op in COMPOSITIONS:
            yield from self._composed(v, source)
        elif op == "sum" or (op in _REDUCTIONS and _output(v) == 0) or (v.size == 1 and row.outputs == 1):
            yield from self._reduced(v, source)
        elif op in READING or op in SENDING:
            yield from self._listed(v, source)
        elif row.compose is not None:
            yield from self._composed(v, source)
        else:
            yield from self._opaque(v, source)

    def _active(self, source: Value) -> Iterator[tuple[int, Value, list[Band]]]:
        """Iterate over the differentiable arguments that have bands, with their positions."""
        for i, a in enumerate(source.args):
            if a is not None and self.known.get(a) and is_differentiable(source, i):
                yield i, a, self.known[a]

    def _elementwise(self, v: Value) -> Iterator[Band]:
        for i, a, bands in self._active(v):
            slope = _slope(v, v, i)
            if slope is None:
                continue
            for band in bands:
                yield from _each(scaled(self._broadcast(band, a.shape, v.shape), slope, v.shape, self.constants))

    def _broadcast(self, band: Band, given: tuple[int, ...], result: tuple[int, ...]) -> Band:
        if given == result:
            return band
        try:
            return moves.expanded(band, given, result)
        except NotBoxed:
            places = np.broadcast_to(np.arange(prod(given), dtype=np.int64).reshape(given), result)
            return read(band, places.reshape(-1), self.constants)

    def _moved(self, v: Value, source: Value) -> Iterator[Band]:
        for i, a, bands in self._active(source):
            steps = _MOVES[source.op](source, i, a, v)
            for band in bands:
                try:
                    found = [move(band) for move in steps]
                except NotBoxed:
                    yield from self._read(v, source, i, band)
                else:
                    for part in found:
                        yield from _each(part)

    def _listed(self, v: Value, source: Value) -> Iterator[Band]:
        for i, _, bands in self._active(source):
            for band in bands:
                yield from self._read(v, source, i, band)

    def _read(self, v: Value, source: Value, i: int, band: Band) -> Iterator[Band]:
        """Iterate over the band of a row that reads elements of argument i, or adds them to places, with its rows listed."""
        if source.op in SENDING and SENDING[source.op](source, i):
            targets = self.places.targets(source, i)
            found = None if targets is None else sent(band, targets, self.constants)
        else:
            origins = self.places.origins(source, i, _output(v))
            found = None if origins is None else read(band, origins, self.constants)
        if found is None:
            yield opaque(v.shape, distinct(band.cols))
        elif found.count:
            yield found

    def _reduced(self, v: Value, source: Value) -> Iterator[Band]:
        axes = source.attrs.get("axis", tuple(range(source.args[0].ndim))) if v.size != 1 else None
        for i, a, bands in self._active(source):
            slope = _slope(v, source, i)
            if slope is None:
                continue
            if slope.shape != a.shape:
                slope = unbroadcast(xp, slope, a.shape)
            over = range(a.ndim) if axes is None else [d % a.ndim for d in ((axes,) if isinstance(axes, int) else axes)]
            for band in bands:
                for part in _each(scaled(band, slope, a.shape, self.constants)):
                    yield self._summed(part, sorted(over), a.shape, v.shape)

    def _summed(self, band: Band, axes: Sequence[int], given: tuple[int, ...], result: tuple[int, ...]) -> Band:
        try:
            return moves.summed(band, axes, given, result)
        except NotBoxed:
            kept = tuple(1 if d in axes else n for d, n in enumerate(given))
            targets = np.broadcast_to(np.arange(prod(kept), dtype=np.int64).reshape(kept), given)
            return sent(band, targets.reshape(-1), self.constants)

    def _composed(self, v: Value, source: Value) -> Iterator[Band]:
        """Iterate over the bands of the same value, written with other rows."""
        compose: Any = COMPOSITIONS.get(source.op) or row_of(source).compose
        found = compose(xp, *source.args, **source.attrs)
        if v is not source:
            found = found[_output(v)]
        (bands,) = self.bands((found,))
        yield from bands

    def _opaque(self, v: Value, source: Value) -> Iterator[Band]:
        """Iterate over bands without closed form: each element depends on all columns of the argument, or of a slice of it."""
        for _, a, bands in self._active(source):
            axes = _coupled(source, a, v)
            for band in bands:
                try:
                    yield self._checked([self._spread(replace(band, value=None), axes, a.shape, v.shape)])[0]
                except NotBoxed:
                    yield self._checked([opaque(v.shape, distinct(band.cols))])[0]

    def _spread(self, band: Band, axes: Sequence[int], given: tuple[int, ...], result: tuple[int, ...]) -> Band:
        """Return the band of a tensor whose elements depend on all elements along some axes."""
        if len(axes) == len(given):
            return opaque(result, distinct(band.cols))
        kept = tuple(1 if d in axes else n for d, n in enumerate(given))
        return moves.expanded(moves.summed(band, axes, given, kept), kept, result)


def _coupled(source: Value, a: Value, v: Value) -> Sequence[int]:
    """Return the dimensions of an argument of which all elements may matter to one element of the result v; the others are in both."""
    every = range(a.ndim)
    axes: Sequence[int] = every
    if source.op in _ALONG_AXIS:
        axes = (source.attrs["axis"] % max(a.ndim, 1),)
    elif source.op in _WINDOWS:
        axes = range(2, a.ndim)
    elif source.op in _MATRICES:
        axes = range(a.ndim - 2, a.ndim)
    same = a.ndim == v.ndim and all(a.shape[d] == v.shape[d] for d in every if d not in axes)
    return axes if same else every


def _each(band: Band | None) -> Iterator[Band]:
    if band is not None and band.count:
        yield band


def _output(v: Value) -> int:
    return v.attrs["index"] if v.op == OUTPUT else 0


def _slope(v: Value, source: Value, i: int) -> Value | None:
    """Return the cotangent that the rule of argument i computes from ones: the derivative of an elementwise row, or of a reduction."""
    row: Row = variant(row_of(source), (a for a in source.args if a is not None))
    rule = row.rule(i)
    if rule is None:
        return None
    g: Any = filled(xp, 1, Meta(v.shape, v.dtype))
    out: Any = v
    if v is not source:
        out = outputs_of(source)
        g = tuple(g if k == _output(v) else None for k in range(len(out)))
    weak = row.elementwise and row.policy not in ("each", "same")
    args = [a.value if weak and a is not None and a.op == LITERAL else a for a in source.args]
    if row.prepare is not None:
        g = row.prepare(xp, g, out, *args, **source.attrs)
    attrs = {"index": i, **source.attrs} if row.variadic else source.attrs
    result = rule(xp, g, out, *args, **attrs)
    return result if result is None or isinstance(result, Value) else filled(xp, result, Meta((), v.dtype))


_REDUCTIONS = frozenset(
    ("sum", "mean", "nansum", "prod", "amax", "amin", "logsumexp", "max_along", "min_along", "median_along", "nanmedian_along", "var",
     "std", "vector_norm", "kthvalue", "mode")
)  # fmt: skip
"""Rows of which an element of the argument reaches one element of the result: output 0 has the derivative."""
_ALONG_AXIS = frozenset(("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "recurrence", "sort", "topk", "prod_rest"))
"""Rows without a closed form that treat all slices along `axis` alike."""
_WINDOWS = frozenset(("max_pool", "avg_pool", "avg_unpool", "adaptive_avg_pool", "adaptive_avg_unpool"))
"""Rows of windows of the dimensions behind the first two."""
_MATRICES = frozenset(("inv", "cholesky", "pinv"))
"""Rows of matrices, in the last two dimensions."""
_SEVERAL = frozenset(("split", "split_with_sizes", "unbind"))
_Steps = Callable[[Value, int, Value, Value], list[moves.Move]]
_MOVES: dict[str, _Steps] = {}
"""The moves of a band of argument i, each of which gives a band of the result; `(source, i, argument, result)`."""


def _move(*names: str) -> Callable[[_Steps], _Steps]:
    def enter(function: _Steps) -> _Steps:
        _MOVES.update(dict.fromkeys(names, function))
        return function

    return enter


def _slicing(index: Iterable[Any], a: Value, result: tuple[int, ...]) -> moves.Move:
    return lambda band: moves.sliced(band, tuple(index), a.shape, result)


def _placing(index: Iterable[Any], a: Value, v: Value) -> moves.Move:
    return lambda band: moves.placed(band, tuple(index), a.shape, v.shape)


def _along(axis: int, item: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    return (*((0, n, 1) for n in shape[:axis]), item)


@_move("reshape", "squeeze", "unsqueeze", "clone", "assume")
def _unchanged(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [lambda band: band]


@_move("getitem")
def _getitem(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [_slicing(source.attrs["index"], a, v.shape)]


@_move("embed")
def _embed(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [_placing(source.attrs["index"], a, v)]


@_move("assemble")
def _assemble(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [_placing(source.attrs["places"][i], a, v)]


@_move("pad", "crop")
def _pad(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    widths = source.attrs["widths"]
    if source.op == "pad":
        return [_placing([(before, before + n, 1) for (before, _), n in zip(widths, a.shape, strict=True)], a, v)]
    return [_slicing([(before, before + n, 1) for (before, _), n in zip(widths, v.shape, strict=True)], a, v.shape)]


@_move("cat")
def _cat(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    if a.ndim != v.ndim:
        return []  # PyTorch concatenates an empty vector with anything
    axis = source.attrs["axis"] % v.ndim
    start = sum(t.shape[axis] for t in source.args[:i] if t.ndim == v.ndim)
    return [_placing(_along(axis, (start, start + a.shape[axis], 1), v.shape), a, v)]


@_move("stack")
def _stack(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [_placing(_along(source.attrs["axis"] % v.ndim, i, v.shape), a, v)]


@_move("split", "split_with_sizes")
def _split(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    axis, sizes, k = source.attrs["axis"] % a.ndim, source.attrs["sizes"], _output(v)
    start = sum(sizes[:k])
    return [_slicing(_along(axis, (start, start + sizes[k], 1), a.shape), a, v.shape)]


@_move("unbind")
def _unbind(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [_slicing(_along(source.attrs["axis"] % a.ndim, _output(v), a.shape), a, v.shape)]


@_move("flip")
def _flip(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [lambda band: moves.flipped(band, source.attrs["axes"], a.shape)]


@_move("transpose", "permute", "t")
def _permute(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    axes = list(range(a.ndim))
    if source.op == "permute":
        axes = [d % a.ndim for d in source.attrs["axes"]]
    elif source.op == "t":
        axes.reverse()
    elif a.ndim:
        first, second = source.attrs["dim0"], source.attrs["dim1"]
        axes[first], axes[second] = axes[second], axes[first]
    return [lambda band: moves.permuted(band, axes, a.shape, v.shape)]


@_move("expand")
def _expand(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    return [lambda band: moves.expanded(band, a.shape, v.shape)]


@_move("roll")
def _roll(source: Value, i: int, a: Value, v: Value) -> list[moves.Move]:
    shifts, axes = source.attrs["shifts"], source.attrs["axes"]
    if not axes or a.ndim == 0:
        return [_turned((a.size,), 0, s, part) for s in shifts[:1] for part in (0, 1)]
    if len(axes) > 1:
        return [_refused]
    return [_turned(a.shape, axes[0] % a.ndim, shifts[0], part) for part in (0, 1)]


def _refused(band: Band) -> Band | None:
    raise NotBoxed


def _turned(shape: tuple[int, ...], axis: int, shift: int, part: int) -> moves.Move:
    """Return the move of one part of a roll: what is shifted forward, or what comes around."""
    n = shape[axis]
    k = shift % n
    origin, target = ((0, n - k, 1), (k, n, 1)) if part == 0 else ((n - k, n, 1), (0, k, 1))

    def move(band: Band) -> Band | None:
        cut = (*shape[:axis], len(range(*origin)), *shape[axis + 1 :])
        found = moves.sliced(band, _along(axis, origin, shape), shape, cut)
        return None if found is None else moves.placed(found, _along(axis, target, shape), cut, shape)

    return move
