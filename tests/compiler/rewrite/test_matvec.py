"""Products of transposed matrices and vectors, as XLA gets them."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

CASES = {
    "matrix, vector": (lambda a, v: a.T @ v, (5, 3), (5,), "v @ a"),
    "vector, matrix": (lambda a, v: v @ a.T, (5, 3), (3,), "a @ v"),
    "square": (lambda a, v: a.T @ v, (4, 4), (4,), "v @ a"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_vector_is_multiplied_by_the_matrix_that_is_there(case):
    function, m, n, written = CASES[case]
    rng = np.random.default_rng(0)
    a, v = (sg.tensor(rng.normal(size=shape), requires_grad=True) for shape in (m, n))
    fast = sg.compile(function)
    assert sg.allclose(fast(a, v), function(a, v), rtol=1e-12)
    assert written in fast.source()
    assert ".T" not in fast.source()
    for ours, eager in zip(
        sg.autograd.grad(fast(a, v).sin().sum(), (a, v)), sg.autograd.grad(function(a, v).sin().sum(), (a, v)), strict=True
    ):
        assert sg.allclose(ours, eager, rtol=1e-12)


def test_a_matrix_is_transposed():
    a, b = sg.ones(5, 3), sg.ones(5, 2)
    fast = sg.compile(lambda a, b: a.T @ b)
    assert fast(a, b).tolist() == [[5.0, 5.0]] * 3
    assert "a.T @ b" in fast.source()


def test_the_gradient_of_a_product_with_a_vector_transposes_nothing():
    x, w = sg.ones(5, 3), sg.ones(3)
    fast = sg.compile(lambda w, x: (x @ w).square().sum())
    assert fast.grad(w, x, wrt="w").tolist() == [30.0] * 3
    assert ".T" not in fast.source("grad")
