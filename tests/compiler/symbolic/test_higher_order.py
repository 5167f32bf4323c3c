"""derive(order=n) of one number in one number: right against SymPy, short, and exact."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.compiler.symbolic.higher_order import derivatives_of
from symgrad.compiler.trace.trace import trace

X = sympy.Symbol("x")
FUNCTIONS = {
    "exp(sin x) tanh x": (lambda x: sg.exp(sg.sin(x)) * sg.tanh(x), sympy.exp(sympy.sin(X)) * sympy.tanh(X), 2_500),
    "1 / (1 + x²)": (lambda x: 1 / (1 + x * x), 1 / (1 + X**2), 700),
    "exp(-x²/2)": (lambda x: sg.exp(-(x * x) / 2), sympy.exp(-(X**2) / 2), 600),
    "log(1 + exp(sin² x))": (lambda x: sg.log(1 + sg.exp(sg.sin(x) ** 2)), sympy.log(1 + sympy.exp(sympy.sin(X) ** 2)), 4_000),
}
POINT = sg.tensor(0.37, dtype=sg.float64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_eight_is_short_and_agrees_with_sympy(name):
    function, expression, longest = FUNCTIONS[name]
    formula = sg.derive(function, wrt="x", order=8)(POINT)
    text = str(formula)
    assert len(text) <= longest, text  # nested derivatives print 25,000 to 39,000 characters
    assert "0.3333" not in text
    found = formula(POINT)[1:]
    exact = [float(sympy.diff(expression, X, k).subs(X, sympy.Float("0.37", 40)).evalf(30)) for k in range(1, 9)]
    np.testing.assert_allclose([float(np.squeeze(d)) for d in found], exact, rtol=1e-11)


def graph_of(function, *points):
    return trace(lambda given: function(*given), [np.asarray(p) for p in points], [f"x{i}" for i in range(len(points))]).graph


def test_other_derivatives_are_those_of_the_chain_rule():
    several = graph_of(lambda x: (x**3).sum(), np.ones(2))
    assert [len(d.directions) for d in derivatives_of(several, (0,), 3)] == [0, 1, 2]
    two = graph_of(lambda x, y: x * y**2, 1.0, 2.0)
    assert [d.wrt for d in derivatives_of(two, (0, 1), 3)][-1] == (1, 1, 1)
    assert [d.wrt for d in derivatives_of(two, (1,), 4)] == [(1,), (1, 1), (1, 1, 1), (1, 1, 1, 1)]


def test_the_number_may_be_a_tensor_of_one_element():
    point = sg.tensor([[0.5]], dtype=sg.float64)
    found = sg.derive(lambda x: sg.exp(2 * x), order=4)(point)(point)
    assert float(np.squeeze(found[-1])) == pytest.approx(16 * np.e)


def test_a_function_with_a_hook_keeps_the_chain_rule():
    def hooked(x):
        y = x * x
        y.register_hook(lambda g: g * 3)
        return y * y

    by_rule = derivatives_of(graph_of(hooked, 2.0), (0,), 3)
    assert [d.wrt for d in by_rule] == [(0,), (0, 0), (0, 0, 0)]
