"""Every rule can match, and both of its sides are the same function: value, gradient and second derivative."""

from __future__ import annotations

import re
from math import inf

import numpy as np
import pytest
from rule_examples import Example

from symgrad.compiler.algebra.one_hot import one_hot
from symgrad.compiler.autodiff.jacobian import hvp
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir import fold
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value, literal
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.match import match
from symgrad.compiler.ir.pattern import P, constant, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.rewrite.assumptions import assumed_elements, assumed_values
from symgrad.compiler.rewrite.domain import within_domain
from symgrad.compiler.rewrite.kernel import drop_stop_gradients, matvec_without_transpose
from symgrad.compiler.rewrite.masks import finite_behind_masks
from symgrad.compiler.rewrite.short import choices, short
from symgrad.compiler.rewrite.stable import accurate, stabilise
from symgrad.compiler.rewrite.table import Table

TABLES = (
    stabilise, accurate, finite_behind_masks, drop_stop_gradients, matvec_without_transpose, within_domain, assumed_elements,
    assumed_values, one_hot, short, choices,
)  # fmt: skip
RULES = {rule.name: (rule, table.index.normal) for table in TABLES for rule in table} | {rule.name: (rule, False) for rule in fold.RULES}
a, c, x, y = variable("a"), constant("c"), variable("x"), variable("y")


def test_names_of_rules_and_tables_are_unique():
    names = [rule.name for rules in (*TABLES, fold.RULES) for rule in rules] + [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in names)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("value", [lambda v: xp.erf(v), lambda v: xp.log(xp.erf(v)) * v, lambda v: xp.matmul(v, v)])
def test_a_table_without_a_match_returns_the_graph_itself(table, value):
    v = input_value(0, (2, 2), np.float64)
    graph = Graph([v], [value(v)])
    assert table(graph) is graph


def inside(rule, normal):
    found = (Example(rule, normal, seed) for seed in range(20))
    return next(example for example in found if example.is_finite())


@pytest.mark.parametrize("name", RULES)
def test_a_rule_matches_its_own_pattern(name):
    example = Example(*RULES[name])
    assert example.after is not None
    assert example.after.outputs[0] is not example.before.outputs[0]
    before, after = (verify(graph).outputs[0] for graph in (example.before, example.after))
    assert (before.shape, before.dtype) == (after.shape, after.dtype)


def derivatives(graph, order):
    """The gradient of a weighted sum of the results, and its derivative in a direction."""
    (result,) = graph.outputs
    weights = xp.cast(np.float64(0.7), dtype=result.dtype) if result.shape else 1
    floats = [i for i, v in enumerate(graph.inputs) if v.dtype.kind == "f"]
    total = Graph(graph.inputs, [xp.sum(xp.sin(result) * weights, axis=tuple(range(result.ndim)), keepdims=False)])
    return grad(total, floats) if order == 1 else hvp(total, floats)


@pytest.mark.parametrize("name", RULES)
def test_both_sides_are_the_same_function(name):
    rule, normal = RULES[name]
    example = inside(rule, normal)
    before, after = (evaluate(side, example.arrays)[0] for side in (example.before, example.after))
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)
    if not rule.differentiable or example.before.outputs[0].dtype.kind != "f":
        return
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=array.shape) for array in example.arrays if array.dtype.kind == "f"]
    for order in (1, 2):
        given = example.arrays + (directions if order == 2 else [])
        sides = [evaluate(derivatives(side, order), given) for side in (example.before, example.after)]
        for before, after in zip(*sides, strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)


def test_a_rule_prints_as_its_equation():
    assert str(RULES["softplus"][0]) == "log(1 + exp(x)) -> softplus(x)"
    assert str(RULES["transpose_matvec"][0]) == "transpose(a) @ v -> v @ a"
    assert str(Rule("r", P.sub(1, x - y) * -(x + 2), 0)) == "(1 - (x - y)) * (-(x + 2)) -> 0"
    assert str(Rule("r", P.power(x / y, exponent=2), x * x)) == "(x / y)**2 -> x * x"


def test_a_rule_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="'r': y is not bound on the left side"):
        Rule("r", P.sin(x), P.sin(y))
    with pytest.raises(ValueError, match="'r': a result that is a function needs a text"):
        Rule("r", P.sin(x), lambda xp, m: m.x)
    with pytest.raises(TypeError, match=r"a pattern of softmax names each of its attributes \('axis',\), got \(\)"):
        P.softmax(x)


# the matcher

X, Y = (input_value(i, (3,), np.float64) for i in range(2))


def fires(pattern, value, when=None):
    table = Table("t", Rule("r", pattern, P.detach(P.detach(x)), when))
    graph = Graph([X, Y], [value])
    return table(graph) is not graph


def test_repeated_variables_are_one_value():
    assert fires(P.maximum(x, P.sin(x)), xp.maximum(X, xp.sin(X)))
    assert fires(P.maximum(x, P.sin(x)), xp.maximum(xp.sin(X), X))
    assert not fires(P.maximum(x, P.sin(x)), xp.maximum(Y, xp.sin(X)))
    assert not fires(P.copysign(x, P.sin(x)), xp.copysign(xp.sin(X), X))


def test_a_pattern_of_variables_alone_matches_its_own_row_only():
    assert fires(x + y, X + Y)
    assert not fires(x + y, X * Y)
    assert not fires(x + y, X - Y)
    assert not fires(x * y, xp.exp(X) + Y)
    assert not fires(P.linear(x, y, a), xp.linear(X, input_value(1, (2, 3), np.float64), None))


def test_numbers_match_literals_of_any_dtype_and_shape():
    ones = xp.expand(literal(1, np.float64), shape=(3,)), xp.cast(literal(True, bool), dtype=np.dtype(float))
    for one in (1, 1.0, literal(1, np.float64), *ones):
        assert fires(P.maximum(1, x), xp.maximum(X, one))
    assert not fires(P.maximum(1, x), xp.maximum(X, 2))
    assert fires(P.maximum(float("nan"), x), xp.maximum(X, float("nan")))


def test_constants_bind_numbers_and_attributes_are_bound_or_required():
    axis = variable("axis")
    assert fires(P.maximum(c, x), xp.maximum(X, 5), lambda m: m.c == 5)
    assert not fires(P.maximum(c, x), xp.maximum(X, Y))
    assert fires(P.softmax(x, axis=axis), xp.softmax(X, axis=(0,)), lambda m: m.axis == (0,))
    assert not fires(P.softmax(x, axis=(1,)), xp.softmax(X, axis=(0,)))
    assert not fires(P.maximum(x, y), xp.maximum(X, Y), lambda m: False)


SPELLINGS = {
    "1 + e": lambda e: xp.log(1 + e), "e + 1": lambda e: xp.log(e + 1), "1.0 + e": lambda e: xp.log(1.0 + e),
    "1 + 1 * e": lambda e: xp.log(1 + 1.0 * e), "log1p": xp.log1p, "e - -1": lambda e: xp.log(e - (-1)),
    "1 - -e": lambda e: xp.log(1 - (-e)), "-(-1 - e)": lambda e: xp.log(-(-1 - e)), "(2 + 2 e) / 2": lambda e: xp.log((2 + 2 * e) / 2),
    "expm1 + 2": lambda e: xp.log(xp.expm1(*e.args) + 2), "0.5 + e + 0.5": lambda e: xp.log(0.5 + e + 0.5),
    "2 e / 2 + 1": lambda e: xp.log(2 * e / 2 + 1), "1 / (1 / e) + 1": lambda e: xp.log(1 / (1 / e) + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_rule_matches_every_spelling(name):
    graph = Graph([X], [SPELLINGS[name](xp.exp(X))])
    found = verify(stabilise(graph))
    assert found.outputs[0] is xp.softplus(X, beta=1, threshold=inf)
    point = [np.array([-1.5, 0.3, 2.0])]
    np.testing.assert_allclose(evaluate(found, point), evaluate(graph, point), rtol=1e-14)


@pytest.mark.parametrize("other", [
    lambda e: xp.log(2 + e), lambda e: xp.log(1 - e), lambda e: xp.log(1 + 2 * e), lambda e: xp.log(1 + e * e),
    lambda e: xp.log(1 + e + X),
    lambda e: xp.log(1 + xp.sqrt(e)), lambda e: xp.log(1 + 1 / e), lambda e: xp.log1p(1 + e), lambda e: xp.log(1 + e * X), xp.log,
])  # fmt: skip
def test_other_forms_are_left_alone(other):
    graph = Graph([X], [other(xp.exp(X))])
    assert Table("t", RULES["softplus"][0])(graph) is graph


def test_powers_and_coefficients():
    square = P.square(x)
    for value in (X * X, xp.square(X), X**2, xp.power(X, exponent=2.0), X / (1 / X), (-X) * (-X)):
        assert fires(P.sin(square), xp.sin(value))
    assert not fires(P.sin(square), xp.sin(xp.square(X) * 2))
    assert not fires(P.sin(x * y), xp.sin(xp.sqrt(X * X) * 2))
    assert not fires(P.sin(x - y), xp.sin(X + Y))
    assert fires(P.sin(x - y), xp.sin(-Y + X))
    root = Graph([X], [xp.sin(xp.sqrt(xp.square(X)))])  # |x|, not x
    assert Table("t", Rule("r", P.sin(P.sqrt(P.square(x))), x))(root).outputs[0] is X


def test_numbers_alone_must_not_give_a_sum_its_shape():
    scalar = input_value(0, (), np.float64)
    wide = xp.expand(literal(1, np.float64), shape=(3,)) + xp.exp(scalar)
    assert not fires(P.sum(1 + P.exp(x), axis=variable("axis"), keepdims=False), xp.sum(wide, axis=(0,), keepdims=False))


@pytest.mark.parametrize(
    ("pattern", "values", "wanted"),
    [
        (P.atan2(c, c), (3.0, 3.0), [{"c": 3.0}]),
        (P.atan2(c, c), (3.0, 2.0), []),
        (P.atan2(c, c), (3.0, "y"), []),
        (P.atan2(c, x), ("y", 3.0), []),
        (P.atan2(x, x), ("y", "z"), []),
    ],
)
def test_a_name_stands_for_one_number_or_value(pattern, values, wanted):
    inputs = {name: input_value(i, (), np.float64) for i, name in enumerate("yz")}
    args = [inputs[v] if isinstance(v, str) else literal(v, np.float64) for v in values]
    assert [*match(pattern, xp.atan2(*args), {}, False)] == wanted
