"""Index expressions: their bounds, and integer division, against all values of their indices."""

from __future__ import annotations

import itertools

import pytest
import sympy as sp

from symgrad.compiler.symbolic.notations.index_algebra import divided, free, interval

M, N = free(0, 3), free(1, 4)
EXPRESSIONS = [
    sp.Integer(5), M, M + 2, M - 3, 2 * M + N, 4 * M - N, 3 - M - 2 * N, 8 * M + 2 * N + 1, 6 * N - 4 * M - 7, -M,
]  # fmt: skip


def values(e):
    return [int(e.subs({M: i, N: j})) for i, j in itertools.product(range(3), range(4))]


@pytest.mark.parametrize("e", EXPRESSIONS, ids=str)
def test_bounds_are_the_smallest_and_the_largest_value(e):
    assert interval(e) == (min(values(e)), max(values(e)))


@pytest.mark.parametrize("e", [M * N, M**2, M / 2, M + sp.Symbol("x")], ids=str)
def test_what_is_not_linear_in_indices_has_no_bounds(e):
    assert interval(e) is None


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("e", EXPRESSIONS, ids=str)
def test_quotient_and_remainder_are_those_of_integers(e, n):
    quotient, remainder = divided(e, n)
    assert values(quotient) == [x // n for x in values(e)]
    assert values(remainder) == [x % n for x in values(e)]
