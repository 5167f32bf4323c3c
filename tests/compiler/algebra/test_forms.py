"""Operations of linear-algebra forms: as compiled they are not more than by hand."""

from __future__ import annotations

import numpy as np
import pytest
from contraction_forms import FORMS, GRADIENTS, LOSSES, gradient_graph, graph_of, loss_graph, shapes

from symgrad.compiler.algebra.contract import contraction
from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify

N = 24


def arrays():
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s) / N**0.5 for s in shapes(N)]


def assert_contracted(graph, least):
    found = contraction(graph)
    verify(found.graph)
    assert total_flops(found.graph) == found.flops_planned <= least
    for before, after in zip(evaluate(graph, arrays()), evaluate(found.graph, arrays()), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_takes_no_more_operations_than_by_hand(name):
    written, by_hand, least = FORMS[name]
    assert_contracted(graph_of(written, N), least(N))
    hand = graph_of(by_hand, N)
    assert total_flops(hand) == least(N)
    np.testing.assert_allclose(evaluate(hand, arrays())[0], evaluate(graph_of(written, N), arrays())[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_takes_no_more_operations_than_by_hand(name):
    by_hand, least = GRADIENTS[name]
    graph = gradient_graph(FORMS[name][0], N)
    assert_contracted(graph, least(N))
    hand = graph_of(by_hand, N)
    assert total_flops(hand) == least(N)
    np.testing.assert_allclose(evaluate(hand, arrays())[0], evaluate(graph, arrays())[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_take_no_more_operations_than_by_hand(name):
    written, least = LOSSES[name]
    assert_contracted(loss_graph(written, N), least(N))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.int64])
def test_forms_of_other_dtypes_are_contracted(dtype):
    graph = graph_of(FORMS["(A B) x"][0], N, dtype)
    found = contraction(graph)
    casts = 2 * N**2 + 2 * N if dtype is np.float16 else 0  # half precision is computed in float32
    assert found.flops_planned <= 4 * N**2 + casts
    given = [np.round(3 * a).astype(dtype) for a in arrays()]
    np.testing.assert_allclose(evaluate(found.graph, given)[0], evaluate(graph, given)[0], rtol=1e-2 if dtype is np.float16 else 1e-5)
