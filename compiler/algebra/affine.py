"""Labels and affine index expressions: `2*i + j - 1`, where the labels i and j have sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from symgrad.compiler.ir.graph import Value

_serials = itertools.count()


class NotAffine(Exception):  # a refusal that the pass catches, never an error that users see
    """An expression has no index normal form, or one that ordinary rows cannot express: the values stay as they are."""


class TooLarge(NotAffine):
    """A normal form with more terms or factors than are worth handling."""


class Label:
    """An index that runs from 0 to size - 1."""

    __slots__ = ("__weakref__", "serial", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.serial = next(_serials)

    def __repr__(self) -> str:
        return f"i{self.serial}"


class Lookup(Label):
    """An element of an index tensor as an index: `indices[at]`, counted from the end if it is negative. Make it with `lookup`."""

    __slots__ = ("at", "value")

    def __init__(self, value: Value, at: tuple[Affine, ...], size: int) -> None:
        super().__init__(size)
        self.value, self.at = value, at

    def __repr__(self) -> str:
        return f"{self.value.op}[{', '.join(map(str, self.at))}]"


_lookups: WeakValueDictionary[tuple[int, tuple[Affine, ...], int], Lookup] = WeakValueDictionary()


def lookup(value: Value, at: tuple[Affine, ...], size: int) -> Affine:
    """Return the element of an index tensor as an index into a dimension of this size; equal ones are one label."""
    key = id(value), at, size  # the label keeps the value alive
    found = _lookups.get(key)
    if found is None:
        found = _lookups[key] = Lookup(value, at, size)
    return Affine.label(found)


class SplitRequired(NotAffine):
    """A reshape needs a label as `inner * i + j`: expand again with that label split."""

    def __init__(self, label: Label, inner: int) -> None:
        super().__init__(f"{label} has to be split")
        self.label, self.inner = label, inner


class Affine:
    """An affine expression of labels: `coefficients` are pairs of a label and a nonzero integer, ordered by label."""

    __slots__ = ("coefficients", "constant")

    def __init__(self, coefficients: tuple[tuple[Label, int], ...] = (), constant: int = 0) -> None:
        self.coefficients, self.constant = coefficients, constant

    @staticmethod
    def of(x: Affine | int) -> Affine:
        return x if isinstance(x, Affine) else Affine((), int(x))

    @staticmethod
    def label(x: Label) -> Affine:
        return Affine(((x, 1),))

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(label for label, _ in self.coefficients)

    @property
    def only_label(self) -> Label | None:
        """The label i if the expression is just i, else None; a lookup is none, since it depends on the labels inside of it."""
        if self.constant == 0 and len(self.coefficients) == 1 and self.coefficients[0][1] == 1:
            label = self.coefficients[0][0]
            return None if isinstance(label, Lookup) else label
        return None

    @property
    def reached(self) -> Iterator[Label]:
        """All labels that the value depends on, also those inside of lookups."""
        for label, _ in self.coefficients:
            if isinstance(label, Lookup):
                for i in label.at:
                    yield from i.reached
            else:
                yield label

    def interval(self, box: Mapping[Label, tuple[int, int]] | None = None) -> tuple[int, int]:
        """Return the least and the greatest value; `box` restricts labels to (first, last)."""
        low = high = self.constant
        for label, k in self.coefficients:
            first, last = (0, label.size - 1) if box is None else box.get(label, (0, label.size - 1))
            low += min(k * first, k * last)
            high += max(k * first, k * last)
        return low, high

    def substitute(self, given: Mapping[Label, Affine]) -> Affine:
        if not any(label in given for label in self.reached):
            return self
        result = Affine((), self.constant)
        for label, k in self.coefficients:
            if isinstance(label, Lookup):
                result = result + lookup(label.value, tuple(i.substitute(given) for i in label.at), label.size) * k
            else:
                result = result + (given[label] * k if label in given else Affine(((label, k),)))
        return result

    def divided(self, n: int) -> tuple[Affine, Affine]:
        """Return quotient and remainder by n; raise SplitRequired or NotAffine if they are not affine."""
        if n == 1:
            return self, Affine()
        whole = tuple((label, k // n) for label, k in self.coefficients if k % n == 0)
        rest = tuple((label, k) for label, k in self.coefficients if k % n)
        remainder = Affine(rest, self.constant % n)
        low, high = remainder.interval()
        if low >= 0 and high < n:
            return Affine(whole, self.constant // n), remainder
        for label, k in rest:
            if k == 1 and label.size > n and label.size % n == 0:
                raise SplitRequired(label, n)
        raise NotAffine(f"{self} divided by {n}")

    def __add__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        if not other.coefficients:
            return Affine(self.coefficients, self.constant + other.constant)
        total = dict(self.coefficients)
        for label, k in other.coefficients:
            total[label] = total.get(label, 0) + k
        return Affine(_ordered(total.items()), self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, n: int) -> Affine:
        if not isinstance(n, int):
            raise NotAffine("a product of indices")
        return Affine(tuple((label, k * n) for label, k in self.coefficients) if n else (), self.constant * n)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + Affine.of(other) * -1

    def __rsub__(self, other: Affine | int) -> Affine:
        return Affine.of(other) - self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.coefficients == other.coefficients and self.constant == other.constant

    def __hash__(self) -> int:
        return hash((self.coefficients, self.constant))

    def __repr__(self) -> str:
        texts = [f"{label}" if k == 1 else f"{k}*{label}" for label, k in self.coefficients]
        return " + ".join(texts + ([str(self.constant)] if self.constant or not texts else []))


def _ordered(pairs: Iterable[tuple[Label, int]]) -> tuple[tuple[Label, int], ...]:
    return tuple(sorted(((label, k) for label, k in pairs if k), key=lambda pair: pair[0].serial))
