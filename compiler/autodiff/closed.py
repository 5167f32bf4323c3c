"""Derivatives of one elementwise function in closed form: polynomials in a few values, the generators, with exact coefficients.

    D exp(-x²/2) = -x E        D E = -x E                                    generators x, E
    D tanh x     = w           D w = -2 t w       with w = 1 - t²             generators t, w
    D 1/(1 + x²) = -2 x r²     D r = -2 x r²      with r = 1 / (1 + x²)      generators x, r

The derivative of a generator is a polynomial in generators, by the rule of its row, and so is that of every order. What is a sum in such a
rule becomes a generator of its own: 1 - t² is not expanded, so that small values are not differences of large ones. A polynomial is nested
as by Horner, and is a tree apart from the generators, which XLA fuses without computing any part of it twice; a recurrence of the same
number of operations is not. Of a product a b the derivatives of a and b are polynomials, and combined as by Leibniz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import comb, factorial
from operator import add, sub

from symgrad.compiler.autodiff.forward import expanded, forward_derivative
from symgrad.compiler.autodiff.jets import decomposed
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import filled, number
from symgrad.compiler.ir.graph import Graph, Value, toposort
from symgrad.ops.exact import exact
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta

Monomial = tuple[int, ...]
"""The power of each generator."""
Polynomial = dict[Monomial, Fraction]
_MOST_GENERATORS, _MOST_TERMS = 8, 150
_LOWEST = 3
"""Up to order 2 the recurrences are as short."""
_ONE: Monomial = (0,) * _MOST_GENERATORS


class _NotClosedError(Exception):
    """The derivatives are no short polynomials in few values."""


def derivative(y: Value, x: Value, order: int) -> Value | None:
    """Return the derivative of this order of y in x at each element, or None if it has no short closed form. Every value between the two
    has to be an elementwise function of x alone."""
    if kind(x.dtype) != "f" or x.dtype.itemsize < 4:
        return None
    try:
        return _Derivatives(x).of(y, order)
    except _NotClosedError:
        return None


class _Derivatives:
    def __init__(self, x: Value) -> None:
        self.x = x
        self._generators: list[Value] = []
        self._rules: list[Callable[[], Polynomial]] = []
        self._rates: dict[int, Polynomial] = {}
        self._tame: set[int] = set()
        """Generators that are bounded, or functions of such."""
        self._mild = {0}
        """Others that grow no faster than powers of x."""
        self._known: dict[Value, Polynomial] = {}
        self._powers: dict[Monomial, Value] = {}
        self._known[x] = self._generator(x, lambda: {_ONE: Fraction(1)})

    def of(self, y: Value, order: int) -> Value:
        varying = [a for a in y.args if a is not None and number(a) is None]
        if y.op != "mul" or len(varying) < 2:
            p = self._orders(y, order)[order]
            common = tuple(map(min, zip(*p, strict=True))) if p else _ONE
            rest = _without(p, common)
            return expanded(self._nested(p) if common == _ONE else self._scaled(self._nested(rest), common, [rest]), y)
        left, right = (self._orders(a, order) for a in varying)
        factors = [tuple(map(min, zip(*(powers for p in side for powers in p), strict=True))) for side in (left, right)]
        left, right = ([_without(p, common) for p in side] for side, common in zip((left, right), factors, strict=True))
        pairs = [(_scaled(left[k], Fraction(comb(order, k))), right[order - k]) for k in range(order + 1)]
        terms = [self._nested(a) * self._nested(b) for a, b in pairs if a and b]
        total = sum(terms[1:], terms[0])
        common = tuple(map(add, *factors))
        return expanded(total if common == _ONE else self._scaled(total, common, [*left, *right]), y)

    def _orders(self, y: Value, order: int) -> list[Polynomial]:
        """Return the derivatives of order 0 to `order`."""
        found = [self._polynomial(y)]
        for _ in range(order):
            found.append(_short(self._derived(found[-1])))
        return found

    # values as polynomials

    def _polynomial(self, v: Value) -> Polynomial:
        for u in toposort((v,), self._known):
            if u not in self._known:
                self._known[u] = _short(self._read(u))
        return self._known[v]

    def _read(self, v: Value) -> Polynomial:
        n = _constant(v)
        if n is not None:
            return {_ONE: n} if n else {}
        self._require_elementwise(v)
        if v.op in _ARITHMETIC:
            return _ARITHMETIC[v.op](*[self._known[a] for a in v.args])
        if v.op in ("div", "rdiv", "reciprocal"):
            return self._quotient(v)
        return self._function(v)

    def _require_elementwise(self, v: Value) -> None:
        if v.row is None or not v.row.elementwise or (v.shape, v.dtype) != (self.x.shape, self.x.dtype):
            raise _NotClosedError

    def _quotient(self, v: Value) -> Polynomial:
        below = v.args[1 if v.op == "div" else 0]
        n = _constant(below)
        above = {_ONE: Fraction(1)} if v.op == "reciprocal" else self._known[v.args[0 if v.op == "div" else 1]]
        if n:
            return _scaled(above, 1 / n)
        inverse = xp.reciprocal(below)
        self._require_mild(self._known[below])
        if inverse not in self._known:
            slope = _scaled(self._known[below], Fraction(-1))
            self._known[inverse] = self._generator(inverse, lambda: _times(_times(r, r), self._derived(slope)))
            r = self._known[inverse]
        return _times(above, self._known[inverse])

    def _require_mild(self, p: Polynomial) -> None:
        """Refuse functions that grow like exp(x) below a quotient: exp(x) / (1 + exp(x)) tends to 1, and its derivatives would be small
        differences of large terms."""
        if not _used(p) <= self._mild | self._tame:
            raise _NotClosedError

    def _function(self, v: Value) -> Polynomial:
        """Return a new generator, whose derivative is that of its row."""
        varying = [a for a in dict.fromkeys(v.args) if a is not None and number(a) is None]
        if len(varying) != 1:
            raise _NotClosedError
        below = self._known[varying[0]]
        (slope,) = forward_derivative(v, {varying[0]: filled(xp, 1, Meta(v.shape, v.dtype))})
        if slope is None:
            raise _NotClosedError
        if v.op in _BOUNDED or _used(below) <= self._tame:
            self._tame.add(len(self._generators))
        if v.op == "sqrt":
            self._mild.add(len(self._generators))
        return self._generator(v, lambda: _times(self._slope(slope), self._derived(below)))

    def _slope(self, slope: Value) -> Polynomial:
        """Return the derivative of a row; the sums in it become generators."""
        for u in toposort((slope,), self._known):
            if u.op in ("add", "sub") and _constant(u) is None:
                self._require_elementwise(u)
                self._known[u] = self._sum(u, self._polynomial(u))
        return self._polynomial(slope)

    def _sum(self, u: Value, meaning: Polynomial) -> Polynomial:
        place = len(self._generators)
        if _used(meaning) <= self._mild | self._tame:
            (self._tame if _used(meaning) <= self._tame else self._mild).add(place)
        return self._generator(u, lambda: self._named(self._derived(meaning), place, meaning))

    def _named(self, p: Polynomial, place: int, meaning: Polynomial) -> Polynomial:
        """Return a polynomial with a generator in place of the factor that it stands for."""
        quotient = _divided(p, meaning)
        return p if quotient is None else _times(quotient, {_unit(place): Fraction(1)})

    def _generator(self, v: Value, rule: Callable[[], Polynomial]) -> Polynomial:
        """Return a new generator as a polynomial; `rule` returns its derivative."""
        if len(self._generators) == _MOST_GENERATORS:
            raise _NotClosedError
        self._generators.append(v)
        self._rules.append(rule)
        return {_unit(len(self._generators) - 1): Fraction(1)}

    def _rate(self, place: int) -> Polynomial:
        if place not in self._rates:
            self._rates[place] = _short(self._rules[place]())
        return self._rates[place]

    def _derived(self, p: Polynomial) -> Polynomial:
        total: Polynomial = {}
        for powers, c in p.items():
            for i, n in enumerate(powers):
                if n:
                    less = (*powers[:i], n - 1, *powers[i + 1 :])
                    total = _plus(total, _times({less: c * n}, self._rate(i)))
        return total

    # polynomials as values

    def _nested(self, p: Polynomial) -> Value:
        """Return a polynomial as a value, with common factors taken out of as many terms as have them."""
        if not p:
            return filled(xp, 0, Meta(self.x.shape, self.x.dtype))
        if len(p) == 1:
            ((powers, c),) = p.items()
            return filled(xp, exact(c), Meta(self.x.shape, self.x.dtype)) if powers == _ONE else self._product(powers) * exact(c)
        common = tuple(map(min, zip(*p, strict=True)))
        if common != _ONE:
            return self._product(common) * self._nested(_without(p, common))
        most = max(range(_MOST_GENERATORS), key=lambda i: sum(powers[i] > 0 for powers in p))
        there = {powers: c for powers, c in p.items() if powers[most]}
        rest = {powers: c for powers, c in p.items() if not powers[most]}
        return self._nested(there) + (exact(rest[_ONE]) if list(rest) == [_ONE] else self._nested(rest))

    def _scaled(self, total: Value, common: Monomial, parts: Sequence[Polynomial]) -> Value:
        """Return a value made of `parts` times a factor. Where the factor is zero, so is the product: powers of x overflow where
        exp(-x²) has long vanished."""
        factor = self._product(common)
        if all(_used(part) <= self._tame for part in parts) or not self._may_vanish(common):
            return factor * total
        return xp.where(xp.eq(factor, 0), 0, factor * total)

    def _may_vanish(self, common: Monomial) -> bool:
        return any(n and v.op in _VANISHING for n, v in zip(common, self._generators, strict=False))

    def _product(self, powers: Monomial) -> Value:
        """Return a product of powers of generators. Factors that are small together, such as x and 1/(1 + x²), meet before they are
        squared, so that less overflows."""
        if powers not in self._powers:
            self._powers[powers] = self._made(powers)
        return self._powers[powers]

    def _made(self, powers: Monomial) -> Value:
        if sum(powers) == 1:
            return self._generators[powers.index(1)]
        if max(powers) == 1:
            last = max(i for i, n in enumerate(powers) if n)
            return self._product(tuple(n * (i != last) for i, n in enumerate(powers))) * self._generators[last]
        if all(n % 2 == 0 for n in powers):
            half = self._product(tuple(n // 2 for n in powers))
            return half * half
        every = tuple(min(n, 1) for n in powers) if sum(map(bool, powers)) > 1 else tuple(n % 2 for n in powers)
        return self._product(every) * self._product(tuple(map(sub, powers, every)))


_BOUNDED = frozenset(("sin", "cos", "tanh", "sigmoid"))
_VANISHING = frozenset(("exp", "reciprocal"))
"""Rows whose results may be zero where other generators overflow."""


def _used(p: Polynomial) -> set[int]:
    return {i for powers in p for i, n in enumerate(powers) if n}


def _unit(place: int) -> Monomial:
    return tuple(int(i == place) for i in range(_MOST_GENERATORS))


def _constant(v: Value) -> Fraction | None:
    """Return the number that a value stands for, if it is an exact one."""
    parts = [number(a) for a in v.args] if v.op == "div" else [number(v)]
    if not all(type(n) in (int, float) and n - n == 0 for n in parts) or 0 in parts[1:]:
        return None
    return Fraction(parts[0]) / Fraction(parts[1]) if len(parts) == 2 else Fraction(parts[0])


def _short(p: Polynomial) -> Polynomial:
    if len(p) > _MOST_TERMS:
        raise _NotClosedError
    return p


def _plus(a: Mapping[Monomial, Fraction], b: Mapping[Monomial, Fraction], factor: int = 1) -> Polynomial:
    total = dict(a)
    for powers, c in b.items():
        total[powers] = total.get(powers, Fraction(0)) + factor * c
    return {powers: c for powers, c in total.items() if c}


def _times(a: Mapping[Monomial, Fraction], b: Mapping[Monomial, Fraction]) -> Polynomial:
    total: Polynomial = {}
    for p, c in a.items():
        for q, d in b.items():
            powers = tuple(map(add, p, q))
            total[powers] = total.get(powers, Fraction(0)) + c * d
    return _short({powers: c for powers, c in total.items() if c})


def _scaled(p: Polynomial, factor: Fraction) -> Polynomial:
    return {powers: c * factor for powers, c in p.items()}


def _without(p: Polynomial, common: Monomial) -> Polynomial:
    return {tuple(map(sub, powers, common)): c for powers, c in p.items()}


def _divided(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """Return p / q if that is a polynomial, by long division."""
    quotient: Polynomial = {}
    lead = max(q, default=_ONE)
    while p and q:
        powers = tuple(map(sub, max(p), lead))
        if min(powers) < 0 or len(quotient) == _MOST_TERMS:
            return None
        term = {powers: p[max(p)] / q[lead]}
        quotient, p = _plus(quotient, term), _plus(p, _times(term, q), -1)
    return quotient


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial:
    n = exponent.get(_ONE, Fraction(0))
    if any(powers != _ONE for powers in exponent) or n.denominator != 1 or not 0 < n <= 8:
        raise _NotClosedError
    total = base
    for _ in range(int(n) - 1):
        total = _times(total, base)
    return total


_ARITHMETIC: dict[str, Callable[..., Polynomial]] = {
    "add": _plus,
    "sub": lambda a, b: _plus(a, b, -1),
    "mul": _times,
    "neg": lambda a: _scaled(a, Fraction(-1)),
    "square": lambda a: _times(a, a),
    "pow": _power,
}
"""Rows whose results are polynomials again."""


def closed_coefficients(graph: Graph, order: int) -> dict[int, Value]:
    """Return closed forms of the Taylor coefficients of this order along ones in the first input, by their position among the coefficients
    of all outputs."""
    if order < _LOWEST:
        return {}
    graph = decomposed(graph)
    found = {(order + 1) * i + order: derivative(y, graph.inputs[0], order) for i, y in enumerate(graph.outputs)}
    return {place: v * exact(Fraction(1, factorial(order))) for place, v in found.items() if v is not None}
