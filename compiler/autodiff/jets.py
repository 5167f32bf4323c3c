"""Taylor coefficients, graph to graph, of any order:  x + t v  ->  y_0 + y_1 t + y_2 t² + ...

A row needs no rule of its own for this. Its forward derivative is a small graph of other rows, y' = J(x) x', and comparing coefficients
gives k y_k = (J(x) x')_(k-1): coefficients of one order less. Values are interned, so the sine in the derivative of a cosine is the sine
that is already known, and the recurrence costs about as many operations as the series of a product. Three kinds of rows are shorter:

    linear rows     y_k = J x_k                                  sums, reshapes, also relu: its mask does not vary
    products        y_k = Σ_j a_j b_(k-j)                        mul, matmul, cross, convolution
    quotients       y_k = (a_k - Σ_(j>0) b_j y_(k-j)) / b_0      div, and solve with a matrix
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

from symgrad.compiler.autodiff.forward import expanded, forward_derivative, or_zero
from symgrad.compiler.autodiff.pull import chosen_inputs, fresh, is_differentiable
from symgrad.compiler.ir.builder import apply, with_args, xp
from symgrad.compiler.ir.control_flow import TRANSFORMS, is_control
from symgrad.compiler.ir.fold import filled, number
from symgrad.compiler.ir.graph import OUTPUT, Graph, Value, input_value, row_of, toposort
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.rewrite.decompose import decompose
from symgrad.compiler.rewrite.drop_hooks import drop_hooks
from symgrad.ops.exact import exact
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row

Coefficient = Value | None
"""One Taylor coefficient; None is zero."""
_MAX_PRODUCTS = 8
"""Integer powers up to this one are products, which are right at zero, too."""


_EXACT = 2**12
"""Floats are exact numbers if they are a multiple of its reciprocal."""


class Jet:
    """The Taylor coefficients of values along one curve, up to an order; `series` has those of the values where the curve starts, from
    order 1 on. `free` are numbers of inputs that nobody uses."""

    def __init__(self, series: Mapping[Value, Sequence[Coefficient]], order: int, free: Iterator[int]) -> None:
        self.order, self._free = order, free
        self._known: dict[tuple[Value, int], Any] = {(v, k): c for v, cs in series.items() for k, c in enumerate(cs, start=1)}
        self._varies: dict[Value, bool] = dict.fromkeys(series, True)
        self._of: dict[Value, Value] = {}
        self._rates: dict[Value, Value] = {}
        self._slopes: dict[Value, list[Value]] = {}
        self._linear: dict[Value, bool] = {}
        self._curved: dict[Value, bool] = dict.fromkeys(series, True)
        self._starts: dict[Value, Any] = {}

    def series(self, outputs: Sequence[Value]) -> list[list[Coefficient]]:
        """Return the coefficients of each output, from order 1 on. Every value is reached order by order, so that no recursion is deep."""
        orders = range(1, self.order + 1)
        values = toposort(outputs)
        for k in orders:
            for v in values:
                self.at(v, k)
        return [[self.at(v, k) for k in orders] for v in outputs]

    def varies(self, v: Value) -> bool:
        """True if a value depends on the curve in a differentiable way."""
        for u in [] if v in self._varies else toposort((v,), self._varies):
            if u not in self._varies:
                self._varies[u] = self._is_moved(u)
        return self._varies[v]

    def _is_moved(self, v: Value) -> bool:
        if not isinstance(v.dtype, tuple) and kind(v.dtype) not in "fc":
            return False
        return any(a is not None and self._varies[a] and is_differentiable(v, i) for i, a in enumerate(v.args))

    def at(self, v: Value, k: int) -> Any:
        """Return coefficient k of a value; a tuple for an application with several outputs."""
        if k == 0:
            return self._start(v)
        if not self.varies(v):
            return (None,) * len(v.dtype) if isinstance(v.dtype, tuple) else None
        if (v, k) not in self._known:
            self._known[v, k] = self._coefficient(v, k)
        return self._known[v, k]

    def _start(self, v: Value) -> Any:
        """Return a value where the curve starts: with the first coefficients in place of rates."""
        return interpret((v,), self._starts, with_args, leaf=lambda u: or_zero(self.at(self._of[u], 1), u) if u in self._of else u)[0]

    def _coefficient(self, v: Value, k: int) -> Any:
        if v in self._of:  # the derivative of a value along the curve
            return _scaled(self.at(self._of[v], k + 1), k + 1)
        if v.op == OUTPUT:
            return self.at(v.args[0], k)[v.attrs["index"]]
        if is_control(v):
            return self._through_control(v)[k - 1]
        recurrence = RECURRENCES.get(v.op) if self.order > 1 else None
        found = recurrence(self, v, k) if recurrence is not None else NotImplemented
        return self._by_rule(v, k) if found is NotImplemented else found

    def _through_control(self, v: Value) -> list[Any]:
        """Return the coefficients of a loop or a branch, which computes those of all orders at once, and its results with them."""
        args = tuple(None if a is None else self._start(a) for a in v.args)
        orders = range(1, self.order + 1)
        series = [[self.at(a, k) if self._leads_on(v, i) else None for k in orders] for i, a in enumerate(v.args)]
        values, found = TRANSFORMS["jets"](v, args, series, self.order)
        self._starts[v] = tuple(values)
        coefficients = [tuple(s[k - 1] for s in found) for k in orders]
        self._known.update({(v, k): c for k, c in enumerate(coefficients, start=1)})
        return coefficients

    def _by_rule(self, v: Value, k: int) -> Any:
        slopes = self._slope(v)
        if self._is_linear(v, slopes):
            found = self._along(v, k)
        else:
            found = [None if y is None else _scaled(self.at(y, k - 1), Fraction(1, k)) for y in slopes]
        return tuple(found) if isinstance(v.dtype, tuple) else found[0]

    def rate(self, v: Value) -> Value:
        """Return the value that stands for the derivative of `v` along the curve: its coefficients are those of v, one order higher."""
        if v not in self._rates:
            new = self._rates[v] = input_value(next(self._free), v.shape, v.dtype)
            self._of[new], self._varies[new] = v, True
        return self._rates[v]

    def _slope(self, v: Value) -> list[Any]:
        """Return the derivative of an application along the curve, in the derivatives of its arguments."""
        if v not in self._slopes:
            self._slopes[v] = forward_derivative(v, {a: self.rate(a) for i, a in enumerate(v.args) if self._leads_on(v, i)})
        return self._slopes[v]

    def _leads_on(self, v: Value, i: int) -> bool:
        a = v.args[i]
        return a is not None and is_differentiable(v, i) and self.varies(a)

    def _is_linear(self, v: Value, slopes: Sequence[Any]) -> bool:
        """True if the derivative of an application varies with the rates of its arguments only."""
        if v not in self._linear:
            self._linear[v] = not any(y is not None and self._is_curved(y) for y in slopes)
        return self._linear[v]

    def _is_curved(self, y: Value) -> bool:
        """True if a value varies along the curve, and not with rates only. What is built of an argument may bypass it: x * expand(x) in
        place of expand(x) * expand(x)."""
        for u in [] if y in self._curved else toposort((y,), self._curved):
            if u not in self._curved:
                found = [a is not None and self._curved[a] and is_differentiable(u, i) for i, a in enumerate(u.args)]
                self._curved[u] = u not in self._of and any(found)
        return self._curved[y]

    def _along(self, v: Value, k: int) -> list[Any]:
        """Return the derivative of a linear application, with coefficients k of the arguments as their tangents."""
        found = {a: self.at(a, k) for i, a in enumerate(v.args) if self._leads_on(v, i)}
        return forward_derivative(v, {a: c for a, c in found.items() if c is not None}, self._start)


def _scaled(c: Any, factor: float | Fraction) -> Any:
    """Return a coefficient times a number. Exact factors are gathered, so that no coefficient is scaled twice."""
    if c is None or factor == 1:
        return c
    if isinstance(factor, (int, Fraction)):
        c, known = _factored(c)
        factor = Fraction(factor) * known
    if abs(factor) == 1:
        return c if factor == 1 else -c
    return xp.mul(c, exact(factor) if isinstance(factor, Fraction) else factor)


def _factored(c: Value) -> tuple[Value, Fraction]:
    """Return a value and an exact number, whose product `c` is."""
    factor = Fraction(1)
    while c.op in ("neg", "mul"):
        x, known = (c.args[0], Fraction(-1)) if c.op == "neg" else (c.args[0], _rational(c.args[1]))
        if known is None or (x.shape, x.dtype) != (c.shape, c.dtype):
            break
        c, factor = x, factor * known
    return c, factor


def _rational(n: Value) -> Fraction | None:
    """Return the number that a value stands for, if it is an integer, a quotient of integers, or a small multiple of a power of two."""
    parts = [number(part) for part in (n.args if n.op == "div" else (n,))]
    if len(parts) == 1 and type(parts[0]) is float and (parts[0] * _EXACT).is_integer():
        return Fraction(parts[0])
    return Fraction(*parts) if all(type(part) is int for part in parts) and 0 not in parts else None


def _total(terms: Iterable[Coefficient]) -> Coefficient:
    total: Coefficient = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _product(jet: Jet, v: Value, k: int) -> Any:
    """Return Σ_j a_j b_(k-j); the terms of a square come in pairs."""
    a, b, *bias = v.args
    if any(x is not None for x in bias):
        return NotImplemented
    if a is b and v.op == "mul":
        pairs = _total(_times(v, jet.at(a, j), jet.at(a, k - j)) for j in range((k + 1) // 2))
        middle = jet.at(a, k // 2) if k % 2 == 0 else None
        return _total((_scaled(pairs, 2), _times(v, middle, middle)))
    return _total(_times(v, jet.at(a, j), jet.at(b, k - j)) for j in range(k + 1))


def _times(v: Value, a: Coefficient, b: Coefficient) -> Coefficient:
    return None if a is None or b is None else apply(row_of(v), (a, b, *v.args[2:]), dict(v.attrs))


def _quotient(jet: Jet, v: Value, k: int) -> Any:
    a, b = v.args if v.op == "div" else v.args[::-1]
    return _divided(jet, v, jet.at(a, k), b, k)


def _divided(jet: Jet, v: Value, numerator: Coefficient, b: Value, k: int) -> Coefficient:
    """Return coefficient k of v = a / b, from that of a and the lower ones of v. All orders multiply by one reciprocal: XLA computes what a
    division reads once for each division. The coefficients of -b / b_0 are made once, so that each term takes one multiplication and one
    addition."""
    if not jet.varies(b):
        return None if numerator is None else numerator / jet.at(b, 0)
    inverse = xp.reciprocal(jet.at(b, 0))
    pairs = ((jet.at(b, j), jet.at(v, k - j)) for j in range(1, k + 1))
    known = _total(xp.mul(xp.mul(c, -inverse), y) for c, y in pairs if c is not None and y is not None)
    return _total((known, None if numerator is None else xp.mul(numerator, inverse)))


def _reciprocal(jet: Jet, v: Value, k: int) -> Any:
    return _divided(jet, v, None, v.args[0], k)


def _power(jet: Jet, v: Value, k: int) -> Any:
    """Return coefficient k of x**n: small integer powers are products; others follow from x y' = n x' y."""
    x, n = v.args
    exponent = number(n)
    if exponent is None or isinstance(exponent, complex):
        return NotImplemented
    if exponent == int(exponent) and 0 <= exponent <= _MAX_PRODUCTS:
        return jet.at(_repeated(x, int(exponent)), k)
    terms = (_times_number(jet.at(x, j), jet.at(v, k - j), exponent * j - (k - j)) for j in range(1, k + 1))
    total = _total(terms)
    return None if total is None else total / (jet.at(x, 0) * k)


def _times_number(a: Coefficient, b: Coefficient, factor: float) -> Coefficient:
    return None if a is None or b is None or factor == 0 else _scaled(a * b, factor)


def _repeated(x: Value, n: int) -> Value:
    if n < 2:
        return x if n else filled(xp, 1, Meta(x.shape, x.dtype))
    half = _repeated(x, n // 2)
    square = xp.mul(half, half)
    return xp.mul(square, x) if n % 2 else square


def _solve(jet: Jet, v: Value, k: int) -> Any:
    """Return coefficient k of a⁻¹ b: a_0 y_k = b_k - Σ_(j>0) a_j y_(k-j)."""
    a, b = v.args
    if b.ndim != a.ndim:
        return NotImplemented
    known = _total(c @ jet.at(v, k - j) for j in range(1, k + 1) if (c := jet.at(a, j)) is not None and jet.at(v, k - j) is not None)
    right = jet.at(b, k)
    if known is not None:
        right = -known if right is None else right - known
    return None if right is None else apply(row_of(v), (jet.at(a, 0), right), dict(v.attrs))


def _choice(jet: Jet, v: Value, k: int) -> Any:
    """Return where(c, a_k, b_k)."""
    condition, *parts = v.args
    found = [jet.at(x, k) for x in parts]
    if all(c is None for c in found):
        return None
    return xp.where(jet.at(condition, 0), *(0 if c is None else c for c in found))


RECURRENCES: dict[str, Callable[[Jet, Value, int], Any]] = {
    **dict.fromkeys(("mul", "matmul", "cross", "convolution", "convolution_transpose", "convolution_weight"), _product),
    **dict.fromkeys(("div", "rdiv"), _quotient),
    "reciprocal": _reciprocal,
    "pow": _power,
    "solve": _solve,
    "where": _choice,
}
"""Coefficient k of an application, for rows whose series is shorter than what their derivative gives; NotImplemented falls back to that."""


def taylor(graph: Graph, wrt: Sequence[int] | None, order: int, along_ones: bool = False) -> Graph:
    """Return a graph with the same inputs and a direction for each of `wrt`, whose outputs are the Taylor coefficients 0 to `order` of
    each output along it, one output after the other. Directions that are all ones are no inputs: products with them are left out. Tensor
    hooks do not apply."""
    graph = decomposed(graph)
    chosen = chosen_inputs(graph, wrt)
    free = count(len(graph.inputs))
    directions = [] if along_ones else [input_value(next(free), x.shape, x.dtype) for x in chosen]
    given = [filled(xp, 1, Meta(x.shape, x.dtype)) for x in chosen] if along_ones else directions
    jet = Jet({x: (v, *[None] * (order - 1)) for x, v in zip(chosen, given, strict=True)}, order, free)
    found = jet.series(graph.outputs)
    names = [fresh("v" if len(chosen) == 1 else f"v_{graph.labels[x.attrs['index']]}", graph.labels) for x in chosen[: len(directions)]]
    outputs = [expanded(or_zero(c, y), y) for y, cs in zip(graph.outputs, found, strict=True) for c in (jet.at(y, 0), *cs)]
    return Graph((*graph.inputs, *directions), outputs, (*graph.labels, *names))


def decomposed(graph: Graph) -> Graph:
    """Return the graph without hooks, and with compositions in place of fused rows."""
    return decompose(drop_hooks(graph), _is_fused)


def _is_fused(row: Row) -> bool:
    """True for rows that are differentiated as their compositions: all but those with a recurrence, or with an argument that has no
    derivative by convention."""
    return row.name not in RECURRENCES and None not in row.vjp
