"""Matching a pattern against a graph: every way to bind its variables.

`normal` asks for the normal form of sums and products (see `symgrad.compiler.ir.normal_form`); then `log(1 + x)` also matches log1p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, permutations
from math import isfinite
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import Value, intern, number
from symgrad.compiler.ir.normal_form import PRODUCTS, Factors, NormalForm, Term, normal_form, without_common_factors
from symgrad.compiler.ir.pattern import CONSTANT, VARIABLE, Bindings, P, Pattern
from symgrad.ops.table import TABLE

COMMUTATIVE = frozenset((
    "add", "mul", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "eq", "ne", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor",
))  # fmt: skip
"""Rows whose operands match in either order."""
_MOST = 5
"""Longer sums and products are not matched, since their addends or factors are tried in any order."""


def match(pattern: Any, value: Any, bound: Bindings, normal: bool) -> Iterator[Bindings]:
    """Yield the bindings under which a pattern is the value, each an extension of `bound`."""
    if value is None:  # an omitted argument
        return
    if not isinstance(pattern, Pattern):
        if is_number(pattern, number(value)):
            yield bound
    elif pattern.op == VARIABLE:
        (name,) = pattern.args
        if bound.get(name, value) is value:
            yield {**bound, name: value}
    elif pattern.op == CONSTANT:
        yield from _match_constant(pattern, number(value), bound)
    elif normal and pattern.polynomial:
        yield from _match_form(pattern_form(pattern), value_form(value), value.shape, bound)
    elif value.op == pattern.op:
        yield from _match_application(pattern, value, bound, normal)
    elif normal and value.op == "log1p" and is_log_of_sum(pattern):
        form = value_form(value.args[0])
        yield from _match_form(pattern_form(pattern.args[0]), NormalForm(form.constant + 1, form.terms), value.shape, bound)
    elif normal and value.op in PRODUCTS and (only := _only_factor(value)) is not None:
        yield from match(pattern, only, bound, True)


def _only_factor(value: Value) -> Value | None:
    """Return y if a value is y with another spelling, such as 2 * y / 2."""
    form = value_form(value)
    if form.constant or len(form.terms) != 1 or form.terms[0].coefficient != 1 or len(form.terms[0].factors) != 1:
        return None
    (found, power), = form.terms[0].factors
    return found if power == 1 and found is not value and found.shape == value.shape else None


def is_number(wanted: Any, found: Any) -> bool:
    """True if a number is the wanted one; NaN is NaN."""
    return found is not None and bool(wanted == found or (wanted != wanted and found != found))


def is_log_of_sum(pattern: Pattern) -> bool:
    """True if a pattern also matches log1p."""
    return pattern.op == "log" and isinstance(pattern.args[0], Pattern) and pattern.args[0].polynomial


def _match_constant(pattern: Pattern, found: Any, bound: Bindings) -> Iterator[Bindings]:
    (name,) = pattern.args
    if found is not None and is_number(bound.get(name, found), found):
        yield {**bound, name: found}


def _match_application(pattern: Pattern, value: Any, bound: Bindings, normal: bool) -> Iterator[Bindings]:
    for name, wanted in pattern.attrs.items():
        given = value.attrs[name]
        if isinstance(wanted, Pattern):
            (variable,) = wanted.args
            same = bound.get(variable, given) == given
            bound = {**bound, variable: given}
        else:
            same = given == wanted
        if not same:
            return
    yield from _match_all(pattern.args, value.args, bound, normal)
    if pattern.op in COMMUTATIVE and value.args[0] is not value.args[1]:
        yield from _match_all(pattern.args, value.args[::-1], bound, normal)


def _match_all(patterns: Sequence[Any], values: Sequence[Any], bound: Bindings, normal: bool) -> Iterator[Bindings]:
    if len(patterns) != len(values):
        return
    if not patterns:
        yield bound
        return
    for found in match(patterns[0], values[0], bound, normal):
        yield from _match_all(patterns[1:], values[1:], found, normal)


# sums and products


def value_form(value: Any) -> NormalForm:
    """Return the normal form of a value, or of an application that is not one yet."""
    return normal_form(value, number, _exp_of_expm1)


@cache
def pattern_form(pattern: Pattern) -> NormalForm:
    """Return the normal form of a pattern."""
    return normal_form(pattern, lambda p: None if isinstance(p, Pattern) else p, lambda p: P.exp(*p.args))


def _exp_of_expm1(v: Any) -> Value:
    return intern("exp", TABLE["exp"], v.args, {}, v.shape, v.dtype)


def _match_form(pattern: NormalForm, form: NormalForm, shape: Any, bound: Bindings) -> Iterator[Bindings]:
    """Match addends in any order."""
    if len(pattern.terms) == len(form.terms) and is_number(pattern.constant, form.constant) and _gives_shape(form, shape):
        for terms in permutations(form.terms):
            yield from _match_terms(pattern.terms, terms, 1, bound)


def _gives_shape(form: NormalForm, shape: Any) -> bool:
    """True if the terms alone give the sum its shape: numbers are not bound."""
    return bool(np.broadcast_shapes(*[x.shape for term in form.terms for x, _ in term.factors]) == shape)


def _match_terms(patterns: Sequence[Term], terms: Sequence[Term], scale: Any, bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _match_term(patterns[0], terms[0], scale, bound):
        yield from _match_terms(patterns[1:], terms[1:], scale, found)


def _match_term(pattern: Term, term: Term, scale: Any, bound: Bindings) -> Iterator[Bindings]:
    wanted = pattern.coefficient * scale
    if is_number(wanted, term.coefficient) and len(pattern.factors) == len(term.factors) <= _MOST:
        for factors in permutations(term.factors):
            yield from _match_factors(pattern.factors, factors, bound)
    (first, power), *others = pattern.factors
    alone = not others and first.op == VARIABLE and isinstance(power, int) and power == 1
    if alone and wanted == term.outer and isinstance(term.whole, Value):
        yield from match(first, term.whole, bound, True)  # a variable is also bound to 2 * y or to y * z


def _match_factors(patterns: Factors, factors: Factors, bound: Bindings) -> Iterator[Bindings]:
    for (_, wanted), (_, power) in zip(patterns, factors, strict=True):
        if isinstance(wanted, Pattern):
            (name,) = wanted.args
            if bound.get(name, power) != power:
                return
            bound = {**bound, name: power}
        elif wanted != power:
            return
    yield from _match_all([p for p, _ in patterns], [x for x, _ in factors], bound, True)


@dataclass(frozen=True, slots=True)
class Multiple:
    """What a value is, besides a pattern: value = scale · Π rest · pattern."""

    scale: Any = 1
    rest: Factors = ()


def match_multiple(pattern: NormalForm, form: NormalForm, shape: Any) -> Iterator[tuple[Bindings, Multiple]]:
    """Yield the bindings under which a pattern, times a number and other factors, is the value with normal form `form`: 2 * exp(x) - 2 is
    2 (exp(x) - 1), and y * exp(x) - y is y (exp(x) - 1)."""
    if len(pattern.terms) == 1 and pattern.constant == 0:
        return _match_part(pattern.terms[0], form, shape)
    if len(form.terms) not in (len(pattern.terms), len(pattern.terms) + 1) or not _gives_shape(form, shape):
        return iter(())
    given = _match_scaled(pattern, form, ())
    if len(form.terms) == 1 or form.constant:
        return given
    return chain(given, _match_scaled(pattern, *without_common_factors(form)))


def _match_scaled(pattern: NormalForm, form: NormalForm, shared: Factors) -> Iterator[tuple[Bindings, Multiple]]:
    """Match a sum up to a number, which the constants give if there are any, else the first addends."""
    if len(pattern.terms) != len(form.terms) or bool(pattern.constant) != bool(form.constant):
        return
    for terms in permutations(form.terms):
        found, wanted = terms[0].coefficient, pattern.terms[0].coefficient
        scale = _ratio(form.constant, pattern.constant) if pattern.constant else _ratio(found, wanted)
        if scale is not None and is_number(pattern.constant * scale, form.constant):
            for bound in _match_terms(pattern.terms, terms, scale, {}):
                yield bound, Multiple(scale, shared)


def _match_part(pattern: Term, form: NormalForm, shape: Any) -> Iterator[tuple[Bindings, Multiple]]:
    """Match some of the factors of a product."""
    if len(form.terms) != 1 or form.constant:
        return
    (term,), count = form.terms, len(pattern.factors)
    scale = _ratio(term.coefficient, pattern.coefficient)
    if scale is None or not count <= len(term.factors) <= _MOST or not _gives_shape(form, shape):
        return
    for chosen in permutations(range(len(term.factors)), count):
        for bound in _match_factors(pattern.factors, tuple([term.factors[i] for i in chosen]), {}):
            yield bound, Multiple(scale, tuple([f for i, f in enumerate(term.factors) if i not in chosen]))


def _ratio(x: Any, y: Any) -> Any:
    """Return x / y, an integer if it is one; None if it is not a finite number other than 0."""
    try:
        found = x / y
    except (ZeroDivisionError, OverflowError):
        return None
    if isinstance(found, complex) or not isfinite(found) or found == 0:
        return None
    return int(found) if found == int(found) else found
