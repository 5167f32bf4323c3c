"""The namespace `ix` of element functions on the index normal form: see `symgrad.compiler.ir.elements`.

What has no index normal form (exponentials, extremes) raises NotAffine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from symgrad.compiler.algebra.affine import Affine, Label, NotAffine, SplitRequired, lookup
from symgrad.compiler.algebra.term import Expression, Term
from symgrad.compiler.ir.elements.grouping import groups
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import broadcast_shapes

MAX_SPLITS = 8


@dataclass
class Labels:
    """Makes the labels of one expansion, in an order that depends on the expression alone; `splits` says which of them are split."""

    splits: dict[int, int] = field(default_factory=dict)
    """The size of the inner part, by the number of the label."""
    made: list[Label] = field(default_factory=list)

    def new(self, size: int) -> Affine:
        """Return an index of this size: a label, `inner * i + j` if it is split, or 0 if there is only one."""
        if size == 1:
            return Affine()
        number = len(self.made)
        label = Label(size)
        self.made.append(label)
        inner = self.splits.get(number)
        if inner is None:
            return Affine.label(label)
        return self.new(size // inner) * inner + self.new(inner)

    def split(self, required: SplitRequired) -> Labels:
        """Return the labels for another attempt, with one more label split; raise NotAffine after too many."""
        number = next((n for n, label in enumerate(self.made) if label is required.label), None)
        if number is None or len(self.splits) >= MAX_SPLITS:
            raise NotAffine("too many splits")
        made_before = {n: inner for n, inner in self.splits.items() if n < number}
        return Labels(made_before | {number: required.inner})


def index_of(x: Any, size: int) -> Affine:
    """Return an index into a dimension of this size: an affine expression, a number, or an element of an index tensor."""
    if not isinstance(x, Expression):
        return Affine.of(x)
    if len(x.terms) == 1:
        (term,) = x.terms
        if len(term.factors) == 1 and term.coefficient == 1 and not term.deltas and not term.brackets and not term.bound:
            ((value, at),) = term.factors
            if kind(value.dtype) == "i":
                return lookup(value, at, size)
    raise NotAffine("a computed index")


class IndexNamespace:
    """The argument `ix` of an element function; `shape` is the shape of the result."""

    def __init__(self, shape: tuple[int, ...], labels: Labels) -> None:
        self.shape, self.labels = shape, labels

    def __getattr__(self, name: str) -> Any:
        raise NotAffine(name)

    def number(self, x: Any) -> Any:
        return x

    def counted(self, e: Any) -> Any:
        return e

    def sum(self, body: Callable[..., Any], *sizes: int) -> Expression:
        """Return Σ of `body(k, l, ...)` over one index per size."""
        indices = [self.labels.new(n) for n in sizes]
        bound = frozenset(label for i in indices for label in i.labels)
        return Expression(replace(t, bound=t.bound | bound) for t in Expression.of(body(*indices)).terms)

    def delta(self, a: Any, b: Any) -> Expression:
        size = 1 + max(i.interval()[1] for i in (a, b) if isinstance(i, Affine)) if isinstance(a, Affine) or isinstance(b, Affine) else 1
        return Expression([Term(deltas=(index_of(a, size) - index_of(b, size),))])

    def wrapped(self, place: Any, n: int) -> Affine:
        return index_of(place, n)

    def broadcast(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        return broadcast_shapes("index", *shapes)

    def where(self, bracket: Any, x: Any, y: Any) -> Expression:
        """Return x where a product of brackets and deltas is 1, y elsewhere: outside of the first, or inside of it and outside of the next,
        and so on."""
        condition = Expression.of(bracket)
        (term,) = condition.terms
        result = condition * Expression.of(x)
        if isinstance(y, (int, float)) and y == 0:
            return result
        before = Expression([Term()])
        otherwise = Expression.of(y)
        for e, low, high in (*term.brackets, *((d, 0, 1) for d in term.deltas)):
            least, greatest = e.interval()
            outside = [Term(brackets=((e, a, b),)) for a, b in ((least, low), (high, greatest + 1)) if a < b]
            result = result + Expression(outside) * before * otherwise
            before = self.within(e, low, high) * before
        return result

    def within(self, e: Any, low: int, high: int) -> Expression:
        return Expression([Term(brackets=((Affine.of(e), low, high),))])

    def inside(self, place: Sequence[Any], shape: Sequence[int]) -> Expression:
        return self.all([self.within(i, 0, n) for i, n in zip(place, shape, strict=True)])

    def all(self, brackets: Sequence[Any]) -> Expression:
        result = Expression([Term()])
        for bracket in brackets:
            result = result * bracket
        return result

    def divided(self, e: Any, n: int) -> tuple[Affine, Affine]:
        return Affine.of(e).divided(n)

    def flat(self, at: Sequence[Any], shape: Sequence[int]) -> Affine:
        return sum((Affine.of(i) * prod(shape[d + 1 :]) for d, i in enumerate(at)), start=Affine())

    def unflat(self, flat: Affine, shape: Sequence[int]) -> list[Affine]:
        place: list[Affine] = []
        for n in reversed(shape[1:]):
            flat, i = flat.divided(n)
            place.insert(0, i)
        return [flat, *place] if shape else []

    def regrouped(self, at: Sequence[Any], given: Sequence[int], wanted: Sequence[int]) -> list[Affine]:
        """Return the position in shape `wanted` of the element at position `at` in shape `given`."""
        place: list[Affine] = []
        for before, after in groups(given, wanted):
            flat = self.flat([at[d] for d in before], [given[d] for d in before])
            place += self.unflat(flat, [wanted[d] for d in after])
        return place
