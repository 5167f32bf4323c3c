"""The namespace `ix` of element functions: sums and folds over indices, deltas and brackets, and index arithmetic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.ir.elements.grouping import groups
from symgrad.compiler.ir.elements.registry import ELEMENTS
from symgrad.compiler.symbolic import to_sympy
from symgrad.compiler.symbolic.notations import index_algebra
from symgrad.ops.spec import Meta
from symgrad.ops.table import TABLE

Shape = tuple[int, ...]


class Indexing:
    """The argument `ix` of an element function: it knows the shape of the result, and how deep sums are nested inside the operands."""

    i, infinity = sp.I, sp.oo
    exp, sqrt, re, im, min, max = (staticmethod(f) for f in (sp.exp, sp.sqrt, sp.re, sp.im, sp.Min, sp.Max))
    delta = staticmethod(sp.KroneckerDelta)
    number, unless_nan, quotient = (staticmethod(f) for f in (to_sympy.number, to_sympy.unless_nan, to_sympy.quotient))
    divided = staticmethod(index_algebra.divided)
    broadcast = staticmethod(np.broadcast_shapes)

    def __init__(self, shape: Shape, depth: int = 0) -> None:
        self.shape = shape
        self.depth = depth

    def bound(self, sizes: Sequence[int]) -> list[Any]:
        first = self.depth + 1
        self.depth += len(sizes)
        return [index_algebra.bound(first + p, n) for p, n in enumerate(sizes)]

    # sums and folds

    def sum(self, body: Callable[..., Any], *sizes: int) -> Any:
        """Return Σ of `body(k, l, ...)` over one index per size."""
        bound = self.bound(sizes)
        return functools.reduce(index_algebra.total, bound, sp.sympify(body(*bound), strict=True))

    def partial_sum(self, body: Callable[..., Any], n: int, *, first: Any, last: Any) -> Any:
        """Return Σ of `body(k)` from `first` to `last`, which lie between 0 and n - 1."""
        (k,) = self.bound([n])
        return index_algebra.Sigma(body(k), (k, first, last))

    def fold(self, name: str, body: Callable[..., Any], *sizes: int, first: Any = 0, last: Any = None) -> Any:
        """Return max, min, prod, logsumexp, all or any of `body(k, l, ...)`."""
        bound = self.bound(sizes)
        result = sp.sympify(body(*bound), strict=True)
        if name in ("all", "any"):
            result = self.nonzero(result)
        for k in bound:
            result = index_algebra.Fold(sp.Symbol(name), result, (k, first, index_algebra.size(k) - 1 if last is None else last))
        return sp.Ne(result, 0) if name in ("all", "any") else result

    def last(self, hit: Callable[..., Any], value: Callable[..., Any], default: Any, *sizes: int) -> Any:
        """Return `value(k)` for the last k whose `hit(k)` is 1, or the default."""
        bound = self.bound(sizes)
        chosen, bracket = (sp.sympify(f(*bound), strict=True) for f in (value, hit))
        return index_algebra.Last(chosen, bracket, default, *((k, 0, index_algebra.size(k) - 1) for k in bound))

    # brackets: 1 or 0

    def within(self, e: Any, low: int, high: int) -> Any:
        return index_algebra.Within(sp.sympify(e, strict=True), sp.Integer(low), sp.Integer(high))

    def between(self, e: Any, low: Any, high: Any) -> Any:
        """Return [low ≤ e < high], where the bounds are expressions."""
        return to_sympy.indicator(sp.And(sp.Ge(e, low), sp.Lt(e, high)))

    def inside(self, place: Sequence[Any], shape: Sequence[int]) -> Any:
        return self.all([self.within(i, 0, n) for i, n in zip(place, shape, strict=True)])

    def all(self, brackets: Sequence[Any]) -> Any:
        return sp.Mul(*brackets)

    def where(self, bracket: Any, x: Any, y: Any) -> Any:
        """Return x where the bracket is 1, else y."""
        if bracket in (0, 1):
            return x if bracket == 1 else y
        return bracket * x if y == 0 else sp.Piecewise((x, sp.Ne(bracket, 0)), (y, True))

    def counted(self, e: Any) -> Any:
        """Return a boolean as 0 or 1, and any other expression unchanged."""
        return e if isinstance(e, sp.Expr) else to_sympy.indicator(e)

    def nonzero(self, e: Any) -> Any:
        return to_sympy.indicator(to_sympy.holds(e))

    def differs(self, e: Any, number: int) -> Any:
        return to_sympy.indicator(sp.Ne(e, number))

    # index arithmetic

    def wrapped(self, place: Any, n: int) -> Any:
        """Return an index that may count from the end as a non-negative one."""
        return index_algebra.FromEnd(sp.sympify(place, strict=True), sp.Integer(n))

    def flat(self, at: Sequence[Any], shape: Shape) -> Any:
        return sum((i * prod(shape[d + 1 :]) for d, i in enumerate(at)), start=sp.Integer(0))

    def unflat(self, flat: Any, shape: Shape) -> list[Any]:
        place: list[Any] = []
        for n in reversed(shape[1:]):
            flat, i = index_algebra.divided(flat, n)
            place.insert(0, i)
        return [flat, *place] if shape else []

    def regrouped(self, at: Sequence[Any], given: Shape, wanted: Shape) -> list[Any]:
        """Return the position in shape `wanted` of the element at position `at` in shape `given`; unchanged dimensions keep their
        indices."""
        place: list[Any] = []
        for before, after in groups(given, wanted):
            inner, sizes = [at[d] for d in before], tuple(given[d] for d in before)
            place += self.unflat(self.flat(inner, sizes), tuple(wanted[d] for d in after))
        return place

    def path(self, base: Shape, path: Any) -> Path:
        """Return the map from the indices of a view to those of its base."""
        return Path(base, path)


@dataclass
class _Place:
    """An operand that returns the indices it is called with."""

    shape: Shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __call__(self, *at: Any) -> Any:
        return at


class Path:
    """The map from the indices of a view to those of its base."""

    def __init__(self, base: Shape, path: Any) -> None:
        self.steps = []
        for name, attrs in path:
            meta = TABLE[name].type(Meta(base, np.dtype(np.float64)), **dict(attrs))
            self.steps.append((name, dict(attrs), base, meta.shape))
            base = meta.shape
        self.shape = base

    def __call__(self, at: Sequence[Any]) -> tuple[Any, ...]:
        place = tuple(at)
        for name, attrs, base, shape in reversed(self.steps):
            place = ELEMENTS[name, None](Indexing(shape), place, _Place(base), **attrs)
        return tuple(place)
