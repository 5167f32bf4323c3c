"""Derivatives of textbooks: their numbers, and how long our formulas are beside the textbooks' forms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.notation import compare
from tests.support.textbook import KINDS
from tests.support.textbook.measure import measure
from tests.support.textbook.score import ALLOWED, equal, length

FLOORS = {"scalar": 41, "matrix": 42, "Hessian": 28, "index": 28, "probability": 31}
"""How many formulas of each kind are textbook-equal: these numbers may only rise."""


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_lengths(kind):
    for entry in KINDS[kind]:
        textbook, formula = entry.numbers_of_textbook(), entry.numbers_of_formula()
        np.testing.assert_allclose(formula, textbook, rtol=1e-10, atol=1e-10, err_msg=f"{entry.source}: {entry.textbook}")
        assert max(compare(entry.derivation)) < 1e-9, f"{entry.source}\n{entry.derivation}"
    lengths = [length(entry) for entry in KINDS[kind]]
    longer = "\n".join(f"{each.ours} {each.textbook} {each.entry.textbook} | {each.entry.formula}" for each in lengths if not each.equal)
    assert equal(lengths) >= FLOORS[kind], longer


def test_the_set_is_large():
    assert all(len(entries) >= 25 for entries in KINDS.values())
    assert sum(map(len, KINDS.values())) >= 150
    assert all(entry.source for entries in KINDS.values() for entry in entries)


@pytest.mark.parametrize(
    ("text", "count"),
    [("x", 1), ("2*x", 3), ("(A + Aᵀ) x", 6), ("-1/x**2", 6), ("‖x‖²", 3), ("Σ_k A[i, k]*x[k]", 8), ("Π_{j ≠ i} x[j]", 6),
     ("(0 if x = 0 else y)", 6)],
)
def test_operators_and_symbols_are_counted_on_the_tree(text, count):
    assert measure(text, ("A", "x", "y")) == count
    assert measure(f"({text})", ("A", "x", "y")) == count


def test_a_form_that_differs_from_the_derivative_is_found():
    entry = KINDS["matrix"][0]
    wrong = type(entry)(entry.source, entry.function, entry.arguments, entry.wrt, "det(X) X⁻¹")
    assert np.max(np.abs(wrong.numbers_of_textbook() - entry.numbers_of_formula())) > 1e-3


def test_a_longer_formula_is_not_equal():
    entry = KINDS["matrix"][0]
    shorter = type(entry)(entry.source, entry.function, entry.arguments, entry.wrt, "X⁻ᵀ")
    assert length(shorter).ratio > ALLOWED
