"""The symbols and functions of index notation: indices that know their range, sums that eliminate deltas, brackets for conditions.

An index is an integer symbol whose name ends in the number of its values: `i0_5` is the first index of a tensor, from 0 to 4, and `j2_7`
is bound by a sum that has at most one level of sums inside. Names depend on structure alone, so that equal sums are equal expressions.
"""

from __future__ import annotations

from math import prod
from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE

from symgrad.compiler.symbolic.limits import MAX_TERMS
from symgrad.compiler.symbolic.notations.binder import Binder

_INDICES: dict[str, Any] = {}


def _index(name: str) -> Any:
    if name not in _INDICES:
        _INDICES[name] = sp.Symbol(name, integer=True, nonnegative=True)
    return _INDICES[name]


def free(position: int, size: int) -> Any:
    """Return the index of a tensor's dimension."""
    return _index(f"i{position}_{size}")


def bound(depth: int, size: int) -> Any:
    """Return the index of a sum with `depth - 1` levels of sums inside."""
    return _index(f"j{depth}_{size}")


def place(position: int, size: int) -> Any:
    """Return the index of the position where a direction is 1: an index of a derivative besides those of its last input."""
    return _index(f"h{position}_{size}")


def is_place(e: Any) -> bool:
    return is_index(e) and e.name[0] == "h"


def is_index(e: Any) -> bool:
    return isinstance(e, sp.Symbol) and _INDICES.get(e.name) == e


def size(index: Any) -> int:
    """Return the number of values of an index: 0 to size - 1."""
    return int(index.name.partition("_")[2])


def interval(e: Any) -> tuple[Any, Any] | None:
    """Return the smallest and the largest value of an index expression; None if it is not linear."""
    low = high = sp.Integer(0)
    for term in sp.Add.make_args(e):
        scale, rest = term.as_coeff_Mul()
        if rest == 1:
            low, high = low + scale, high + scale
        elif scale.is_Integer and (is_index(rest) or isinstance(rest, FromEnd)):
            ends = (sp.Integer(0), scale * ((size(rest) if is_index(rest) else rest.args[1]) - 1))
            low, high = low + min(ends), high + max(ends)
        else:
            return None
    return low, high


def _lies(e: Any, low: Any, high: Any) -> bool | None:
    """Return True if low <= e < high always holds, False if it never does, and None if it depends on the indices."""
    ends = interval(e)
    if ends is None:
        return None
    if ends[0] >= low and ends[1] < high:
        return True
    return False if ends[1] < low or ends[0] >= high else None


def divided(e: Any, n: int) -> tuple[Any, Any]:
    """Return e // n and e % n for an index expression."""
    terms = [(t, t.as_coeff_Mul()[0]) for t in sp.Add.make_args(sp.sympify(e, strict=True))]
    whole = sp.Add(*(t / n for t, scale in terms if scale.is_Integer and scale % n == 0))
    rest = sp.Add(*(t for t, scale in terms if not (scale.is_Integer and scale % n == 0)))
    return (whole, rest) if _lies(rest, 0, n) else (whole + Quotient(rest, sp.Integer(n)), sp.Mod(rest, n))


class Sigma(Binder, sp.Sum):
    """A sum that stays as it is: SymPy's own Sum would move conditions out of it, which can take forever."""

    precedence = PRECEDENCE["Mul"]  # in a product it needs brackets, unless it comes last

    def __new__(cls, body: Any, *limits: Any) -> Any:
        sum_ = sp.Expr.__new__(cls, body, *(sp.Tuple(*limit) for limit in limits))
        sum_.is_commutative = True
        return sum_


def with_one_sum(e: Any) -> Any:
    """Return Σ_k (A[k, i] + A[i, k])*x[k] for two sums over the same indices that share factors; any other expression unchanged."""
    groups: dict[Any, list[Any]] = {}
    for term in e.args if isinstance(e, sp.Add) else ():
        scale, rest = term.as_coeff_Mul()
        if isinstance(rest, Sigma):
            groups.setdefault((scale, rest.limits), []).append(rest.function)
    for (scale, limits), bodies in groups.items():
        shared = set.intersection(*(set(sp.Mul.make_args(body)) for body in bodies))
        factor = sp.Mul(*(f for f in shared if not f.is_number))
        if len(bodies) > 1 and factor != 1 and all(body.count_ops() < _MAX_COLLECTED for body in bodies):
            merged = Sigma(factor * sp.Add(*(body / factor for body in bodies)), *limits)
            e = e - sp.Add(*(scale * Sigma(body, *limits) for body in bodies)) + scale * merged
    return e


_MAX_COLLECTED = 40
"""Largest number of operations of a sum's body whose factors are compared."""


class Fold(Binder, sp.Expr):
    """max, min, prod, logsumexp, all or any of a body over an index: name, body, (index, first, last)."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]

    def __new__(cls, name: Any, body: Any, limits: Any) -> Any:
        return super().__new__(cls, name, body, sp.Tuple(*limits))

    @property
    def free_symbols(self) -> Any:
        index, *ends = self.args[2].args
        return self.args[1].free_symbols - {index} | {s for e in ends for s in e.free_symbols}


class Within(sp.Function):
    """[low ≤ e < high]: 1 or 0."""

    is_real = True
    is_nonnegative = True

    @classmethod
    def eval(cls, e: Any, low: Any, high: Any) -> Any:
        found = _lies(e, low, high)
        return None if found is None else sp.Integer(found)


class Quotient(sp.Function):
    """Integer division e // n: SymPy's floor(e/n) would be computed with fractions, which round."""

    is_integer = True

    @classmethod
    def eval(cls, e: Any, n: Any) -> Any:
        if e.is_Integer:
            return e // n
        return sp.Integer(0) if _lies(e, 0, n) else None


class FromEnd(sp.Function):
    """An index that may count from the end, as a non-negative one: e mod n, for -n ≤ e < n."""

    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, e: Any, n: Any) -> Any:
        return e % n if e.is_Integer else e if _lies(e, 0, n) else None


class Element(sp.Expr):
    """One element of a tensor that is the result of an opaque row: sort(x)[i]."""

    is_commutative = True

    def _eval_is_real(self) -> Any:
        return self.args[0].is_real

    def __new__(cls, whole: Any, *at: Any) -> Any:
        return super().__new__(cls, whole, *at)


def only_selects(e: Any, k: Any) -> bool:
    """True if an expression uses the index k only to select elements of named tensors along dimensions of k's size."""
    if isinstance(e, sp.Indexed):
        return all(k not in i.free_symbols or (i == k and n == size(k)) for i, n in zip(e.indices, e.base.shape, strict=True))
    return e != k and all(only_selects(a, k) for a in e.args)


def total(body: Any, k: Any) -> Any:
    """Return the sum of `body` over all values of the index k."""
    if size(k) == 1:
        return body.xreplace({k: sp.Integer(0)})
    if k not in body.free_symbols:
        return size(k) * body
    sums = [f for f in sp.Mul.make_args(body) if isinstance(f, sp.Add) and any(k in d.free_symbols for d in f.atoms(sp.KroneckerDelta))]
    if sums and prod(len(f.args) for f in sums) <= MAX_TERMS:  # a sum with a delta in it is expanded
        return sp.Add(*(total(term * (body / sums[0]), k) for term in sums[0].args))
    outer, inner = _primitive(body).as_independent(k, as_Add=False)
    for factor in sp.Mul.make_args(inner):
        solved = _solved(factor, k)
        if solved is not None:
            rest = (inner / factor).xreplace({k: solved})
            return outer * rest * Within(solved, sp.Integer(0), sp.Integer(size(k)))
    return outer * _renamed(_merged(inner, k))


def _primitive(e: Any) -> Any:
    """Factor integers out of sums: (2 a + 2 b) c -> 2 (a + b) c."""
    scale, factors = sp.Integer(1), []
    for factor in sp.Mul.make_args(e):
        content, rest = factor.primitive() if isinstance(factor, sp.Add) else (sp.Integer(1), factor)
        scale *= content if content.is_Integer else 1
        factors.append(rest if content.is_Integer else factor)
    return sp.Mul(scale, sp.Mul(*factors), evaluate=False) if scale != 1 else e


def _merged(body: Any, k: Any) -> Any:
    """Merge nested sums: Σ_k a Σ_l b is one sum over k and l of a b."""
    sums = [f for f in sp.Mul.make_args(body) if isinstance(f, Sigma)]
    if len(sums) != 1 or any(ends[0] != 0 or ends[1] != size(j) - 1 for j, *ends in sums[0].limits):
        return Sigma(body, (k, 0, size(k) - 1))
    return Sigma(sums[0].function * (body / sums[0]), *sums[0].limits, (k, 0, size(k) - 1))


def _renamed(e: Any) -> Any:
    """Rename the indices of a sum by depth, so that equal sums are equal expressions, wherever they come from."""
    inside = [_depth(limit[0]) for s in e.function.atoms(sp.Sum) for limit in s.limits]
    inside += [_depth(limit[0]) for s in e.function.atoms(Fold, Last) for limit in s.args if isinstance(limit, sp.Tuple)]
    first = max(inside, default=0) + 1
    others = {_depth(k) for k in e.free_symbols if is_index(k) and k.name[0] == "j"}  # of enclosing sums
    while others & set(range(first, first + len(e.limits))):
        first += 1
    names = {limit[0]: bound(first + n, size(limit[0])) for n, limit in enumerate(e.limits)}
    return e if all(k == name for k, name in names.items()) else e.xreplace(names)


def _depth(index: Any) -> int:
    return int(index.name[1:].partition("_")[0])


def deepest(e: Any) -> int:
    """Return the highest number of an index that a sum in `e` binds: an enclosing sum needs a higher one."""
    return max((_depth(k) for k in e.atoms(sp.Symbol) if is_index(k) and k.name[0] == "j"), default=0)


def _solved(factor: Any, k: Any) -> Any:
    """Return the only value of k for which a delta is not zero, if it is a linear expression of other indices, else None."""
    if not isinstance(factor, sp.KroneckerDelta):
        return None
    difference = sp.expand(factor.args[0] - factor.args[1])
    scale = difference.coeff(k)
    rest = difference - scale * k
    return -rest / scale if scale in (1, -1) and k not in rest.free_symbols else None


class Last(Binder, sp.Expr):
    """The value at the last index where the bracket is 1, or a default if there is none: value, bracket, default, *limits."""

    is_commutative = True
    is_real = True

    def __new__(cls, value: Any, hit: Any, default: Any, *limits: Any) -> Any:
        return super().__new__(cls, value, hit, default, *(sp.Tuple(*limit) for limit in limits))

    @property
    def free_symbols(self) -> Any:
        inner = set().union(*(e.free_symbols for e in self.args[:3]))
        return inner - {limit.args[0] for limit in self.args[3:]}


def is_bracket(e: Any) -> bool:
    """True if a relation states that a product of brackets is not 0."""
    return isinstance(e, sp.Ne) and e.rhs == 0 and all(isinstance(f, (Within, sp.KroneckerDelta)) for f in sp.Mul.make_args(e.lhs))


def relation(bracket: Any) -> Any:
    """Return the condition under which a product of brackets is 1."""
    return sp.And(*(_relation(factor) for factor in sp.Mul.make_args(bracket)))


def _relation(bracket: Any) -> Any:
    if isinstance(bracket, sp.KroneckerDelta):
        return sp.Eq(*bracket.args)
    if not isinstance(bracket, Within):
        return sp.Ne(bracket, 0)
    e, low, high = bracket.args
    ends = interval(e)
    above = ends is not None and ends[0] >= low
    below = ends is not None and ends[1] < high
    return sp.And(sp.true if above else sp.Ge(e, low), sp.true if below else sp.Lt(e, high))
