"""The meaning of rows as SymPy expressions.

An elementwise row whose meaning is arithmetic, a Piecewise, or a single SymPy function is written out. Any other keeps its name: softplus
stays `softplus(x)`, since `log(1 + exp(x))` overflows where softplus does not. So does every row that is not elementwise, in notations
without a form for it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import BooleanFunction

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, Value, freeze, input_value, row_of
from symgrad.compiler.symbolic import nonfinite
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row

_ARITHMETIC = (
    sp.Add, sp.Mul, sp.Pow, sp.Piecewise, ExprCondPair, sp.Rel, BooleanFunction, sp.Max, sp.Min, sp.Heaviside,
)  # fmt: skip


def number(x: Any) -> Any:
    """Return a Python number as a SymPy number, exactly; a float that is a short fraction becomes a Rational, any other keeps its bits."""
    if isinstance(x, bool):
        return sp.true if x else sp.false
    if isinstance(x, int):
        return sp.Integer(x)
    if isinstance(x, complex):
        return number(x.real) + sp.I * number(x.imag)
    if not isinstance(x, float):
        return x
    if not math.isfinite(x):
        return sp.nan if math.isnan(x) else sp.oo if x > 0 else -sp.oo
    fraction = Fraction(x)
    short = fraction.denominator <= 64 and abs(fraction.numerator) < 10**6
    return sp.Rational(fraction.numerator, fraction.denominator) if short else sp.Float(x, 17)


def literal(v: Value) -> Any:
    """Return a literal in the kind of its dtype: True as a float is 1."""
    value = v.value
    if isinstance(value, bool) and v.dtype.kind != "b":
        value = int(value)
    return number(value)


def symbol(name: str, dtype: Any) -> Any:
    """Return a symbol for a scalar; its name is internal, never a user's."""
    return sp.Symbol(name) if dtype.kind in "bc" else sp.Symbol(name, real=True)


def truth(symbol: Any, dtype: Any) -> Any:
    """Return a symbol as it is used in expressions: a boolean becomes the condition that it is not 0, since SymPy would compare it with
    numbers."""
    return sp.Ne(symbol, 0) if dtype.kind == "b" else symbol


class Same(BooleanFunction):
    """x = y, unevaluated, since SymPy would rearrange it: x + 1 = max(x + 1) holds in floating point, x = max(x + 1) - 1 may not."""

    def _eval_as_set(self) -> Any:
        raise NotImplementedError


def _same(x: Any, y: Any) -> Any:
    arranged = all(e.as_coeff_Add()[0] == 0 and e.as_coeff_Mul()[0] == 1 for e in (x, y))
    return sp.Eq(x, y) if arranged or x == y or x.is_number or y.is_number else Same(*sorted((x, y), key=sp.default_sort_key))


def elementwise(v: Value, args: Sequence[Any]) -> Any:
    """Return the meaning of an elementwise application for one element."""
    if v.op == "cast":
        return _cast(v, args[0])
    if v.op == "where":
        return _chosen(v, args)
    if v.op.startswith("logical_"):
        args = [sp.Ne(a, 0) if isinstance(a, sp.Expr) else a for a in args]
    elif not v.op.startswith("bitwise_") and not all([isinstance(a, sp.Expr) for a in args]):
        return _counted(v, [a if isinstance(a, sp.Expr) else indicator(a) for a in args])
    if v.op in nonfinite.COMPARISONS:
        return _compared(v, args)
    if v.op in nonfinite.OPAQUE_ROWS or (v.op == "div" and nonfinite.may_vanish(args[1])):
        return opaque(v, args)
    if v.op == "pow" and args[1].has(sp.MatrixExpr):  # SymPy would factor the exponent and split matrices
        return sp.Pow(*args, evaluate=False)
    found = _by_row(v, args)
    return sp.nan if found.is_number and v.dtype.kind == "f" and found.is_real is False else found  # sqrt(-4) of real numbers


def _chosen(v: Value, args: Sequence[Any]) -> Any:
    """Return where(condition, x, y): each of the two assumes what the condition says."""
    condition, x, y = args
    if x == 0 and (_is_off(condition) or _asks_relu(v.args[0], condition)):
        return y * sp.Heaviside(_rectified(condition.lhs), 0)  # the form of relu's rule
    return _by_row(v, (condition, _assuming(x, condition), _assuming(y, sp.Not(condition))))


def _by_row(v: Value, args: Sequence[Any]) -> Any:
    """Return what the row's SymPy column gives, or an opaque function if it has none or gives infinities."""
    row = row_of(v)
    if not _written_out(row, len(args), freeze(v.attrs), tuple(v.attrs.items())):
        return opaque(v, args)
    attrs = {k: number(x) for k, x in v.attrs.items()}
    try:
        found = row.sympy(sp, *args, **attrs)  # type: ignore[misc]
    except (TypeError, ValueError):  # SymPy refuses to compare NaN and sqrt(-1), which are ordinary values here
        return opaque(v, args)
    return opaque(v, args) if nonfinite.introduces_nonfinite(found, (*args, *attrs.values())) else found


def _compared(v: Value, args: Sequence[Any]) -> Any:
    """Return a comparison; it stays opaque if SymPy decides it for finite numbers only. A value that differs from itself is NaN."""
    try:
        found = sp.Not(_same(*args)) if v.op == "ne" else _same(*args) if v.op == "eq" else row_of(v).sympy(sp, *args)  # type: ignore[misc]
    except (TypeError, ValueError):  # SymPy refuses to compare NaN and sqrt(-1), which are ordinary values here
        return opaque(v, args)
    if kind(v.args[0].dtype) not in "fc" or nonfinite.is_decided(v.op, args, found):
        return found
    if args[0] != args[1]:
        return opaque(v, args)
    is_nan = opaque(xp.isnan(v.args[0]), args[:1])
    return is_nan if v.op == "ne" else sp.Not(is_nan)


def quotient(x: Any, y: Any) -> Any:
    """Return x / y, opaque if y may be 0."""
    return opaque(_QUOTIENT, (x, y)) if y == 0 or nonfinite.may_vanish(y) else x / y


_QUOTIENT = xp.div(*(input_value(i, (), np.dtype(np.float64)) for i in range(2)))


def unless_nan(e: Any) -> Any:
    """Return the expression, with 0 where it is NaN."""
    return sp.Function("nan_to_zero", real=True)(e)


def _counted(v: Value, args: Sequence[Any]) -> Any:
    """Apply a numeric row to booleans as 0 and 1."""
    result = elementwise(v, args)
    return sp.Ne(result, 0) if v.dtype.kind == "b" and isinstance(result, sp.Expr) else result


def _cast(v: Value, x: Any) -> Any:
    given, wanted = kind(v.args[0].dtype), kind(v.dtype)
    if given == "b" and wanted != "b":
        return indicator(x)
    if "bifc".index(given) <= "bifc".index(wanted):
        return x
    return opaque(v, (x,))


def indicator(condition: Any) -> Any:
    """Return 1 where the condition holds, else 0."""
    if condition in (sp.true, sp.false):
        return sp.Integer(bool(condition))
    if isinstance(condition, sp.StrictGreaterThan) and condition.rhs == 0:
        return sp.Heaviside(_rectified(condition.lhs), 0)
    return sp.Piecewise((1, condition), (0, True))


def holds(e: Any) -> Any:
    """Return the condition that an expression is not 0; for an indicator, its condition; for a product, that all factors hold."""
    if not isinstance(sp.sympify(e, strict=True), sp.Expr):
        return e
    if isinstance(e, sp.Mul):
        choices = [f for f in e.args if isinstance(f, (sp.Piecewise, sp.Heaviside))]
        return sp.And(*map(holds, choices), sp.Ne(sp.Mul(*(f for f in e.args if f not in choices)), 0))
    if isinstance(e, sp.Piecewise) and [branch.expr for branch in e.args] == [1, 0] and e.args[1].cond == sp.true:
        return e.args[0].cond
    return sp.Gt(e.args[0], 0) if isinstance(e, sp.Heaviside) and e.args[1] == 0 else sp.Ne(e, 0)


def _assuming(e: Any, condition: Any) -> Any:
    """Return a branch simplified under its condition: nested choices on the same condition are resolved. Those inside of a matrix are left:
    an element of a sum over all elements has conditions of its own."""
    known: dict[Any, Any] = {}
    for p in _outside_of_matrices(e):
        if isinstance(p, sp.Piecewise):
            if p.args[0].cond == condition:
                known[p] = p.args[0].expr
            elif p.args[0].cond == sp.Not(condition) and p.args[1].cond == sp.true:
                known[p] = p.args[1].expr
        elif isinstance(p, sp.Heaviside) and p == indicator(condition):
            known[p] = sp.Integer(1)
    if isinstance(condition, sp.LessThan):  # x where x < c, else c, equals x for x <= c
        least = ((condition.lhs, sp.Lt(condition.lhs, condition.rhs)), (condition.rhs, True))
        known[sp.Piecewise(*least)] = condition.lhs
    return _replaced(e, known) if known else e


def _outside_of_matrices(e: Any) -> Iterator[Any]:
    """Iterate over an expression and its parts, but not over those of matrices in it, such as the terms of a sum."""
    parts = sp.preorder_traversal(e)
    for part in parts:
        if _has_matrix(part):
            parts.skip()
        yield part


def _has_matrix(e: Any) -> bool:
    return any(isinstance(a, (sp.MatrixExpr, sp.MatrixBase)) for a in e.args)


def _replaced(e: Any, known: Mapping[Any, Any]) -> Any:
    """Return an expression with parts replaced, but none of those inside of matrices."""
    if e in known:
        return known[e]
    if not e.args or _has_matrix(e):
        return e
    args = [_replaced(a, known) for a in e.args]
    return e if all(map(operator.is_, args, e.args)) else e.func(*args)


def _asks_relu(v: Value, condition: Any) -> bool:
    """True for the condition relu(x) <= 0, where relu(x) has a name."""
    return isinstance(condition, sp.LessThan) and condition.rhs == 0 and v.op == "le" and v.args[0].op == "relu"


def primitive(e: Any) -> tuple[Any, Any]:
    """Split a sum into the common factor of its terms and the rest: 2 x + 4 y into 2 and x + 2 y. Floats stay as they are, and no fraction
    is factored out unless all terms have the same denominator."""
    numbers = [term.as_coeff_Mul()[0] for term in e.args]
    if any(not n.is_Rational for n in numbers) or len({n.q for n in numbers}) > 1:
        return sp.Integer(1), e
    return e.primitive()  # type: ignore[no-any-return]


def _is_off(condition: Any) -> bool:
    """True for max(0, x) <= 0, where a relu is zero."""
    return isinstance(condition, sp.LessThan) and condition.rhs == 0 and _rectified(condition.lhs) is not condition.lhs


def _rectified(e: Any) -> Any:
    """Return x for max(0, x), and any other expression unchanged."""
    return sp.Max(*(a for a in e.args if a != 0)) if isinstance(e, sp.Max) and 0 in e.args else e


@functools.lru_cache(maxsize=4096)
def _written_out(row: Row, count: int, key: Any, attrs: tuple[tuple[str, Any], ...]) -> bool:
    if row.sympy is None or row.name in _CANCELS:
        return False
    names = sp.symbols(f"a:{count}", real=True)
    given = (sp.Gt(names[0], 0), *names[1:]) if row.policy == "where" else names
    try:
        meaning = row.sympy(sp, *given, **{k: number(x) for k, x in attrs})
    except (TypeError, ValueError, NotImplementedError):
        return False
    if not isinstance(meaning, sp.Basic):
        return False
    functions = [e for e in sp.preorder_traversal(meaning) if e.args and not isinstance(e, _ARITHMETIC)]
    return not functions or (functions == [meaning] and meaning.args == tuple(names))


_CANCELS = frozenset(("power1pm1",))
"""Rows that keep their name because their meaning, though it is arithmetic, loses digits."""
_HIDDEN = {("inv", "check", True), ("inv", "check", False), ("softplus", "beta", 1), ("softplus", "threshold", 20),
           ("softplus", "threshold", math.inf)}  # fmt: skip
"""Attributes that do not affect the value, or that a reader does not need."""


@dataclass(frozen=True)
class Application:
    """The row application behind an opaque SymPy function: enough to run it. Equal applications make equal functions."""

    row: Row
    key: Any
    shapes: tuple[Any, ...]
    """Of the arguments, None for an omitted one; always () in an elementwise row."""
    dtypes: tuple[Any, ...]
    index: int | None
    attrs: Mapping[str, Any] = field(compare=False)
    shape: tuple[int, ...] = field(compare=False)
    """Shape of the result."""

    @property
    def shown(self) -> list[tuple[str, Any]]:
        if any(isinstance(x, Graph) for x in self.attrs.values()):  # a loop: a formula does not show its body
            settings = [(k, self.attrs[k]) for k in ("length", "max_steps", "reverse") if self.attrs.get(k)]
            return [*settings, ("output", self.index)]
        return [(k, x) for k, x in self.attrs.items() if freeze(x)[0] == "tuple" or (self.row.name, k, x) not in _HIDDEN]


def _class_key(cls: Any) -> tuple[int, int, str]:
    """Return what SymPy sorts functions by: attributes after the name, or the order of terms would depend on the hash seed."""
    kind, place, name = AppliedUndef.class_key.__func__(cls)
    application = cls.application
    shown = [f"{k}={x!r}" for k, x in application.attrs.items() if isinstance(x, (bool, int, float, str))]
    return kind, place, " ".join((name, *shown, str(application.index)))


_SORTED = classmethod(_class_key)


def opaque(v: Value, args: Sequence[Any], index: int | None = None) -> Any:
    """Return a row as a SymPy function of its own name; `index` selects one of several outputs."""
    shapes = tuple(None if a is None else () if row_of(v).elementwise else a.shape for a in v.args)
    dtypes = tuple(None if a is None else str(a.dtype) for a in v.args)
    key = freeze({k: x for k, x in v.attrs.items() if (v.op, k) != ("inv", "check")})
    shape = v.shape if index is None else v.shape[index]
    dtype = v.dtype if index is None else v.dtype[index]
    real = {} if dtype.kind == "c" else {"real": True}
    application = Application(row_of(v), key, shapes, dtypes, index, v.attrs, shape)
    function = sp.Function(v.op, application=application, fdiff=_opaque_derivative, class_key=_SORTED, **real)
    result = function(*(a if isinstance(a, sp.Expr) else indicator(a) for a in args if a is not None))
    return sp.Ne(result, 0) if dtype.kind == "b" else result


def _opaque_derivative(applied: Any, argindex: int = 1) -> Any:
    """Return the derivative of an opaque function in one of its arguments, from the meaning of its row."""
    row, attrs = applied.func.application.row, applied.func.application.attrs
    if row.sympy is None:
        return sp.Function.fdiff(applied, argindex)
    names = [sp.Dummy(real=True) for _ in applied.args]
    meaning = row.sympy(sp, *names, **{k: number(x) for k, x in attrs.items()})
    return sp.diff(meaning, names[argindex - 1]).xreplace(dict(zip(names, applied.args, strict=True)))


def condition_of(asked: Any, outcome: Any) -> Any:
    """Return the condition that holds after Python converted an expression to a bool or a number with this outcome."""
    if isinstance(outcome, bool):
        return (asked if outcome else sp.Not(asked)) if not isinstance(asked, sp.Expr) else sp.Ne(asked, 0) if outcome else sp.Eq(asked, 0)
    return sp.Eq(asked, outcome)
