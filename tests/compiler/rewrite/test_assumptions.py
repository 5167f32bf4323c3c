"""The rules of assumptions: what they make of a graph, where they do not apply, and random programs with and without them."""

from __future__ import annotations

import numpy as np
import pytest
from assumed_programs import program

from symgrad.compiler.algebra.contract import contraction
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.facts import TRANSFER
from symgrad.compiler.ir.graph import Graph, _table, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.rewrite.assumptions import drop_assumptions
from symgrad.compiler.rewrite.pipeline import (
    ASSUMED_ELEMENTS,
    ASSUMED_VALUES,
    DERIVED,
    DROP_ASSUMPTIONS,
    FORMULA,
    NUMPY,
    SOLVE,
    SOLVE_STRUCTURED,
    TRACED,
    XLA,
    Pass,
    Stage,
)
from symgrad.errors import SymgradError

F64 = np.dtype(np.float64)
A, B, x = input_value(0, (3, 3), F64), input_value(1, (3, 3), F64), input_value(2, (3,), F64)
INPUTS = (A, B, x)


def t(a):
    return xp.transpose(a, dim0=a.ndim - 2, dim1=a.ndim - 1)


def known(a, *words):
    return xp.assume(a, words=words)


def used(value, *stages):
    """The value once the passes for assumptions are through."""
    passes = stages or (Stage("used", (ASSUMED_ELEMENTS, ASSUMED_VALUES, DROP_ASSUMPTIONS)),)
    graph = Graph(INPUTS, [value])
    for stage in passes:
        graph = stage.run(graph)
    return graph.outputs[0]


S, Q, D, L = known(A, "symmetric"), known(A, "orthogonal"), known(A, "diagonal"), known(A, "lower_triangular")
p, n = known(x, "positive"), known(x, "integer")
d = xp.diagonal(A, offset=0, axis1=0, axis2=1)

EQUATIONS = {
    "A' = A": (xp.matmul(t(S), x), lambda: xp.matmul(A, x)),
    "x'A = A x": (xp.matmul(x, S), lambda: xp.matmul(A, x)),
    "Q'Q = I": (xp.matmul(t(Q), Q), lambda: xp.eye(rows=3, columns=3, dtype=F64)),
    "Q'(Q x) = x": (xp.matmul(t(Q), xp.matmul(Q, x)), lambda: x),
    "(x'Q)Q' = x": (xp.matmul(xp.matmul(x, Q), t(Q)), lambda: x),
    "(Q B)'(Q x) = B'x": (xp.matmul(t(xp.matmul(Q, B)), xp.matmul(Q, x)), lambda: xp.matmul(t(B), x)),
    "inv(Q) = Q'": (xp.inv(Q, check=True), lambda: t(A)),
    "solve(Q, B) = Q'B": (xp.solve(Q, B), lambda: xp.matmul(t(A), B)),
    "D x = d x": (xp.matmul(D, x), lambda: d * x),
    "D B": (xp.matmul(D, B), lambda: xp.reshape(d, shape=(3, 1)) * B),
    "B D": (xp.matmul(B, t(D)), lambda: B * xp.reshape(d, shape=(1, 3))),
    "inv(D) x": (xp.matmul(xp.inv(D, check=True), x), lambda: 1 / d * x),
    "solve(D, B)": (xp.solve(D, B), lambda: B / xp.reshape(d, shape=(3, 1))),
    "det(L)": (xp.det(L), lambda: xp.prod(d, axis=(0,), keepdims=False)),
    "tril(L) = L": (xp.tril(L, diagonal=0), lambda: A),
    "|x| = x": (xp.abs(p), lambda: x),
    "sign(x) = 1": (xp.sign(p) * x, lambda: x),
    "where(x > 0)": (xp.where(xp.gt(p, 0), x, -x), lambda: x),
    "log(x x') = 2 log x": (xp.log(xp.square(p)), lambda: xp.log(x) * 2),
    "log(prod(x))": (xp.log(xp.prod(p, axis=(0,), keepdims=False)), lambda: xp.sum(xp.log(x), axis=(0,), keepdims=False)),
    "floor(n) = n": (xp.floor(n), lambda: x),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUATIONS)
def test_what_is_known_simplifies(name):
    given, wanted = EQUATIONS[name]
    assert used(given) is wanted()


@pytest.mark.parametrize("value", [
    xp.matmul(t(A), S), xp.matmul(t(B), xp.matmul(Q, x)), xp.matmul(Q, Q), xp.det(S), xp.log(p / xp.exp(x)), xp.log(p + 1),
    xp.tril(L, diagonal=-1), xp.floor(p), xp.abs(xp.log(p)), xp.matmul(xp.matmul(S, B), x), t(xp.matmul(S, known(B, "symmetric"))),
])  # fmt: skip
def test_what_does_not_follow_stays_as_it_is(value):
    assert used(value) is used(value, Stage("dropped", (DROP_ASSUMPTIONS,)))


def test_an_assumption_says_nothing_of_other_uses_of_the_tensor():
    """A and assume(A) are different values, until all that is known has been used."""
    both = xp.matmul(t(A), x) + xp.matmul(t(S), x)
    assert used(both) is xp.matmul(t(A), x) + xp.matmul(A, x)


def test_a_symmetric_orthogonal_matrix_is_its_own_inverse():
    R = known(A, "orthogonal", "symmetric")
    assert used(xp.matmul(R, xp.matmul(R, x))) is x


@pytest.mark.parametrize("stage", [FORMULA, NUMPY, XLA], ids=lambda stage: stage.name)
def test_formulas_and_kernels_have_no_such_row(stage):
    found = stage.run(Graph(INPUTS, [xp.matmul(known(A, "upper_triangular"), x)]))
    assert "assume" not in found.ops


def test_a_graph_without_assumptions_is_left_alone():
    graph = Graph(INPUTS, [xp.matmul(t(xp.eye(rows=3, columns=3, dtype=F64) * 2), x)])
    for each in (ASSUMED_ELEMENTS, ASSUMED_VALUES, SOLVE_STRUCTURED, DROP_ASSUMPTIONS):
        assert each.run(graph, (), {}) is graph


# random programs

_USED = (ASSUMED_ELEMENTS, ASSUMED_VALUES, Pass("order", lambda graph: contraction(graph).graph))
_STAGES = [Stage("random", (*_USED, solving, DROP_ASSUMPTIONS)) for solving in (SOLVE, SOLVE_STRUCTURED)]


def with_gradient(graph):
    return Graph(graph.inputs, (*graph.outputs, *grad(Graph(graph.inputs, graph.outputs[:1])).outputs))


def wrong(seed):
    """Whether a random program, or its gradient, has other values with assumptions than without; None if it has none."""
    graph, arrays = program(seed)
    try:
        wanted = evaluate(with_gradient(drop_assumptions(graph)), arrays)
    except SymgradError:  # a singular matrix
        return None
    if not all(np.isfinite(w).all() and np.abs(w).max(initial=0) < 1e5 for w in wanted):
        return None
    found = evaluate(_STAGES[seed % 2].run(DERIVED.run(with_gradient(TRACED.run(graph)))), arrays)
    scale = max(np.abs(w).max(initial=1) for w in wanted)
    return not all(np.allclose(f, w, rtol=1e-6, atol=1e-6 * scale) for f, w in zip(found, wanted, strict=True))


def check_programs(seeds):
    outcomes = {seed: wrong(seed) for seed in seeds}
    assert [seed for seed, outcome in outcomes.items() if outcome] == []
    return sum(outcome is not None for outcome in outcomes.values())


def test_random_programs_compute_the_same_with_and_without_assumptions():
    assert check_programs(range(200)) > 150


@pytest.mark.slow
def test_many_random_programs_compute_the_same_with_and_without_assumptions():
    assert check_programs(range(1000, 4000)) > 2000


@pytest.mark.parametrize(("op", "made"), [("mul", "symmetric"), ("matmul", "symmetric"), ("matmul", "orthogonal")])
def test_random_programs_find_a_fact_that_is_wrong(op, made, monkeypatch):
    def forget_all():
        for v in tuple(_table.values()):
            object.__setattr__(v, "known", None)

    before = TRANSFER[op]
    monkeypatch.setitem(TRANSFER, op, lambda v, of: {made, *before(v, of)})
    forget_all()
    try:
        assert any(map(wrong, range(200)))
    finally:
        forget_all()
