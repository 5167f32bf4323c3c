"""Constants that a function makes are shown as what they are."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

X = sg.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=sg.float64)
ROUGH = sg.tensor([[0.5, 0.25], [1.0, 2.0]], dtype=sg.float64)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: sg.trace(x @ sg.eye(2, dtype=sg.float64)), ["f(x) = tr(x)", "∂f/∂x = I"]),
        (lambda x: ((x - sg.ones(2, 2, dtype=sg.float64)) ** 2).sum(), ["f(x) = ‖x - 1‖²", "∂f/∂x = 2 (x - 1)"]),
        (lambda x: (x + sg.zeros(2, 2, dtype=sg.float64)).sum(), ["f(x) = sum(x)", "∂f/∂x = 1"]),
        (lambda x: (x * sg.full((2, 2), 3.0, dtype=sg.float64)).sum(), ["f(x) = 3*sum(x)", "∂f/∂x = 3 𝟏 𝟏ᵀ"]),
        (lambda x: (x * ROUGH).sum(), ["f(x) = sum(x ∘ ROUGH)", "∂f/∂x = ROUGH", "with ROUGH: float64[2, 2]"]),
    ],
)
def test_constants(function, wanted):
    d = sg.derive(function, wrt="x")(X)
    shown = str(d).splitlines()
    assert shown == wanted
    value, gradient = d(X)
    x = X.clone().requires_grad_()
    result = function(x)
    result.backward()
    np.testing.assert_allclose([value.item(), *gradient.numpy().ravel()], [result.item(), *x.grad.numpy().ravel()], rtol=1e-14)
