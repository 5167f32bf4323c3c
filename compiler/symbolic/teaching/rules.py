"""Rules of calculus for an expression of one variable, under the names that a teacher gives them.

Each rule of `RULES` takes an expression f and the variable x and returns one application of itself, in which derivatives of the parts of f
are still to be taken, or None if f does not have its form. `direct` differentiates at once what a person does in the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.standard import RowFunction


@dataclass(frozen=True)
class Application:
    """A rule that was applied: the result, the names of the rules, and the parts that they name u and v."""

    result: Any
    rules: tuple[str, ...]
    parts: tuple[Any, ...] = ()
    functions: tuple[str, ...] = ()
    """The functions whose derivative was taken."""


def pending(e: Any, x: Any) -> Any:
    """Return the derivative of an expression in x as an operator on it; 0 for a constant and 1 for x."""
    if not e.has(x):
        return sp.Integer(0)
    return sp.Integer(1) if e == x else sp.Derivative(e, x, evaluate=False)


SLOPES: dict[str, Callable[[Any], Any]] = {
    "tan": lambda u: 1 / sp.cos(u) ** 2,
    "tanh": lambda u: 1 - sp.tanh(u) ** 2,
}
"""Derivatives in the form of textbooks, where SymPy has another."""


def slope(function: Any, u: Any) -> Any:
    """Return f′(u) for a function of one argument; None if it has no derivative in closed form."""
    found = SLOPES.get(function.__name__)
    if found is not None:
        return found(u)
    try:
        derived = function(u).fdiff()
    except (sp.SympifyError, AttributeError, NotImplementedError, ValueError, TypeError):
        return None
    return None if derived.has(sp.Derivative, sp.Subs, sp.Piecewise, sp.DiracDelta) else derived


def is_function(e: Any) -> bool:
    """True for f(u) with one argument, that has a rule."""
    has_one = isinstance(e, sp.Function) and len(e.args) == 1 and not isinstance(e, sp.Piecewise)
    return has_one and slope(e.func, sp.Dummy(real=True)) is not None


def name_of_slope(e: Any, letter: Any, show: Callable[[Any], str]) -> str:
    """Return `sin′(u) = cos(u)`."""
    return f"{show(e.func(letter)).removesuffix(f'({letter.name})')}′({letter.name}) = {show(slope(e.func, letter))}"


class Calculus:
    """The rules for derivatives in x, with letters for parts that no input has as its name."""

    def __init__(self, x: Any, letters: tuple[Any, Any], show: Callable[[Any], str], at_kink: Any = 0) -> None:
        self.x, self.show, self.at_kink = x, show, at_kink
        self.u, self.v = letters

    def applied(self, e: Any) -> Application | None:
        """Return the first rule that fits, applied; None if there is none."""
        return next((found for rule in RULES if (found := rule(self, e)) is not None), None)

    def direct(self, e: Any) -> Application | None:
        """Return the derivative of a power, an exponential, or a function of x itself, and of sums of their multiples; None for others."""
        if not e.has(self.x):
            return Application(sp.Integer(0), ())
        if e == self.x:
            return Application(sp.Integer(1), ())
        if isinstance(e, sp.Add):
            found = [self.direct(term) for term in e.args]
            return None if None in found else _joined(e, [f for f in found if f is not None])
        factor, rest = e.as_independent(self.x, as_Add=False)
        if factor != 1:
            inner = self.direct(rest)
            return inner and Application(factor * inner.result, inner.rules, (), inner.functions)
        return self.elementary(e)

    def elementary(self, e: Any) -> Application | None:
        if isinstance(e, (sp.Heaviside, sp.sign)):
            return Application(sp.Integer(0), (f"{'H' if isinstance(e, sp.Heaviside) else 'sign'} is constant, except at 0",))
        if isinstance(e, sp.Pow) and e.base == self.x and not e.exp.has(self.x):
            return Application(e.exp * self.x ** (e.exp - 1), ("power rule",))
        if isinstance(e, sp.Pow) and e.exp == self.x and not e.base.has(self.x):
            return Application(e * sp.log(e.base), (f"({self.show(e)})′ = {self.show(e * sp.log(e.base))}",))
        if is_function(e) and e.args[0] == self.x:
            return Application(slope(e.func, self.x), (name_of_slope(e, self.u, self.show),), (), (e.func.__name__,))
        return None

    # each rule

    def sum(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Add):
            return None
        found = [self.direct(term) or Application(pending(term, self.x), ()) for term in e.args]
        whole = _joined(e, found)
        return Application(whole.result, ("sum rule: term by term", *whole.rules), (), whole.functions)

    def constant_factor(self, e: Any) -> Application | None:
        factor, rest = e.as_independent(self.x, as_Add=False)
        if factor == 1:
            return None
        inner = self.applied(rest)
        said = ("constant factor",) if factor != -1 else ()
        return inner and Application(factor * inner.result, (*said, *inner.rules), inner.parts, inner.functions)

    def quotient(self, e: Any) -> Application | None:
        above, below = _fraction(e, self.x)
        if below == 1:
            return None
        u, v = self.u, self.v
        if not above.has(self.x):
            name = f"reciprocal rule (1/{u})′ = -{u}′/{u}²"
            return Application(-above * pending(below, self.x) / below**2, (name,), (below,))
        name = f"quotient rule ({u}/{v})′ = ({u}′ {v} - {u} {v}′)/{v}²"
        return Application((pending(above, self.x) * below - above * pending(below, self.x)) / below**2, (name,), (above, below))

    def product(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Mul):
            return None
        first, *others = e.as_ordered_factors()
        rest = sp.Mul(*others)
        name = f"product rule ({self.u} {self.v})′ = {self.u}′ {self.v} + {self.u} {self.v}′"
        return Application(pending(first, self.x) * rest + first * pending(rest, self.x), (name,), (first, rest))

    def power(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Pow) or e.exp.has(self.x):
            return None
        u, n = self.u, e.exp
        name = f"chain rule ({self.show(u**n)})′ = {self.show(n * u ** (n - 1))} {u}′"
        return Application(n * e.base ** (n - 1) * pending(e.base, self.x), (name,), (e.base,))

    def exponential(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Pow) or e.base.has(self.x):
            return None
        name = f"chain rule ({self.show(e.base**self.u)})′ = {self.show(e.base**self.u * sp.log(e.base))} {self.u}′"
        return Application(e * sp.log(e.base) * pending(e.exp, self.x), (name,), (e.exp,))

    def logarithmic(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Pow):
            return None
        name = f"logarithmic differentiation ({self.u}^{self.v})′ = {self.u}^{self.v} ({self.v} log {self.u})′"
        return Application(e * pending(e.exp * sp.log(e.base), self.x), (name,), (e.base, e.exp))

    def chain(self, e: Any) -> Application | None:
        if not is_function(e):
            return None
        (inner,) = e.args
        name = f"chain rule, {name_of_slope(e, self.u, self.show)}"
        return Application(slope(e.func, inner) * pending(inner, self.x), (name,), (inner,), (e.func.__name__,))

    def kink(self, e: Any) -> Application | None:
        """max(0, u), whose slope at 0 is that of the function as it is computed."""
        if not isinstance(e, sp.Max) or len(e.args) != 2 or 0 not in e.args:
            return None
        (inner,) = (a for a in e.args if a != 0)
        name = f"max(0, {self.u})′ = H({self.u}) {self.u}′: {self.u}′ for {self.u} > 0, else 0"
        return Application(sp.Heaviside(inner, self.at_kink) * pending(inner, self.x), (name,), (inner,))

    def branches(self, e: Any) -> Application | None:
        if not isinstance(e, sp.Piecewise):
            return None
        return Application(sp.Piecewise(*((pending(branch, self.x), c) for branch, c in e.args)), ("each branch by itself",))

    def several(self, e: Any) -> Application | None:
        """Apply the chain rule to a row of several arguments, such as logaddexp."""
        if not isinstance(e, RowFunction):
            return None
        slopes = [e.fdiff(n + 1) if a.has(self.x) else sp.Integer(0) for n, a in enumerate(e.args)]
        if any(s.has(sp.Derivative, sp.Subs, sp.Piecewise) for s in slopes):
            return None
        total = sp.Add(*(s * pending(a, self.x) for s, a in zip(slopes, e.args, strict=True)))
        return Application(total, (f"chain rule in every argument of {e.func.__name__}",), (), (e.func.__name__,))


RULES: tuple[Callable[[Calculus, Any], Application | None], ...] = (
    Calculus.sum, Calculus.constant_factor, Calculus.quotient, Calculus.product, Calculus.power, Calculus.exponential,
    Calculus.logarithmic, Calculus.kink, Calculus.branches, Calculus.chain, Calculus.several,
)  # fmt: skip
"""In the order in which they are tried."""


def _joined(e: Any, found: list[Application]) -> Application:
    rules = tuple(dict.fromkeys(rule for f in found for rule in f.rules))
    return Application(sp.Add(*(f.result for f in found)), rules, (), tuple(name for f in found for name in f.functions))


def _fraction(e: Any, x: Any) -> tuple[Any, Any]:
    """Return numerator and denominator; only powers of expressions in x with negative numbers as exponents are divisors, and powers of x
    alone are not."""
    factors = sp.Mul.make_args(e)
    below = [f for f in factors if isinstance(f, sp.Pow) and f.exp.is_number and f.exp.is_negative and f.base.has(x)]
    if not below or (len(factors) == 1 and below[0].base == x):
        return e, sp.Integer(1)
    return sp.Mul(*(f for f in factors if f not in below)), sp.Mul(*(1 / f for f in below))


SIMPLIFICATIONS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("take out the common factor", sp.factor_terms),
    ("factor", sp.factor),
    ("cancel", sp.cancel),
    ("multiply out", sp.expand),
    ("one fraction", sp.together),
    ("collect powers", sp.powsimp),
)
"""What leads from the last line to the result, in the words of a teacher."""
MOST_OPERATIONS = 60
"""Longer expressions are simplified without a name for it."""


def name_of_simplification(e: Any, wanted: Any) -> str:
    """Return what has to be done to get the wanted form."""
    if e.count_ops() <= MOST_OPERATIONS:
        for name, function in SIMPLIFICATIONS:
            try:
                if function(e) == wanted:
                    return name
            except (sp.PolynomialError, ValueError, TypeError, NotImplementedError, AttributeError):
                continue
    before, new = e.atoms(RowFunction), sorted({f.func.__name__ for f in wanted.atoms(RowFunction) - e.atoms(RowFunction)})
    known = {f.func.__name__ for f in before}
    said = [(SYMMETRIES if name in known else DEFINITIONS).get(name, "") for name in new]
    return "; ".join(["simplify", *filter(None, said)])


DEFINITIONS = {
    "sigmoid": "sigmoid(u) = exp(u)/(1 + exp(u))",
    "softplus": "softplus(u) = log(1 + exp(u))",
    "log_sigmoid": "log_sigmoid(u) = -log(1 + exp(-u))",
    "expm1": "expm1(u) = exp(u) - 1",
    "log1p": "log1p(u) = log(1 + u)",
    "sech_square": "sech_square(u) = 1 - tanh(u)²",
}
"""Functions that appear in a result but not in the lines before it."""
SYMMETRIES = {"sigmoid": "1 - sigmoid(u) = sigmoid(-u)"}
"""What relates functions in a result to those of the same name before it."""
