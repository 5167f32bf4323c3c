"""Orders of contractions with many operands: found in a moment, and with the least cost where that is known."""

import itertools

import pytest

from symgrad.compiler.algebra.affine import Label
from symgrad.compiler.algebra.product_order import order, pair_flops


def cost(operands, sizes, kept):
    """The operations of the order that is found, each product summed over the labels that nothing else has."""
    left, total = list(operands), 0
    for i, j in order(operands, sizes, kept):
        y, x = left.pop(j), left.pop(i)
        joined = (x | y) & frozenset(kept).union(*left)
        total += pair_flops(x, y, joined != x | y, sizes)
        left.append(joined)
    assert left == [frozenset(kept)]
    return total


@pytest.mark.parametrize("count", [7, 20, 60])
def test_operands_with_the_same_labels_are_multiplied_first(count):
    i, j, k = (Label(10) for _ in range(3))
    operands = [frozenset({i, j})] * count + [frozenset({j, k})]
    assert cost(operands, {i: 10, j: 10, k: 10}, {i, k}) == (count - 1) * 100 + 2 * 1000


@pytest.mark.parametrize("count", [7, 20, 60])
def test_a_batch_of_long_chains(count):
    """All operands share the label of the batch: dynamic programming would look at all 2ⁿ subsets."""
    batch, *chain = (Label(10) for _ in range(count + 2))
    operands = [frozenset({batch, *pair}) for pair in itertools.pairwise(chain)]
    assert cost(operands, dict.fromkeys([batch, *chain], 10), {batch, chain[0], chain[-1]}) == 2 * 10_000 * (len(operands) - 1)


def test_a_long_chain_that_ends_in_a_vector():
    chain = [Label(10) for _ in range(30)]
    operands = [frozenset(pair) for pair in itertools.pairwise(chain)] + [frozenset({chain[-1]})]
    assert cost(operands, dict.fromkeys(chain, 10), {chain[0]}) == 2 * 100 * 29
