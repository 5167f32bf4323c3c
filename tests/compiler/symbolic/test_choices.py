"""Choices by element inside of sums, and around them: each element has a condition of its own."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F = sg.nn.functional
CHOICES = {
    "leaky_relu": F.leaky_relu,
    "threshold": lambda x: F.threshold(x, 0.1, 3.0),
    "hardtanh": lambda x: F.hardtanh(2 * x),
    "where": lambda x: sg.where(x > 0, x.exp(), x * x),
    "clamp": lambda x: x.clamp(-0.5, 0.7) * x,
    "abs": lambda x: (x.abs() * x).relu() - x,
}
AROUND = {
    "square of the sum": lambda y: y.sum() ** 2,
    "exp of the sum": lambda y: (y.sum() / 4).exp(),
    "variance": lambda y: y.var(),
    "norm": lambda y: (y - y.mean()).norm(),
    "product with the sum": lambda y: (y * y.sum()).sum(),
    "a choice again": lambda y: F.leaky_relu(y * y.sum() - 1).sum(),
    "quadratic form": lambda y: y @ (y + y.sum()),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_inside_of_a_sum_keeps_its_own_condition(choice, around):
    def f(x):
        return AROUND[around](CHOICES[choice](x))

    x = sg.tensor(np.array([0.8, -0.6, 0.3, -1.4]), requires_grad=True)
    (expected,) = sg.autograd.grad(f(x), x)
    d = sg.derive(f)(x)
    value, (gradient,) = d(x)
    sg.testing.assert_close(value, f(x).detach())
    sg.testing.assert_close(gradient, expected)
    assert "_x" not in str(d)


@pytest.mark.parametrize("scale", [lambda x: (x @ x) ** 2, lambda x: (x @ x) * x.sum(), lambda x: x.sum() ** 3])
def test_second_derivatives_of_a_choice_between_products_of_numbers(scale):
    x = sg.tensor(np.array([0.8, -0.6, 0.3]))
    d = sg.derive(lambda x: F.leaky_relu(scale(x)), order=2)(x)
    expected = sg.func.hessian(lambda x: F.leaky_relu(scale(x)))(x)
    sg.testing.assert_close(sg.tensor(np.asarray(d(x)[2][0][0])) if isinstance(d(x)[2], tuple) else d(x)[2], expected)
    assert "100.0" not in str(d)
