"""Factors of terms at any affine place as operands: reversed ones are flipped, x[i + j] is unfolded, x[idx[k]] gathered."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.compiler.algebra.affine import Affine, Label, Lookup, NotAffine
from symgrad.compiler.algebra.emit import Operand, operand
from symgrad.compiler.algebra.term import Factor
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Value

_NONE: Mapping[Label, tuple[int, int]] = {}


def operand_of(factor: Factor) -> Operand:
    """Return a factor with plain labels; raise NotAffine if rows cannot express it."""
    value, at = factor
    d = 0
    places = list(at)
    while d < len(places):
        value, places = _changed(value, places, d)
        d += 1
    return operand((value, tuple(places)), _NONE)


def _changed(value: Value, places: list[Affine], d: int) -> tuple[Value, list[Affine]]:
    """Return an equal factor whose place in dimension d is one that `operand` takes."""
    i, n = places[d], value.shape[d]
    if any(isinstance(label, Lookup) for label in i.labels):
        return _gathered(value, places, d)
    if len(i.coefficients) == 1 and i.coefficients[0][1] < 0:
        return xp.flip(value, axes=(d,)), [*places[:d], Affine((), n - 1) - i, *places[d + 1 :]]
    if len(i.coefficients) == 2 and not _fills(i, n):
        return _unfolded(value, places, d)
    return value, places


def _fills(i: Affine, n: int) -> bool:
    (a, s), (b, t) = sorted(i.coefficients, key=lambda part: part[1])
    return i.constant == 0 and s == 1 and t == a.size and b.size * t == n


def _unfolded(value: Value, places: list[Affine], d: int) -> tuple[Value, list[Affine]]:
    """x[c + step i + j] as windows: one dimension for i, and a last one for j."""
    i = places[d]
    inner = min((x for x, k in i.coefficients if k == 1), key=lambda x: x.size, default=None)
    if inner is None:
        raise NotAffine("windows with steps inside")
    ((outer, step),) = ((x, k) for x, k in i.coefficients if x is not inner)
    low, high = i.interval()
    if step < 1 or low < 0 or high >= value.shape[d]:
        raise NotAffine("windows that leave the tensor")
    index = tuple((low, high + 1, 1) if n == d else (0, size, 1) for n, size in enumerate(value.shape))
    cut = xp.getitem(value, index=index)
    windows = xp.unfold(cut, axis=d, size=inner.size, step=step)
    return windows, [*places[:d], Affine.label(outer), *places[d + 1 :], Affine.label(inner)]


def _gathered(value: Value, places: list[Affine], d: int) -> tuple[Value, list[Affine]]:
    """x[idx[k]] as a gather along one dimension."""
    i = places[d]
    ((label, k),) = i.coefficients if len(i.coefficients) == 1 else ((None, 0),)
    if not isinstance(label, Lookup) or k != 1 or i.constant:
        raise NotAffine("an index computed from a lookup")
    indices = operand_of((label.value, label.at))
    taken = xp.index(value, indices.value, dims=(d,))
    return taken, [*places[:d], *map(Affine.label, indices.labels), *places[d + 1 :]]
