"""Conventions of derivatives at single points become side conditions of formulas, which still compute them."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.rewrite.side_conditions import SideConditions, without_conventions
from symgrad.nn import functional as F


def test_the_norm_has_a_condition_and_keeps_its_value_at_the_origin():
    x = sg.tensor([3.0, 4.0], dtype=sg.float64)
    d = sg.derive(lambda x: x.norm(), wrt="x", order=2)(x)
    assert str(d).splitlines()[1:] == ["∂f/∂x = x/‖x‖", "∂²f/∂x∂x = (I - x xᵀ/‖x‖²)/‖x‖", "for ‖x‖ ≠ 0"]
    np.testing.assert_allclose(d(x)[1].numpy(), [0.6, 0.8], rtol=1e-15)
    value, gradient, hessian = d(sg.zeros(2, dtype=sg.float64))
    assert (value.item(), gradient.tolist(), hessian.tolist()) == (0.0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: sg.where(x == 0, 0, x**2), "(2*x if x ≠ 0 else 0)"),  # the user's choice
        (lambda x: (x.relu() ** 2).sqrt(), "H(x)"),  # it is 0 for half of all arguments
    ],
)
def test_choices_that_stay(function, wanted):
    d = sg.derive(function, wrt="x")(sg.spec((), sg.float64))
    assert not any(line.startswith("for") for line in str(d).splitlines()), d
    assert "if" in str(d).splitlines()[1] or wanted in str(d).splitlines()[1]


def test_a_graph_without_choices_is_returned_itself():
    x = input_value(0, (), np.float64)
    graph = Graph([x], [xp.sin(x), xp.cos(x)])
    assert without_conventions(graph).graph is graph


def test_a_choice_of_the_function_stays_in_the_graph():
    x = input_value(0, (), np.float64)
    chosen = xp.where(xp.eq(x, 0), 0, xp.sin(x))
    graph = Graph([x], [chosen, xp.where(xp.eq(x, 0), 0, xp.cos(x))])
    assert without_conventions(graph) == SideConditions(graph)


def test_the_threshold_of_softplus_is_not_shown_and_computed():
    d = sg.derive(lambda x: F.softplus(x), wrt="x", order=2)(sg.spec((3,), sg.float64))
    assert len(str(d).splitlines()) == 3
    assert "20" not in str(d)
    slopes = d(sg.tensor([0.0, 20.5, -1.0], dtype=sg.float64))[1].numpy().diagonal()
    assert slopes[1] == 1.0
    np.testing.assert_allclose(slopes[[0, 2]], [0.5, 1 / (1 + np.e)], rtol=1e-14)
