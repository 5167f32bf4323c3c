"""Formulas of functions that assume something: what they show, that it is true, and certify()."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.symbolic.samples import with_properties
from symgrad.errors import AssumptionError, FormulaError
from symgrad.ops.assumptions import check

N = 5
inv, solve = sg.linalg.inv, sg.linalg.solve


def A(**known):
    return sg.spec((N, N), **known)


x, p, s = sg.spec(N), sg.spec(N, positive=True), sg.spec((), positive=True)
FORMULAS = {
    "quadratic form": (lambda A, x: x @ A @ x, (A(symmetric=True), x), "x", "xᵀ A x", "2 A x", "A symmetric"),
    "without": (lambda A, x: x @ A @ x, (A(), x), "x", "xᵀ A x", "(A + Aᵀ) x", None),
    "in the matrix": (lambda A, x, y: x @ A.T @ y, (A(symmetric=True), x, x), "A", "yᵀ A x", "y xᵀ", "A symmetric"),
    "orthogonal": (lambda Q, x: x @ Q.T @ Q @ x, (A(orthogonal=True), x), "x", "xᵀ x", "2 x", "Q orthogonal"),
    "inverse": (lambda Q, x: (inv(Q) @ x).sum(), (A(orthogonal=True), x), "x", "sum(Qᵀ x)", "Q 𝟏", "Q orthogonal"),
    "system": (lambda A, x: x @ solve(A, x), (A(positive_definite=True), x), "x", "xᵀ A⁻¹ x", "2 A⁻¹ x", "A positive definite"),
    "system, A": (lambda A, x: x @ solve(A, x), (A(positive_definite=True), x), "A", "xᵀ A⁻¹ x", "-A⁻¹ x xᵀ A⁻¹", "A positive definite"),
    "domain": (lambda A: sg.logdet(A), (A(positive_definite=True),), "A", "log(det(A))", "A⁻¹", "A positive definite"),
    "diagonal": (lambda D, x: (D @ x).sum(), (A(diagonal=True), x), "x", "Σ_i D[i, i]*x[i]", "D[i, i]", "D diagonal"),
    "det": (lambda L: sg.linalg.det(L), (A(triangular="upper"),), "L", "Π_i L[i, i]", "det(L)*inv(L)[j, i]", "L upper triangular"),
    "root": (lambda s: (s * s).sqrt(), (s,), "s", "s", "1", "s positive"),
    "abs": (lambda s, t: s.abs() * t, (s, sg.spec(())), "s", "s*t", "t", "s positive"),
    "logarithm": (lambda s, t: (s * t**3).log(), (s, s), "t", "log(s) + 3*log(t)", "3/t", "s positive; t positive"),
    "branch": (lambda p: sg.where(p > 0, p, -p).sum(), (p,), "p", "sum(p)", "1", "p positive"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_use_what_is_known_and_say_so(name):
    function, specs, wrt, value, slope, known = FORMULAS[name]
    found = sg.derive(function, wrt=wrt)(*specs)
    first, second, *rest = str(found).splitlines()
    assert (first.partition(" = ")[2], second.partition(" = ")[2]) == (value, slope)
    assert rest == ([] if known is None else [f"assuming {known}"])
    assert found.certify()
    assert found(*(tensor(spec) for spec in specs))[0].shape == ()


def tensor(spec):
    array = np.random.default_rng(7).standard_normal(spec.shape)
    return sg.tensor(with_properties(array, spec.words, "x") if spec.words else array, dtype=sg.float32)


def test_a_formula_is_the_one_that_runs():
    def form(A, x):
        return x @ sg.assume(A, "symmetric").T @ x

    fast = sg.compile(form, backend="numpy")
    S = tensor(A(symmetric=True))
    fast.value_and_grad(S, tensor(x), wrt="x")
    shown = fast.formula("x")
    assert str(shown).splitlines() == ["form(A, x) = xᵀ A x", "∂form/∂x = 2 A x", "assuming A symmetric"]
    assert "assuming A symmetric" in str(fast.explain())
    np.testing.assert_allclose(shown(S, tensor(x))[1].numpy(), fast.grad(S, tensor(x), wrt="x").numpy(), rtol=1e-5)


def test_conditions_that_are_known_to_hold_are_not_shown():
    def branching(x, y):
        x = sg.assume(x, "positive")
        if x.sum() > 0 and y.sum() > 0:
            return x.log().sum() + y.sum()
        return y.sum()

    found = sg.derive(branching)(sg.ones(3), sg.ones(3))
    assert len(found.conditions) == 1
    assert str(found).count("for ") == 1
    assert "assuming x positive" in str(found)
    assert str(sg.derive(sg.logdet)(A())).endswith("for det(input) > 0")


def test_assumptions_of_other_values_are_shown_as_expressions():
    found = sg.derive(lambda A, x: x @ sg.assume(A + A.T, "symmetric", "positive_definite") @ x, wrt="x")(A(), x)
    assert found.assumptions == {"A + A'": ("symmetric", "positive_definite")}
    assert str(found).endswith("assuming A + A' symmetric, positive definite")
    assert r"&\text{assuming } \text{A + A'} \text{ symmetric, positive definite}" in found.latex()
    assert r"&\text{assuming } A \text{ symmetric}" in sg.derive(lambda A: A.T.sum())(A(symmetric=True)).latex()


def test_steps_differentiate_the_function_as_it_is_written():
    found = sg.derive(lambda A, x, y: x @ A.T @ y, wrt="A")(A(symmetric=True), x, x)
    assert "Aᵀ" in str(found.steps())
    assert str(found["A"]) == "y*x.T"


def test_a_recorded_result_has_its_assumptions():
    W = tensor(A(symmetric=True)).requires_grad_()
    W.name = "W"
    v = tensor(x)
    v.name = "v"
    assert "assuming W symmetric" in str(sg.compiler.api.formula(v @ sg.assume(W, "symmetric").T @ v, wrt=W))


def test_arguments_of_certify_are_what_is_assumed():
    found = sg.derive(lambda Q, x: (Q.T @ (Q @ x)).sin().sum(), wrt="x")(A(orthogonal=True), x)
    assert found.certify()
    assert found.certify(tensor(A(orthogonal=True)), tensor(x))  # up to the rounding of float32
    with pytest.raises(AssumptionError, match=r"Q: a tensor of shape .* is assumed to be orthogonal"):
        found.certify(sg.ones(N, N), tensor(x))
    impossible = sg.derive(lambda A: A.sum())(A(triangular="lower", positive=True))
    with pytest.raises(FormulaError, match="no example of a lower triangular, positive A is known: pass arguments to certify"):
        impossible.certify()


def test_a_wrong_formula_is_found_at_such_arguments():
    found = sg.derive(lambda A, x: x @ A @ x, wrt="x")(A(symmetric=True), x)
    wrong = sg.derive(lambda A, x: x @ A @ x * 1.001, wrt="x")(A(symmetric=True), x)
    found.program = wrong.program
    assert not found.certify()


@pytest.mark.parametrize("words", [
    ("symmetric",), ("positive_definite",), ("orthogonal",), ("diagonal",), ("lower_triangular",), ("upper_triangular",), ("positive",),
    ("integer",), ("symmetric", "orthogonal"), ("symmetric", "integer"), ("positive_definite", "orthogonal"), ("orthogonal", "diagonal"),
    ("positive_definite", "diagonal"), ("positive", "integer"), ("positive", "symmetric"), ("symmetric", "lower_triangular"),
])  # fmt: skip
def test_samples_have_the_properties(words):
    given = np.random.default_rng(1).standard_normal((2, 4, 4))
    check(with_properties(given, words, "A"), words)
