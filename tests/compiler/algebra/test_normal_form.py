"""Affine expressions, deltas, brackets, like terms, and the order of contractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from symgrad.compiler.algebra.affine import Affine, Label, NotAffine, SplitRequired
from symgrad.compiler.algebra.eliminate import box_of, eliminate, normal_terms
from symgrad.compiler.algebra.emit import Operand, arrange
from symgrad.compiler.algebra.expand import expand
from symgrad.compiler.algebra.product_order import order, pair_flops
from symgrad.compiler.algebra.term import Expression, Term
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import input_value

A, B = (input_value(i, (6, 6), np.float64) for i in range(2))


def labels(*sizes):
    made = [Label(n) for n in sizes]
    return made, [Affine.label(x) for x in made]


def test_affine_arithmetic():
    (a, b), (i, j) = labels(4, 3)
    e = 3 * i + j - 2
    assert e.coefficients == ((a, 3), (b, 1))
    assert e.interval() == (-2, 9)
    assert e - e == Affine()
    assert e.substitute({b: Affine.of(1)}) == 3 * i - 1
    assert (3 * i + j).divided(3) == (i, j)
    assert (2 - i).interval() == (-1, 2)


def test_a_quotient_that_is_not_affine_asks_for_a_split_or_refuses():
    (a, _), (i, j) = labels(12, 5)
    with pytest.raises(SplitRequired) as required:
        i.divided(4)
    assert (required.value.label, required.value.inner) == (a, 4)
    with pytest.raises(NotAffine):
        j.divided(3)


def test_brackets_of_one_label_restrict_it_to_the_values_for_which_they_hold():
    rng = np.random.default_rng(0)
    empty = 0
    for _ in range(300):
        (label,), (i,) = labels(rng.integers(1, 7))
        places = [int(rng.choice([-1, 1])) * i + int(rng.integers(-4, 9)) for _ in range(rng.integers(1, 3))]
        drawn = [(e, *sorted(rng.integers(-3, 9, 2))) for e in places]
        held = [n for n in range(label.size) if all(low <= e.substitute({label: Affine.of(n)}).constant < high for e, low, high in drawn)]
        ((found, (first, last)),) = box_of(drawn).items()
        assert found is label
        assert list(range(first, last + 1)) == held
        empty += not held
    assert 50 < empty < 250


def test_a_delta_is_solved_for_a_bound_label():
    (_a, b), (i, j) = labels(6, 6)
    term = eliminate(Term(factors=((A, (i, j)),), deltas=(i - j,), bound=frozenset((b,))))
    assert term.factors == ((A, (i, i)),)
    assert not term.deltas
    assert not term.bound


def test_deltas_that_never_hold_make_a_term_zero():
    (_, b), (i, j) = labels(3, 3)
    assert eliminate(Term(deltas=(i - j + 5,), bound=frozenset((b,)))) is None
    assert eliminate(Term(deltas=(2 * i - 2 * j + 1,), bound=frozenset((b,)))) is None


def test_mixed_radix_deltas_are_solved_digit_by_digit():
    (_a, _b, c, d), (i, j, k, m) = labels(4, 3, 4, 3)
    term = eliminate(Term(factors=((A, (k, m)),), deltas=(3 * i + j - 3 * k - m,), bound=frozenset((c, d))))
    assert term.factors == ((A, (i, j)),)
    assert not term.deltas


@pytest.mark.parametrize("place", range(12))
def test_a_place_of_a_flat_array_has_one_row_and_column(place):
    (c, d), (k, m) = labels(4, 3)
    term = eliminate(Term(factors=((A, (k, m)),), deltas=(3 * k + m - place,), bound=frozenset((c, d))))
    assert term.factors == ((A, (Affine.of(place // 3), Affine.of(place % 3))),)
    assert not term.deltas


def test_labels_that_only_brackets_have_are_counted():
    (a,), (i,) = labels(10)
    term = eliminate(Term(brackets=((i - 2, 0, 5),), bound=frozenset((a,))))
    assert (term.coefficient, term.brackets, term.bound) == (5, (), frozenset())


def test_like_terms_are_collected_whatever_their_bound_labels_are_called():
    (_p, a, b), (i, x, y) = labels(6, 6, 6)
    first = Term(Fraction(2), ((A, (i, x)), (B, (x, i))), bound=frozenset((a,)))
    second = Term(Fraction(3), ((B, (y, i)), (A, (i, y))), bound=frozenset((b,)))
    (term,) = normal_terms(Expression([first, second]))
    assert term.coefficient == 5
    assert normal_terms(Expression([first, first]) - Expression([second]) + Expression([second]) - Expression([first, first])) == []


def test_sums_over_labels_of_different_sizes_are_not_alike():
    (a, b), (x, y) = labels(6, 5)
    terms = [Term(factors=((A, (e, e)),), bound=frozenset((label,))) for label, e in ((a, x), (b, y))]
    assert len(normal_terms(Expression(terms))) == 2


def test_an_expansion_splits_labels_for_a_reshape():
    x = input_value(0, (3, 2, 6), np.float64)
    expanded = expand(xp.matmul(xp.reshape(x, shape=(6, 6)), xp.reshape(x, shape=(6, 6))))
    assert [len(i.coefficients) for i in expanded.at] == [2, 1]
    (term,) = normal_terms(expanded.expression)
    assert len(term.factors) == 2


@pytest.mark.parametrize("seed", range(40))
def test_orders_are_as_cheap_as_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    made = [Label(int(n)) for n in rng.integers(2, 9, 5)]
    operands = [frozenset(made[i] for i in rng.choice(5, rng.integers(1, 4), replace=False)) for _ in range(4)]
    kept = frozenset(x for x in made if rng.random() < 0.4)
    operands = [x & kept.union(*(y for m, y in enumerate(operands) if m != n)) for n, x in enumerate(operands)]  # the rest is summed first
    sizes = {x: x.size for x in made}
    assert _cost(operands, order(operands, sizes, kept), sizes, kept) == min(
        _cost(operands, path, sizes, kept) for path in _paths(len(operands))
    )


def _paths(count):
    if count == 1:
        return [[]]
    return [[pair, *rest] for pair in itertools.combinations(range(count), 2) for rest in _paths(count - 1)]


def _cost(operands, path, sizes, kept):
    remaining, total = list(operands), 0
    for i, j in path:
        x, y = remaining[i], remaining[j]
        remaining = [z for n, z in enumerate(remaining) if n not in (i, j)]
        left = (x | y) & kept.union(*remaining)
        total += pair_flops(x, y, left != x | y, sizes)
        remaining.append(left)
    return total


@pytest.mark.parametrize("count", [7, 9, 12])
def test_orders_of_many_operands_are_complete(count):
    made = [Label(int(n)) for n in np.random.default_rng(count).integers(2, 9, count + 1)]
    operands = [frozenset(pair) for pair in itertools.pairwise(made)] + [frozenset((made[3],))]
    sizes, kept = {x: x.size for x in made}, frozenset((made[0], made[-1]))
    path = order(operands, sizes, kept)
    assert len(path) == len(operands) - 1
    assert _cost(operands, path, sizes, kept) > 0


def test_an_operand_is_reshaped_only_where_broadcasting_does_not_align_it():
    (i, j), _ = labels(2, 3)
    row, column = (input_value(k, (n,), np.float64) for k, n in enumerate((3, 2)))
    assert arrange(Operand(row, (j,)), [i, j]) is row
    assert arrange(Operand(column, (i,)), [i, j]) is xp.reshape(column, shape=(2, 1))
    matrix = input_value(2, (2, 3), np.float64)
    assert arrange(Operand(matrix, (i, j)), [j, i]) is xp.permute(matrix, axes=(1, 0))
