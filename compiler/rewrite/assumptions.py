"""A' -> A if A is symmetric, |x| -> x if x is positive: equations that hold for what is known of values.

    elements    |x| -> x, log(x y) -> log x + log y                before differentiation: what is positive stays so nearby
    values      A' -> A, Q'Q -> I, D x -> d * x, [x > 0] -> 1      after it: a matrix beside a symmetric one is not symmetric, and
                                                                   derivatives are those of a function of all its elements

They apply to graphs with an `assume` only, and there to all facts (`symgrad/compiler/ir/facts.py`), also to those that follow from how a
value was made.
`drop_assumptions` ends the pipeline of these graphs: neither formulas nor kernels have the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.ir.builder import xp as build
from symgrad.compiler.ir.facts import facts, transposes
from symgrad.compiler.ir.graph import Graph, Value, literal, number, walk
from symgrad.compiler.ir.match import value_form
from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.table import Table
from symgrad.ops.assumptions import normal_words
from symgrad.ops.promotion import kind

a, b, v, x = map(variable, ("a", "b", "v", "x"))
axis, check, i, j, k, keepdims, shape = map(variable, ("axis", "check", "i", "j", "k", "keepdims", "shape"))


def drop_assumptions(graph: Graph) -> Graph:
    """assume(x) -> x: what is known has been used."""
    return rewrite(graph, lambda v, args: args[0] if v.op == "assume" else None)


def words_by_value(graph: Graph) -> dict[Value, tuple[str, ...]]:
    """Return the values of which something is assumed, also inside of loops and branches, with the words."""
    found: dict[Value, set[str]] = {}
    for v in walk(graph) if "assume" in graph.ops else ():
        if v.op == "assume":
            x = v.args[0]
            while x.op == "assume":
                x = x.args[0]
            found.setdefault(x, set()).update(v.attrs["words"])
    return {x: normal_words(words) for x, words in found.items()}


def symmetric_inputs(graph: Graph) -> list[Value]:
    """Return the inputs that are symmetric wherever they are read."""
    readers: dict[Value, list[Value]] = {}
    for v in graph.values:
        for x in v.args:
            readers.setdefault(x, []).append(v)
    outputs = frozenset(graph.outputs)
    is_known = lambda v: v.op == "assume" and "symmetric" in facts(v)
    return [x for x in graph.inputs if x not in outputs and x in readers and all(map(is_known, readers[x]))]


def _has(name: str, of: str = "x") -> Callable[[Any], bool]:
    """Return the condition that a fact is known of what a variable is bound to."""
    return lambda m: name in facts(getattr(m, of))


# elements


def _is_positive_product(m: Any) -> bool:
    """True for the logarithm of a product of powers that are all positive. A quotient of similar numbers is left alone: the difference of
    its logarithms has fewer digits."""
    if kind(m.meta.dtype) != "f":
        return False
    form = value_form(m.x)
    if form.constant or len(form.terms) != 1:
        return False
    term = form.terms[0]
    powers = [power for _, power in term.factors]
    if isinstance(term.coefficient, complex) or not term.coefficient > 0 or (powers == [1] or not powers):
        return False
    return all([power > 0 for power in powers]) and all(["positive" in facts(base) for base, _ in term.factors])


def _sum_of_logs(xp: Any, m: Any) -> Value:
    (term,) = value_form(m.x).terms
    logs = [xp.log(base) if power == 1 else xp.log(base) * power for base, power in term.factors]
    total: Value = logs[0]
    for each in logs[1:]:
        total = total + each
    return total if term.coefficient == 1 else total + xp.log(literal(term.coefficient, m.meta.dtype))


def _example(xp: Any) -> Any:
    """Return three numbers that are known to be positive."""
    return xp.exp(xp.expand(literal(0.5, np.float64), shape=(3,)))


def _positive(name: str, pattern: Any, result: Any, when: Any = None, **columns: Any) -> Rule:
    columns = {"example": {"x": _example, "axis": (0,), "keepdims": False}} | columns
    return Rule(name, pattern, result, when or _has("positive"), **columns)


def _whole(name: str, pattern: Any, result: Any = x) -> Rule:
    example = {"x": lambda xp: xp.expand(literal(2.0, np.float64), shape=(3,))}
    return Rule(name, pattern, result, _has("integer"), example=example, differentiable=False)


assumed_elements = Table(
    "assumed_elements",
    _positive("abs_of_positive", P.abs(x), x),
    _positive("relu_of_positive", P.relu(x), x),
    _positive("maximum_of_positive", P.maximum(x, 0), x),
    _positive(
        "log_of_product", P.log(x), _sum_of_logs, _is_positive_product, text="the sum of the logarithms of positive factors",
        example={"x": lambda xp: _example(xp) * xp.sqrt(_example(xp))},
    ),
    _positive("log_of_prod", P.log(P.prod(x, axis=axis, keepdims=keepdims)), P.sum(P.log(x), axis=axis, keepdims=keepdims)),
)  # fmt: skip
"""Equations that hold near every value that is positive, so that both sides have the same derivatives."""


# matrices

_DEEPEST = 50
"""Products are taken apart this many levels deep."""


def _swaps_last(m: Any) -> bool:
    return {m.i % m.x.ndim, m.j % m.x.ndim} == {m.x.ndim - 2, m.x.ndim - 1}


def _is_vector_times_symmetric(m: Any) -> bool:
    return bool(m.v.ndim == 1 and m.a.ndim == 2 and "symmetric" in facts(m.a))


def _is_dot_with_symmetric(m: Any) -> bool:
    """True for (A b)' v, which reads better as v'A b."""
    of_symmetric = m.v.op == "matmul" and "symmetric" in facts(m.v.args[0])
    return bool(m.a.ndim == 2 and m.b.ndim == m.v.ndim == 1 and "symmetric" in facts(m.a) and not of_symmetric)


def _is_symmetric_column(m: Any) -> bool:
    """True for the product of a symmetric matrix and a vector that is given as a column: a gradient has them, where values have vectors."""
    return bool(m.a.ndim == 2 and m.v.ndim == 1 and m.shape == (m.v.size, 1) and "symmetric" in facts(m.a))


def _is_symmetric_row(m: Any) -> bool:
    return bool(m.a.ndim == 2 and m.v.ndim == 1 and m.shape == (1, m.v.size) and "symmetric" in facts(m.a))


def _are_sizes_equal(a: Value, b: Value) -> bool:
    """True if a product needs no broadcasting of batches."""
    shapes = [x.shape[:-2] for x in (a, b) if x.ndim > 1]
    return len(shapes) < 2 or shapes[0] == shapes[1]


def _factors(x: Value, deepest: int = _DEEPEST) -> list[tuple[Value, bool]]:
    """Return the factors of a product of matrices, each with whether it is transposed."""
    if x.op == "matmul" and deepest and _are_sizes_equal(*x.args):
        return [f for a in x.args for f in _factors(a, deepest - 1)]
    if transposes(x) and deepest:
        inner = _factors(x.args[0], deepest - 1)
        return [(f, not transposed) for f, transposed in reversed(inner)]
    return [(x, False)]


def _cancels(left: tuple[Value, bool], right: tuple[Value, bool]) -> bool:
    """True for Q'Q and QQ', Q orthogonal; for QQ too, if it is symmetric."""
    (q, first), (other, second) = left, right
    known = facts(q) if q is other else frozenset[str]()
    return "orthogonal" in known and (first != second or "symmetric" in known)


def _remaining(m: Any) -> list[tuple[Value, bool]] | None:
    """Return the factors of a product without the pairs that are the identity; None if there are no such pairs."""
    if not _are_sizes_equal(m.a, m.b):
        return None
    given, left = [f for x in (m.a, m.b) for f in _factors(x)], list[tuple[Value, bool]]()
    for f in given:
        if left and _cancels(left[-1], f):
            left.pop()
        else:
            left.append(f)
    return left if len(left) < len(given) else None


def _without_pairs(xp: Any, m: Any) -> Any:
    left = _remaining(m)
    if left:
        return _product(xp, [_transpose(f) if transposed else f for f, transposed in left])
    n = m.meta.shape[-1]
    return xp.expand(xp.eye(rows=n, columns=n, dtype=m.meta.dtype), shape=m.meta.shape)


def _product(xp: Any, factors: list[Value]) -> Value:
    """Return a product of matrices, from the right if it ends with a vector."""
    if factors[-1].ndim == 1:
        total = factors[-1]
        for f in reversed(factors[:-1]):
            total = xp.matmul(f, total)
        return total
    total = factors[0]
    for f in factors[1:]:
        total = xp.matmul(total, f)
    return total


def _transpose(x: Value) -> Value:
    return build.transpose(x, dim0=x.ndim - 2, dim1=x.ndim - 1)


def _vector(x: Value) -> Any:
    """Return the diagonal of a diagonal matrix."""
    if x.op == "diag_embed" and not x.attrs["offset"] and {x.attrs["axis1"], x.attrs["axis2"]} == {x.ndim - 2, x.ndim - 1}:
        return x.args[0]
    if transposes(x):
        return _vector(x.args[0])
    if x.op == "neg":
        return -_vector(x.args[0])
    for scale, matrix in (x.args, x.args[::-1]) if x.op == "mul" else ():
        if not scale.ndim or number(scale) is not None:
            return _vector(matrix) * (scale if not scale.ndim else literal(number(scale), x.dtype))
    return build.diagonal(x, offset=0, axis1=x.ndim - 2, axis2=x.ndim - 1)


def _embedded(xp: Any, d: Value) -> Any:
    return xp.diag_embed(d, shape=(*d.shape, d.shape[-1]), offset=0, axis1=d.ndim - 1, axis2=d.ndim)


def _column(d: Value) -> Value:
    return build.reshape(d, shape=(*d.shape, 1))


def _has_diagonal_factor(m: Any) -> bool:
    return "diagonal" in facts(m.a) or "diagonal" in facts(m.b)


def _diagonal_product(xp: Any, m: Any) -> Any:
    """Return a product with a diagonal matrix: the other factor with its rows, or its columns, scaled."""
    for one, other in ((m.a, m.b), (m.b, m.a)):
        if "identity" in facts(one) and other.shape == m.meta.shape:
            return other
    left, right = ("diagonal" in facts(x) for x in (m.a, m.b))
    if left and right:
        return _embedded(xp, _vector(m.a) * _vector(m.b))
    if left:
        return (_vector(m.a) if m.b.ndim == 1 else _column(_vector(m.a))) * m.b
    d = _vector(m.b)
    return m.a * (d if m.a.ndim == 1 else xp.reshape(d, shape=(*d.shape[:-1], 1, d.shape[-1])))


def _product_of_diagonal(xp: Any, m: Any) -> Any:
    d = xp.diagonal(m.x, offset=0, axis1=m.x.ndim - 2, axis2=m.x.ndim - 1)
    return xp.prod(d, axis=(d.ndim - 1,), keepdims=False)


def _identity(xp: Any) -> Any:
    return xp.eye(rows=3, columns=3, dtype=np.dtype(np.float64))


def _scaled_identity(xp: Any) -> Any:
    return 2 * _identity(xp)


_SQUARE = {"x": _identity, "a": _identity, "b": (3, 2), "i": 0, "j": 1, "k": 0, "check": True}


def _matrices(name: str, pattern: Any, result: Any, when: Any, text: str = "", **example: Any) -> Rule:
    return Rule(name, pattern, result, when, text, example={**_SQUARE, **example}, differentiable=False)


sign, _ = P.slogdet(x)
assumed_values = Table(
    "assumed_values",
    _matrices("symmetric_transpose", P.transpose(x, dim0=i, dim1=j), x, lambda m: _swaps_last(m) and "symmetric" in facts(m.x)),
    _matrices(
        "orthogonal_product", P.matmul(a, b), _without_pairs, lambda m: _remaining(m) is not None, "the product without Q'Q, Q orthogonal",
        b=_identity,
    ),
    _matrices("orthogonal_inverse", P.inv(x, check=check), lambda xp, m: _transpose(m.x), _has("orthogonal"), "transpose(x)"),
    _matrices(
        "orthogonal_solution", P.solve(a, b), lambda xp, m: xp.matmul(_transpose(m.a), m.b), _has("orthogonal", "a"), "transpose(a) @ b",
    ),
    _matrices("diagonal_product", P.matmul(a, b), _diagonal_product, _has_diagonal_factor, "the rows or columns of one factor, scaled"),
    _matrices(
        "diagonal_inverse", P.inv(x, check=check), lambda xp, m: _embedded(xp, 1 / _vector(m.x)), _has("diagonal"),
        "diag(1 / diagonal(x))",
    ),
    _matrices("diagonal_solution", P.solve(a, b), lambda xp, m: m.b / _column(_vector(m.a)), _has("diagonal", "a"), "b / diagonal(a)"),
    _matrices("triangular_det", P.det(x), _product_of_diagonal, _has("triangular"), "prod(diagonal(x))"),
    _matrices("lower_triangle", P.tril(x, diagonal=k), x, lambda m: m.k >= 0 and "lower_triangular" in facts(m.x)),
    _matrices("upper_triangle", P.triu(x, diagonal=k), x, lambda m: m.k <= 0 and "upper_triangular" in facts(m.x)),
    _matrices("symmetric_vecmat", P.matmul(v, a), P.matmul(a, v), _is_vector_times_symmetric, v=(3,)),
    _matrices(
        "symmetric_column", P.matmul(a, P.reshape(v, shape=shape)), lambda xp, m: _column(xp.matmul(m.a, m.v)), _is_symmetric_column,
        "(a @ v) as a column", v=(3,), shape=(3, 1),
    ),
    _matrices(
        "symmetric_row", P.matmul(P.reshape(v, shape=shape), a), lambda xp, m: xp.reshape(xp.matmul(m.a, m.v), shape=m.meta.shape),
        _is_symmetric_row, "(a @ v) as a row", v=(3,), shape=(1, 3),
    ),
    _matrices(
        "symmetric_dot", P.matmul(P.matmul(a, b), v), P.matmul(v, P.matmul(a, b)), _is_dot_with_symmetric, a=_scaled_identity, b=(3,),
        v=(3,),
    ),
    _matrices("sign_of_definite", P.lt(sign, 0), False, _has("positive_definite")),
    _positive("sign_of_positive", P.sign(x), 1, differentiable=False),
    _positive("sgn_of_positive", P.sgn(x), 1, differentiable=False),
    _positive("greater_of_positive", P.gt(x, 0), True, differentiable=False),
    _positive("greater_equal_of_positive", P.ge(x, 0), True, differentiable=False),
    _positive("less_of_positive", P.lt(x, 0), False, differentiable=False),
    _positive("less_equal_of_positive", P.le(x, 0), False, differentiable=False),
    _whole("floor_of_integer", P.floor(x)),
    _whole("ceil_of_integer", P.ceil(x)),
    _whole("trunc_of_integer", P.trunc(x)),
    _whole("round_of_integer", P.round(x)),
    normal=False,
)  # fmt: skip
"""Equations that hold for values only, not for their derivatives, or after which a result depends on fewer arguments: nothing may be
differentiated after them."""
