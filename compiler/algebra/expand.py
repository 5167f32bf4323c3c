"""Values to the index normal form: the rows' own index formulas, run in the namespace `ix` of `namespace.py`.

An expansion stops at its leaves; `is_linear` says which values it can pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite, prod
from typing import Any

from symgrad.compiler.algebra.affine import Affine, NotAffine, SplitRequired
from symgrad.compiler.algebra.namespace import IndexNamespace, Labels, index_of
from symgrad.compiler.algebra.term import Coefficient, Expression, Term, coefficient_of
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.elements import ELEMENTS
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import INPUT, LITERAL, Value, row_of
from symgrad.ops.promotion import kind
from symgrad.ops.table import TABLE

STRUCTURAL = frozenset(("transpose", "permute", "t", "expand", "reshape", "squeeze", "unsqueeze", "clone", "getitem", "diagonal"))
"""Rows that move elements."""
SOURCES = frozenset(("eye", "embed", "diag_embed"))
"""Rows whose results have zeros at known places."""
SUMMING = frozenset(("matmul", "sum", "trace", "einsum", "mean", "linear", "addmm"))
"""Rows that add elements of one operand, or products of several."""
ADDING = frozenset(("add", "sub"))
SCALING = frozenset(("mul", "neg", "div", "conj"))
LINEAR = STRUCTURAL | SOURCES | SUMMING | ADDING | SCALING
_DIVIDING = frozenset(("div", "mean"))
_COMPOSED = frozenset(("linear", "addmm"))


def is_linear(v: Value) -> bool:
    """True if the value is a sum of products of elements of its arguments, which all have its own dtype."""
    if v.op not in LINEAR or v.row is not TABLE.get(v.op) or kind(v.dtype) == "b" or not v.size:
        return False
    if v.op in _DIVIDING and kind(v.dtype) not in "fc":
        return False
    if v.op == "div" and (not _is_plain_number(number(v.args[1])) or number(v.args[1]) == 0):
        return False
    return all(a is None or (a.dtype == v.dtype and a.size) for a in v.args)


def _is_plain_number(x: Any) -> bool:
    """True for a finite number; 0.0, which times infinity is NaN in the user's program, is not plain."""
    if isinstance(x, complex):
        return isfinite(x.real) and isfinite(x.imag) and x != 0
    return x is not None and isfinite(x) and (x != 0 or type(x) is not float)


@dataclass(frozen=True)
class Expanded:
    """The index normal form of a value: its index along each dimension, and its element there."""

    at: tuple[Affine, ...]
    expression: Expression


def expand(v: Value, expansion: Callable[[Labels], Expansion] | None = None) -> Expanded:
    """Return the normal form of a value of a graph whose inputs are the leaves; raise NotAffine if it has none. `expansion` may stop at
    other leaves."""
    labels = Labels()
    while True:
        at = tuple(labels.new(n) for n in v.shape)
        try:
            return Expanded(at, (expansion or Expansion)(labels).element(v, at))
        except SplitRequired as required:
            labels = labels.split(required)


class _Operand:
    """A tensor as element functions see it: calling it with indices returns its element."""

    __slots__ = ("expansion", "ndim", "shape", "value")

    def __init__(self, expansion: Expansion, value: Value) -> None:
        self.expansion, self.value, self.shape, self.ndim = expansion, value, value.shape, len(value.shape)

    def __call__(self, *at: Any) -> Expression:
        return self.expansion.element(self.value, at)


class Expansion:
    """Expands values down to the inputs of their graph."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def element(self, v: Value, at: Sequence[Any]) -> Expression:
        """Return the element of a value at these indices."""
        if v.op == LITERAL and _is_plain_number(v.value):
            return Expression.of(v.value)
        place = tuple(Affine() if n == 1 else index_of(i, n) for i, n in zip(at, v.shape, strict=True))
        if v.op in (INPUT, LITERAL):
            return Expression([Term(factors=((v, place),))])
        return self.linear(v, place)

    def linear(self, v: Value, at: tuple[Affine, ...]) -> Expression:
        """Return the element of an application of a linear row."""
        return _ELEMENTWISE[v.op](self, v, at) if v.op in _ELEMENTWISE else self._row(v, at)

    def _row(self, v: Value, at: tuple[Affine, ...]) -> Expression:
        if v.op in _COMPOSED:
            return self.element(row_of(v).compose(xp, *v.args, **v.attrs), at)  # type: ignore[misc]  # both rows have a composition
        operands = [None if a is None else _Operand(self, a) for a in v.args]
        ix = IndexNamespace(v.shape, self.labels)
        if v.op == "mean":
            total = Expression.of(ELEMENTS["sum", None](ix, at, *operands, **v.attrs))
            return total * Fraction(v.size, prod(v.args[0].shape))
        function = ELEMENTS.get((v.op, None))
        if function is None:
            raise NotAffine(v.op)
        return Expression.of(function(ix, at, *operands, **v.attrs))

    def argument(self, v: Value, i: int, at: tuple[Affine, ...]) -> Expression:
        """Return the element of argument i, which broadcasting aligns with element `at` of the result."""
        argument = v.args[i]
        return self.element(argument, at[len(at) - len(argument.shape) :])


_ELEMENTWISE: dict[str, Callable[..., Expression]] = {
    "mul": lambda e, v, at: e.argument(v, 0, at) * e.argument(v, 1, at),
    "add": lambda e, v, at: e.argument(v, 0, at) + e.argument(v, 1, at),
    "sub": lambda e, v, at: e.argument(v, 0, at) - e.argument(v, 1, at),
    "neg": lambda e, v, at: -e.argument(v, 0, at),
    "conj": lambda e, v, at: Expression(map(_conjugate, e.argument(v, 0, at).terms)),
    "div": lambda e, v, at: e.argument(v, 0, at) * _reciprocal(coefficient_of(number(v.args[1]))),
}


def _conjugate(term: Term) -> Term:
    factors = ((v.args[0] if v.op == "conj" else xp.conj(v), at) for v, at in term.factors)
    return replace(term, coefficient=term.coefficient.conjugate(), factors=tuple(factors))


def _reciprocal(x: Coefficient) -> Coefficient:
    return 1 / x
