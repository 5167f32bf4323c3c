"""The normal form in which rules compare sums and products: coefficients and powers, whatever their spelling.

    x - 1, -1 + x, -(1 - x)     -> constant -1, terms ((1, x¹),)
    2 * x / y, x * (2 / y)      -> constant 0, terms ((2, x¹ y⁻¹),)
    1 + exp(x), expm1(x) + 2    -> constant 1, terms ((1, exp(x)¹),)

A node is a value of a graph, an application that is about to become one, or a pattern: each has `op`, `args` and `attrs`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SUMS = frozenset(("add", "sub", "rsub", "expm1"))
PRODUCTS = frozenset(("mul", "div", "rdiv", "neg", "reciprocal", "square", "sqrt", "rsqrt", "power"))
POLYNOMIAL = SUMS | PRODUCTS
"""Rows that have a normal form other than themselves."""
_ROOTS = {"square": 2, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1}
_DIFFERENCES = {"add": (1, 1), "sub": (1, -1), "rsub": (-1, 1)}
_NUMBERS = (int, float, complex)
_QUOTIENTS = {"mul": (1, 1), "div": (1, -1), "rdiv": (-1, 1)}
_MOST_OPENED = 100
"""Nodes that are taken apart for one form; the rest stays whole. No rule has a pattern of that size, and in x = x + 0.5 * x, repeated n
times, there are 3ⁿ addends."""

Number = Callable[[Any], Any]
Factors = tuple[tuple[Any, Any], ...]
"""Bases with their powers; in a pattern a power may be a variable."""


@dataclass(frozen=True, eq=False)
class Term:
    """An addend: coefficient · Π base ** power."""

    coefficient: Any
    factors: Factors
    whole: Any = None
    """The node that is this addend, up to `outer`."""
    outer: Any = None
    """What `whole` is multiplied by, if there is one."""


@dataclass(frozen=True, eq=False)
class NormalForm:
    """A constant and the other addends of a node."""

    constant: Any
    terms: tuple[Term, ...]

    @cached_property
    def ops(self) -> frozenset[str]:
        """The ops of all bases."""
        return frozenset([x.op for term in self.terms for x, _ in term.factors])


def without_common_factors(form: NormalForm) -> tuple[NormalForm, Factors]:
    """Return a sum without the factors that all its addends share, and these factors: y * exp(x) - y -> exp(x) - 1, (y¹,)."""
    shared = {id(x): (x, power) for x, power in form.terms[0].factors} if form.terms and not form.constant else {}
    for term in form.terms[1:]:
        powers = {id(x): power for x, power in term.factors}
        shared = {i: (x, min(power, powers[i])) for i, (x, power) in shared.items() if i in powers}
    shared = {i: (x, power) for i, (x, power) in shared.items() if power > 0}
    constant, terms = form.constant, []
    for term in form.terms if shared else ():
        rest = [(x, power - shared[id(x)][1] if id(x) in shared else power) for x, power in term.factors]
        factors = tuple((x, power) for x, power in rest if power)
        if factors:
            terms.append(Term(term.coefficient, factors))
        else:
            constant += term.coefficient
    return NormalForm(constant, tuple(terms)), tuple(shared.values())


def normal_form(node: Any, number: Number, exp: Callable[[Any], Any]) -> NormalForm:
    """Return the addends of a node. `number(x)` is the number that fills a node or None, `exp(x)` the exponential of the argument of an
    expm1 node."""
    constant: Any = 0
    terms: list[Term] = []
    stack: list[tuple[Any, Any]] = [(node, 1)]
    opened = itertools.count()
    while stack:
        x, c = stack.pop()
        value = number(x)
        if value is not None:
            constant += c * value
        elif next(opened) >= _MOST_OPENED:
            terms.append(Term(c, ((x, 1),), x, c))
        elif x.op in _DIFFERENCES:
            stack += [(a, c * sign) for a, sign in zip(x.args, _DIFFERENCES[x.op], strict=True)][::-1]
        elif x.op == "neg":
            stack.append((x.args[0], -c))
        elif x.op == "expm1":
            constant -= c
            terms.append(Term(c, ((exp(x), 1),)))
        else:
            factor, bases = _factors(x, number, opened)
            base, power = bases[0] if len(bases) == 1 else (x, 0)
            if base is not x and base.op in SUMS and isinstance(power, _NUMBERS) and power == 1:  # 2 * (1 + x) -> 2 + 2 * x
                stack.append((base, c * factor))
            else:
                terms.append(Term(c * factor, bases, x, c))
    return NormalForm(constant, tuple(terms))


def _factors(node: Any, number: Number, opened: Iterator[int]) -> tuple[Any, Factors]:
    """Return the coefficient and the bases with their powers of a product. `opened` counts the nodes that were taken apart."""
    coefficient: Any = 1
    powers: dict[int, list[Any]] = {}
    stack: list[tuple[Any, Any]] = [(node, 1)]
    while stack:
        x, power = stack.pop()
        value = number(x)
        if power % 1 != 0:  # or infinite or NaN; sqrt(x * x) is |x|, not x: what is under a root stays whole
            powers.setdefault(id(x), [x, 0])[1] += power
        elif value is not None and (value != 0 or power > 0):
            coefficient *= value**power if power > 0 else 1 / value**-power
        elif next(opened) >= _MOST_OPENED:
            powers.setdefault(id(x), [x, 0])[1] += power
        elif x.op == "neg":
            coefficient *= -1 if power % 2 else 1
            stack.append((x.args[0], power))
        elif x.op in _QUOTIENTS:
            stack += [(a, power * sign) for a, sign in zip(x.args, _QUOTIENTS[x.op], strict=True)][::-1]
        elif power == 1 and x.op == "power" and not isinstance(x.attrs["exponent"], _NUMBERS):  # in a pattern: a variable binds it
            powers[id(x)] = [x.args[0], x.attrs["exponent"]]
        elif (inner := _exponent(x)) is not None and (inner % 1 == 0 or power == 1):
            stack.append((x.args[0], power * inner))
        else:
            powers.setdefault(id(x), [x, 0])[1] += power
    return coefficient, tuple([(x, power) for x, power in powers.values()])


def _exponent(node: Any) -> Any:
    """Return the exponent of a power of a node, None if it is none."""
    if node.op == "power":
        exponent = node.attrs["exponent"]
        return exponent if isinstance(exponent, (int, float)) else None
    return _ROOTS.get(node.op)
