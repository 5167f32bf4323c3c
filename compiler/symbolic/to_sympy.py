"""What a row means as an expression of SymPy's.

An elementwise row whose meaning is arithmetic, a Piecewise, or one function of SymPy's is written out. Any other keeps its name: softplus
stays `softplus(x)`, since `log(1 + exp(x))` overflows where softplus does not. So does every row that is not elementwise, in the notations
that have no form of their own for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
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
    """A Python number, exactly; a float that is a short fraction becomes one, any other keeps its bits."""
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
    """A literal in the kind of its type: True as a float is 1."""
    value = v.value
    if isinstance(value, bool) and v.dtype.kind != "b":
        value = int(value)
    return number(value)


def symbol(name: str, dtype: Any) -> Any:
    """A symbol for one number; its name is ours, never a user's."""
    return sp.Symbol(name) if dtype.kind in "bc" else sp.Symbol(name, real=True)


def truth(symbol: Any, dtype: Any) -> Any:
    """A symbol as it stands in expressions: for a boolean the condition that it is not 0, since SymPy would compare it with numbers."""
    return sp.Ne(symbol, 0) if dtype.kind == "b" else symbol


class Same(BooleanFunction):  # type: ignore[misc]
    """x = y, which SymPy would rearrange: x + 1 = max(x + 1) holds in floating point, x = max(x + 1) - 1 may not."""

    def _eval_as_set(self) -> Any:
        raise NotImplementedError


def _same(x: Any, y: Any) -> Any:
    arranged = all(e.as_coeff_Add()[0] == 0 and e.as_coeff_Mul()[0] == 1 for e in (x, y))
    return sp.Eq(x, y) if arranged or x == y or x.is_number or y.is_number else Same(*sorted((x, y), key=sp.default_sort_key))


def elementwise(v: Value, args: Sequence[Any]) -> Any:
    """The meaning of an elementwise application for one element."""
    if v.op == "cast":
        return _cast(v, args[0])
    if v.op.startswith("logical_"):
        args = [sp.Ne(a, 0) if isinstance(a, sp.Expr) else a for a in args]
    elif v.op != "where" and not v.op.startswith("bitwise_") and not all(isinstance(a, sp.Expr) for a in args):
        return _counted(v, [a if isinstance(a, sp.Expr) else indicator(a) for a in args])
    if v.op in nonfinite.COMPARISONS:
        return _compared(v, args)
    row = row_of(v)
    attrs = {k: number(x) for k, x in v.attrs.items()}
    if v.op in nonfinite.OPAQUE_ROWS or (v.op == "div" and nonfinite.may_vanish(args[1])):
        return opaque(v, args)
    if v.op == "where" and args[1] == 0 and (_is_off(args[0]) or _asks_relu(v.args[0], args[0])):
        return args[2] * sp.Heaviside(_rectified(args[0].lhs), 0)  # how relu's rule is written
    if v.op == "pow" and args[1].has(sp.MatrixExpr):  # SymPy would factor the exponent, and take matrices apart
        return sp.Pow(*args, evaluate=False)
    if v.op == "where":
        args = (args[0], _assuming(args[1], args[0]), _assuming(args[2], sp.Not(args[0])))
    if _written_out(row, len(args), freeze(v.attrs), tuple(v.attrs.items())):
        try:
            found = row.sympy(sp, *args, **attrs)  # type: ignore[misc]
        except (TypeError, ValueError):  # SymPy refuses to compare NaN and sqrt(-1), which are numbers like others here
            return opaque(v, args)
        return opaque(v, args) if nonfinite.introduces_nonfinite(found, (*args, *attrs.values())) else found
    return opaque(v, args)


def _compared(v: Value, args: Sequence[Any]) -> Any:
    """A comparison, with its arguments where SymPy knows the answer for numbers only. What is not equal to itself is NaN."""
    try:
        found = sp.Not(_same(*args)) if v.op == "ne" else _same(*args) if v.op == "eq" else row_of(v).sympy(sp, *args)  # type: ignore[misc]
    except (TypeError, ValueError):  # SymPy refuses to compare NaN and sqrt(-1), which are numbers like others here
        return opaque(v, args)
    if kind(v.args[0].dtype) not in "fc" or nonfinite.is_decided(v.op, args, found):
        return found
    if args[0] != args[1]:
        return opaque(v, args)
    is_nan = opaque(xp.isnan(v.args[0]), args[:1])
    return is_nan if v.op == "ne" else sp.Not(is_nan)


def quotient(x: Any, y: Any) -> Any:
    """x / y, which stands as it is where y may be 0."""
    return opaque(_QUOTIENT, (x, y)) if y == 0 or nonfinite.may_vanish(y) else x / y


_QUOTIENT = xp.div(*(input_value(i, (), np.dtype(np.float64)) for i in range(2)))


def unless_nan(e: Any) -> Any:
    """The expression, or 0 where it is NaN."""
    return sp.Function("nan_to_zero", real=True)(e)


def _counted(v: Value, args: Sequence[Any]) -> Any:
    """A row of numbers applied to booleans, which are 0 and 1 there."""
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
    """1 where the condition holds, else 0."""
    if condition in (sp.true, sp.false):
        return sp.Integer(bool(condition))
    if isinstance(condition, sp.StrictGreaterThan) and condition.rhs == 0:
        return sp.Heaviside(_rectified(condition.lhs), 0)
    return sp.Piecewise((1, condition), (0, True))


def _assuming(e: Any, condition: Any) -> Any:
    """A branch, given that its condition holds: choices inside that ask the same again are made."""
    known = {p: p.args[0].expr for p in e.atoms(sp.Piecewise) if p.args[0].cond == condition}
    known |= {p: sp.Integer(1) for p in e.atoms(sp.Heaviside) if p == indicator(condition)}
    known |= {p: p.args[1].expr for p in e.atoms(sp.Piecewise) if p.args[0].cond == sp.Not(condition) and p.args[1].cond == sp.true}
    if isinstance(condition, sp.LessThan):  # x where x < c, else c, is x up to c itself
        least = ((condition.lhs, sp.Lt(condition.lhs, condition.rhs)), (condition.rhs, True))
        known[sp.Piecewise(*least)] = condition.lhs
    return e.xreplace(known) if known else e


def _asks_relu(v: Value, condition: Any) -> bool:
    """relu(x) <= 0, where relu(x) has a name"""
    return isinstance(condition, sp.LessThan) and condition.rhs == 0 and v.op == "le" and v.args[0].op == "relu"


def primitive(e: Any) -> tuple[Any, Any]:
    """The number that all terms of a sum share, and the rest: 2 x + 4 y into 2 and x + 2 y. A float stays as it was written, and no
    fraction is taken out of terms that have others."""
    numbers = [term.as_coeff_Mul()[0] for term in e.args]
    if any(not n.is_Rational for n in numbers) or len({n.q for n in numbers}) > 1:
        return sp.Integer(1), e
    return e.primitive()  # type: ignore[no-any-return]


def _is_off(condition: Any) -> bool:
    """max(0, x) <= 0: a relu that lets nothing through."""
    return isinstance(condition, sp.LessThan) and condition.rhs == 0 and _rectified(condition.lhs) is not condition.lhs


def _rectified(e: Any) -> Any:
    """x, given max(0, x)."""
    return sp.Max(*(a for a in e.args if a != 0)) if isinstance(e, sp.Max) and 0 in e.args else e


@functools.lru_cache(maxsize=4096)
def _written_out(row: Row, count: int, key: Any, attrs: tuple[tuple[str, Any], ...]) -> bool:
    if row.sympy is None:
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


_HIDDEN = {("inv", "check", True), ("inv", "check", False), ("softplus", "beta", 1), ("softplus", "threshold", 20),
           ("softplus", "threshold", math.inf)}  # fmt: skip
"""Attributes that say nothing about the value, or nothing that a reader needs."""


@dataclass(frozen=True)
class Application:
    """What the function of an opaque row applies: enough to run it. Equal ones are equal to SymPy, too."""

    row: Row
    key: Any
    shapes: tuple[Any, ...]
    """Of the arguments, None where one was left out; nothing is said of those of an elementwise row."""
    dtypes: tuple[Any, ...]
    index: int | None
    attrs: Mapping[str, Any] = field(compare=False)
    shape: tuple[int, ...] = field(compare=False)
    """Of the result."""

    @property
    def shown(self) -> list[tuple[str, Any]]:
        if any(isinstance(x, Graph) for x in self.attrs.values()):  # a loop: what it does in each step is no part of a formula
            settings = [(k, self.attrs[k]) for k in ("length", "max_steps", "reverse") if self.attrs.get(k)]
            return [*settings, ("output", self.index)]
        return [(k, x) for k, x in self.attrs.items() if freeze(x)[0] == "tuple" or (self.row.name, k, x) not in _HIDDEN]


def opaque(v: Value, args: Sequence[Any], index: int | None = None) -> Any:
    """A row under its own name; `index` chooses one of several outputs."""
    shapes = tuple(None if a is None else () if row_of(v).elementwise else a.shape for a in v.args)
    dtypes = tuple(None if a is None else str(a.dtype) for a in v.args)
    key = freeze({k: x for k, x in v.attrs.items() if (v.op, k) != ("inv", "check")})
    shape = v.shape if index is None else v.shape[index]
    dtype = v.dtype if index is None else v.dtype[index]
    real = {} if dtype.kind == "c" else {"real": True}
    application = Application(row_of(v), key, shapes, dtypes, index, v.attrs, shape)
    function = sp.Function(v.op, application=application, fdiff=_opaque_derivative, **real)
    result = function(*(a if isinstance(a, sp.Expr) else indicator(a) for a in args if a is not None))
    return sp.Ne(result, 0) if dtype.kind == "b" else result


def _opaque_derivative(applied: Any, argindex: int = 1) -> Any:
    """The derivative of an opaque function in one of its arguments, by the meaning of its row."""
    row, attrs = applied.func.application.row, applied.func.application.attrs
    if row.sympy is None:
        return sp.Function.fdiff(applied, argindex)
    names = [sp.Dummy(real=True) for _ in applied.args]
    meaning = row.sympy(sp, *names, **{k: number(x) for k, x in attrs.items()})
    return sp.diff(meaning, names[argindex - 1]).xreplace(dict(zip(names, applied.args, strict=True)))


def condition_of(asked: Any, outcome: Any) -> Any:
    """What is known after Python asked for the truth or the value of an expression."""
    if isinstance(outcome, bool):
        return (asked if outcome else sp.Not(asked)) if not isinstance(asked, sp.Expr) else sp.Ne(asked, 0) if outcome else sp.Eq(asked, 0)
    return sp.Eq(asked, outcome)
