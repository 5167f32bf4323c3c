"""Evaluate index notation with NumPy: every index has its own axis, so that an expression is a sequence of array operations.

All arrays have the same number of dimensions, with size 1 along the indices that they do not depend on. A sum of products is an einsum.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.symbolic.evaluate import Evaluator
from symgrad.compiler.symbolic.notations import index_algebra
from symgrad.typing import Array

_FREE = 20
"""Number of axes for the indices of tensors, the last eight of them for directions; those of sums follow. NumPy allows 64."""
_START = {"i": 0, "h": _FREE - 8, "j": _FREE - 1}


def _axis(index: Any) -> int:
    return _START[index.name[0]] + int(index.name[1:].partition("_")[0])


class IndexEvaluator(Evaluator):
    """Tensors are stored under their names, all other values as arrays over all indices."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth, self.ndim = depth, _FREE + depth

    def fresh(self) -> IndexEvaluator:
        return IndexEvaluator(self.depth)

    def give(self, name: Any, value: Any) -> None:
        if isinstance(name, sp.Indexed):
            self.known[name.base] = self.whole(value, name.indices)
        else:
            self.known[name] = value if isinstance(name, sp.IndexedBase) else np.reshape(value, ())

    def output(self, expression: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        at = tuple(index_algebra.free(p, n) for p, n in enumerate(shape))
        return self.whole(self.value(expression), at).astype(dtype)

    def whole(self, value: Any, at: tuple[Any, ...]) -> Array:
        """Return a tensor with these indices, from an array over all indices."""
        result, shape = np.asarray(value), tuple(map(index_algebra.size, at))
        if result.ndim:
            result = result.reshape([result.shape[_axis(i)] for i in at])
        return np.broadcast_to(result, shape)

    def index(self, e: Any) -> Array:
        shape = [1] * self.ndim
        shape[_axis(e)] = index_algebra.size(e)
        return np.arange(index_algebra.size(e)).reshape(shape)

    def at(self, whole: Array, places: tuple[Any, ...]) -> Array:
        """Return the elements of a tensor; positions outside are clipped, since a bracket multiplies them by zero."""
        plain = len(set(places)) == len(places) and all(map(index_algebra.is_index, places))
        if plain and tuple(map(index_algebra.size, places)) == whole.shape:
            order = sorted(range(len(places)), key=lambda d: _axis(places[d]))
            shape = [1] * self.ndim
            for d in order:
                shape[_axis(places[d])] = whole.shape[d]
            return whole.transpose(order).reshape(shape)
        found = (np.asarray(self.value(p)).astype(np.int64) for p in places)
        return whole[tuple(np.clip(i, -n, n - 1) for i, n in zip(found, whole.shape, strict=True))]

    def product(self, e: Any) -> Any:
        """Return a product that is 0 where a bracket is 0, even if a factor is infinite or NaN there."""
        others, brackets = _parted(e)
        value = functools.reduce(operator.mul, map(self.value, others), 1)
        hit = functools.reduce(operator.mul, map(self.value, brackets), 1)
        return value * hit if not brackets or np.all(np.isfinite(value)) else np.where(hit != 0, value, 0)

    def sigma(self, e: Any) -> Array:
        others, brackets = _parted(e.function)
        plain = not brackets or all(np.all(np.isfinite(self.value(f))) for f in others)
        factors = [np.asarray(self.value(f)) for f in (*others, *brackets)] if plain else [np.asarray(self.product(e.function))]
        factors += [self.mask(limit) for limit in e.limits if not _is_whole(limit)]
        axes = [_axis(limit[0]) for limit in e.limits]
        return _summed([f.astype(float) if f.dtype.kind in "bi" else f for f in factors], axes, self.ndim)

    def mask(self, limit: Any) -> Any:
        k, first, last = limit
        return (self.value(k) >= self.value(first)) & (self.value(k) <= self.value(last))

    def fold(self, e: Any) -> Array:
        name, body, limit = e.args
        axis = _axis(limit[0])
        values = np.asarray(self.value(body))
        shape = [1] * self.ndim
        shape[axis] = index_algebra.size(limit[0])
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, shape))
        reduce, start = _FOLDS[name.name]
        if not _is_whole(limit):
            values = np.where(self.mask(limit), values, start)
        return reduce(values, axis)

    def last(self, e: Any) -> Array:
        value, hit, default, *limits = e.args
        axes = tuple(_axis(limit[0]) for limit in limits)
        shape = [1] * self.ndim
        for limit in limits:
            shape[_axis(limit[0])] = index_algebra.size(limit[0])
        hits, values, base = np.broadcast_arrays(*(np.asarray(self.value(a)) for a in (hit, value, default)), np.empty(shape))[:3]
        back = [np.moveaxis(a, axes, range(-len(axes), 0)).reshape(*np.delete(a.shape, axes), -1)[..., ::-1] for a in (hits != 0, values)]
        chosen = np.take_along_axis(back[1], back[0].argmax(-1)[..., None], -1)[..., 0]
        first = tuple(0 if d in axes else slice(None) for d in range(self.ndim))
        chosen = np.where(back[0].any(-1), chosen, base[first])
        return np.expand_dims(chosen, axes)

    def within(self, e: Any) -> Any:
        place, low, high = (self.value(a) for a in e.args)
        return ((place >= low) & (place < high)).astype(np.int64)

    def _compute(self, e: Any) -> Any:
        if index_algebra.is_index(e):
            return self.index(e)
        if e.func in _INDEXED:
            return _INDEXED[e.func](self, e)
        return super()._compute(e)


def _parted(e: Any) -> tuple[list[Any], list[Any]]:
    """Split the factors of a product into brackets and others; return others, brackets."""
    factors = sp.Mul.make_args(e)
    brackets = [f for f in factors if isinstance(f, (sp.KroneckerDelta, index_algebra.Within))]
    return [f for f in factors if f not in brackets], brackets


def _is_whole(limit: Any) -> bool:
    k, first, last = limit
    return bool(first == 0 and last == index_algebra.size(k) - 1)


def _summed(factors: list[Array], axes: list[int], ndim: int) -> Array:
    """Return the product of the factors, summed over the axes, which are kept with size 1."""
    factors = [np.reshape(f, (1,) * ndim) if f.ndim == 0 else f for f in factors]
    kept = sorted({d for f in factors for d, n in enumerate(f.shape) if n != 1} - set(axes))
    operands: list[Any] = []
    for f in factors:
        own = [d for d, n in enumerate(f.shape) if n != 1]
        operands += [f.reshape([f.shape[d] for d in own]), own]
    total: Array = np.einsum(*operands, kept, optimize="greedy")
    shape = [1] * ndim
    for d, n in zip(kept, total.shape, strict=True):
        shape[d] = n
    return total.reshape(shape)


def _logsumexp(x: Array, axis: int) -> Any:
    top = np.max(x, axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - top), axis, keepdims=True)) + top


_FOLDS: dict[str, tuple[Callable[..., Array], float]] = {
    "max": (lambda x, axis: np.max(x, axis, keepdims=True), -np.inf),
    "min": (lambda x, axis: np.min(x, axis, keepdims=True), np.inf),
    "prod": (lambda x, axis: np.prod(x, axis, keepdims=True), 1),
    "logsumexp": (_logsumexp, -np.inf),
    "all": (lambda x, axis: np.all(x, axis, keepdims=True), 1),
    "any": (lambda x, axis: np.any(x, axis, keepdims=True), 0),
}
_INDEXED: dict[Any, Callable[[IndexEvaluator, Any], Any]] = {
    sp.Mul: IndexEvaluator.product,
    index_algebra.Sigma: IndexEvaluator.sigma,
    index_algebra.Fold: IndexEvaluator.fold,
    index_algebra.Last: IndexEvaluator.last,
    index_algebra.Within: IndexEvaluator.within,
    index_algebra.FromEnd: lambda run, e: np.mod(run.value(e.args[0]), run.value(e.args[1])),
    index_algebra.Quotient: lambda run, e: np.floor_divide(run.value(e.args[0]), run.value(e.args[1])),
    index_algebra.Element: lambda run, e: run.at(run.value(e.args[0]), e.args[1:]),
    sp.Indexed: lambda run, e: run.at(run.known[e.base], e.indices),
}
