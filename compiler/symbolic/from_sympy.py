"""Translate a SymPy expression to rows of the table, in any namespace: arrays, recorded tensors or graph values.

SymPy functions are matched with rows by the rows' meanings. Each subexpression is computed once. At kinks the derivative is that of the
table: Max and Min share at a tie, Abs has slope 0 at 0, and step functions have slope 0 everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from symgrad.errors import FormulaError
from symgrad.ops.exact import PI, Exact
from symgrad.ops.table import TABLE


class UnknownHead(FormulaError):
    """No row means the function at the head of an expression."""


class Kinked(sp.Function):
    """A function whose derivative SymPy would write in a form that cannot be computed; `fdiff` defines it instead."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        return None


class Greater(Kinked):
    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        x, y = self.args
        return sp.Heaviside(x - y if argindex == 1 else y - x, sp.Rational(1, 2))


class Smaller(Kinked):
    nargs = 2

    def fdiff(self, argindex: int = 1) -> Any:
        x, y = self.args
        return sp.Heaviside(y - x if argindex == 1 else x - y, sp.Rational(1, 2))


class Magnitude(Kinked):
    nargs = 1

    def fdiff(self, argindex: int = 1) -> Any:
        return Sign(self.args[0])


class Step(Kinked):
    """A function that is constant between its jumps."""

    def fdiff(self, argindex: int = 1) -> Any:
        return sp.Integer(0)


class Sign(Step):
    nargs = 1


class Floor(Step):
    nargs = 1


class Ceiling(Step):
    nargs = 1


class Unit(Step):
    nargs = 2


_KINKED = {sp.Abs: Magnitude, sp.sign: Sign, sp.floor: Floor, sp.ceiling: Ceiling}


def derivative(expression: Any, symbol: Any) -> Any:
    """Return the derivative of an expression, with the table's conventions at kinks."""
    return sp.diff(_with_kinked_functions(expression), symbol)


def _with_kinked_functions(e: Any) -> Any:
    """Return the expression with its kinked functions replaced by the classes of this file."""
    if not e.args:
        return e
    args = [_with_kinked_functions(a) for a in e.args]
    if isinstance(e, (sp.Max, sp.Min)):
        return functools.reduce(Greater if isinstance(e, sp.Max) else Smaller, args)
    if isinstance(e, sp.Heaviside):
        return Unit(*args)
    return _KINKED.get(e.func, e.func)(*args)


def translate(xp: Any, expression: Any, bindings: Mapping[Any, Any], dtype: Any = None) -> Any:
    """Return the value of an expression in the namespace `xp`, given the values of its symbols. Steps, and a Piecewise whose
    branches are constants, have type `dtype`."""
    return Translator(xp, bindings, dtype).value(expression)


class Translator:
    def __init__(self, xp: Any, bindings: Mapping[Any, Any], dtype: Any) -> None:
        self.xp = xp
        self.known: dict[Any, Any] = dict(bindings)
        self.dtype = dtype

    def value(self, e: Any) -> Any:
        if e not in self.known:
            self.known[e] = number(e) if e.is_number and isinstance(e, sp.Expr) else self.compute(e)
        return self.known[e]

    def compute(self, e: Any) -> Any:
        if e.is_Symbol:
            raise FormulaError(f"{e} is none of the symbols that the expression is a function of")
        found = next((rule for kinds, rule in _RULES if isinstance(e, kinds)), None)
        if found is not None:
            return found(self, e)
        for row, places, given in _meanings().get(e.func, ()):
            if len(e.args) == len(places) + len(given) and all(e.args[i] == x for i, x in given):
                return getattr(self.xp, row)(*(self.value(e.args[i]) for i in places))
        raise UnknownHead(f"no row of the table means {e.func.__name__}: {e} cannot be computed; write it with functions that there are")

    def add(self, e: Any) -> Any:
        """Add the terms, numbers last; terms with a minus sign are subtracted."""
        first, *others = sorted(e.args, key=lambda term: (term.is_number, term.could_extract_minus_sign()))
        total = self.value(first)
        for term in others:
            minus = term.could_extract_minus_sign()
            total = self.xp.sub(total, self.value(-term)) if minus else self.xp.add(total, self.value(term))
        return total

    def mul(self, e: Any) -> Any:
        """Return one quotient; a rational factor becomes a product with and a division by integers."""
        coefficient, rest = e.as_coeff_Mul(rational=True)
        above, below = sp.fraction(rest, exact=True)
        result = self.product(above, coefficient.p) if above != 1 or below == 1 else None
        divisor = self.product(below, coefficient.q) if below != 1 else coefficient.q
        if result is None:
            return self.xp.div(coefficient.p, divisor)
        return result if below == 1 and coefficient.q == 1 else self.xp.div(result, divisor)

    def product(self, e: Any, scale: int) -> Any:
        factors = sorted(sp.Mul.make_args(e), key=lambda factor: factor.is_number)
        result = functools.reduce(self.xp.mul, map(self.value, factors))
        return result if scale == 1 else self.xp.neg(result) if scale == -1 else self.xp.mul(result, scale)

    def power(self, e: Any) -> Any:
        base, exponent = e.args
        if base is sp.E:
            return self.xp.exp(self.value(exponent))
        if exponent.could_extract_minus_sign():
            return self.xp.div(1, self.value(base**-exponent))
        if exponent == sp.Rational(1, 2):
            return self.xp.sqrt(self.value(base))
        if exponent.is_Integer and exponent > 1:
            return self.xp.square(self.value(base)) if exponent == 2 else self.xp.power(self.value(base), exponent=int(exponent))
        return self.xp.pow(self.value(base), self.value(exponent))

    def choice(self, e: Any) -> Any:
        """Return nested where(); a Piecewise is NaN outside of all its conditions."""
        branches = list(e.args)
        result = self.value(branches.pop().expr) if branches[-1].cond == sp.true else float("nan")
        for branch in reversed(branches):
            condition, x = self.value(branch.cond), self.value(branch.expr)
            if not hasattr(x, "dtype") and not hasattr(result, "dtype"):  # two numbers would not determine the dtype
                x = self.xp.mul(self.xp.cast(condition, dtype=self.dtype), x)
            result = self.xp.where(condition, x, result)
        return result

    def unit(self, e: Any) -> Any:
        """Return a step function all of whose derivatives are 0, since comparisons have none."""
        x, middle = self.value(e.args[0]), self.value(e.args[1])
        above = self.xp.cast(self.xp.gt(x, 0), dtype=self.dtype)
        if e.args[1] == 0:
            return above
        return self.xp.add(above, self.xp.mul(self.xp.cast(self.xp.eq(x, 0), dtype=self.dtype), middle))

    def polygamma(self, e: Any) -> Any:
        order, x = e.args
        if not order.is_Integer:
            raise FormulaError(f"{e} cannot be computed: polygamma needs an integer first")
        return self.xp.polygamma(self.value(x), n=int(order)) if order else self.xp.digamma(self.value(x))

    def folded(self, name: str, e: Any) -> Any:
        first, *others = map(self.value, e.args)
        op = getattr(self.xp, name)
        return functools.reduce(op, others, first) if others else op(first)

    def called(self, name: str, e: Any) -> Any:
        return getattr(self.xp, name)(*map(self.value, e.args))


def number(e: Any) -> Any:
    """Return a SymPy number: integers as they are, others exactly if rows can express them, else rounded."""
    if e.is_Integer:
        return int(e)
    if e.is_Float or e in (sp.oo, -sp.oo, sp.nan):
        return float(e)
    if not e.is_real:
        raise FormulaError(f"{e} is no real number, which is what the elements of tensors are here")
    try:
        form = _CONSTANTS.get(e) or ("div", e.p, e.q) if not e.args else Translator(_Forms(), {}, None).compute(e).form
    except (FormulaError, AttributeError):
        return float(e)
    return Exact(float(e), form)


class _Forms:
    """A namespace in which a row applied to numbers is an Exact number of that form; its rounded value is not used."""

    def __getattr__(self, name: str) -> Callable[..., Exact]:
        return lambda *args, **attrs: Exact(0.0, (name, *args) if not attrs else ("pow", *args, *attrs.values()))


_CONSTANTS = {sp.pi: PI.form, sp.E: ("exp", 1)}
_RELATIONS = {sp.Gt: "gt", sp.Ge: "ge", sp.Lt: "lt", sp.Le: "le", sp.Eq: "eq", sp.Ne: "ne"}
_ROWS: dict[Any, str] = {Greater: "maximum", Smaller: "minimum", Magnitude: "abs", Sign: "sign", Floor: "floor", Ceiling: "ceil"}
_RULES: tuple[tuple[Any, Callable[[Translator, Any], Any]], ...] = (
    (sp.Add, Translator.add),
    (sp.Mul, Translator.mul),
    (sp.Pow, Translator.power),
    (sp.Piecewise, Translator.choice),
    ((sp.Heaviside, Unit), Translator.unit),
    (sp.polygamma, Translator.polygamma),
    (sp.Max, lambda run, e: run.folded("maximum", e)),
    (sp.Min, lambda run, e: run.folded("minimum", e)),
    (sp.And, lambda run, e: run.folded("logical_and", e)),
    (sp.Or, lambda run, e: run.folded("logical_or", e)),
    (sp.Not, lambda run, e: run.folded("logical_not", e)),
    (tuple(_RELATIONS), lambda run, e: run.called(_RELATIONS[e.func], e)),
    (tuple(_ROWS), lambda run, e: run.called(_ROWS[e.func], e)),
)


@functools.cache
def _meanings() -> dict[Any, list[tuple[str, tuple[int, ...], tuple[tuple[int, Any], ...]]]]:
    """Return, for each SymPy function, the rows that mean it: the positions of their arguments, and the numbers at the other positions."""
    found: dict[Any, Any] = {}
    for row in TABLE.values():
        if row.sympy is None or row.attrs or not row.elementwise or row.policy in ("where", "compare", "each"):
            continue
        names = sp.symbols(f"a:{len(row.args)}", real=True)
        meaning = row.sympy(sp, *names)
        if not isinstance(meaning, sp.Function) or isinstance(meaning, AppliedUndef):
            continue
        places = tuple(meaning.args.index(n) for n in names if n in meaning.args)
        if len(places) == len(names):
            given = tuple((i, a) for i, a in enumerate(meaning.args) if i not in places)
            if all(a.is_number for _, a in given):
                found.setdefault(meaning.func, []).append((row.name, places, given))
    return found


def known_functions() -> set[Any]:
    """Return the SymPy classes that can be translated."""
    kinds = {c for classes, _ in _RULES for c in (classes if isinstance(classes, tuple) else (classes,))}
    return {c for c in (*kinds, *_meanings()) if not issubclass(c, Kinked)}
