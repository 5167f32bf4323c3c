"""Closed forms of Taylor coefficients: right to order 8, and taken where they save operations."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.autodiff.closed import closed_coefficients
from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace
from symgrad.ops.table import TABLE

ORDER = 8
POINTS = np.array([-20.0, -3.1, -1.3, -0.4, 1e-3, 0.2, 0.9, 1.7, 6.0])
FUNCTIONS = {
    "exp(sin x) tanh x": (lambda x: sg.exp(sg.sin(x)) * sg.tanh(x), lambda x: mpmath.exp(mpmath.sin(x)) * mpmath.tanh(x)),
    "1 / (1 + x²)": (lambda x: 1 / (1 + x * x), lambda x: 1 / (1 + x * x)),
    "exp(-x²/2)": (lambda x: sg.exp(-(x * x) / 2), lambda x: mpmath.exp(-x * x / 2)),
    "log(1 + exp(sin² x))": (
        lambda x: sg.log(1 + sg.exp(sg.sin(x) * sg.sin(x))), lambda x: mpmath.log(1 + mpmath.exp(mpmath.sin(x) ** 2)),
    ),
    "atan": (sg.atan, mpmath.atan),
    "tanh": (sg.tanh, mpmath.tanh),
    "sigmoid": (sg.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "sin(x)³ - 3": (lambda x: sg.sin(x) ** 3 - 3, lambda x: mpmath.sin(x) ** 3 - 3),
}  # fmt: skip
UNARY = sorted(
    name
    for name, row in TABLE.items()
    if row.elementwise and row.differentiable and any(len(graph.inputs) == 1 for graph, _ in row_graphs().get(name, ()))
)


def traced(function, points=POINTS):
    return trace(lambda xs: function(xs[0]), [sg.tensor(points)], ["x"]).graph


def error(outputs, graph, expected):
    (found,) = evaluate(verify(Graph(graph.inputs, outputs, graph.labels)), [POINTS])
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_8_is_as_right_as_the_recurrence(name):
    ours, theirs = FUNCTIONS[name]
    graph = traced(ours)
    with mpmath.workdps(60):
        expected = np.array([float(mpmath.taylor(theirs, mpmath.mpf(x), ORDER)[ORDER]) for x in POINTS])
    closed = closed_coefficients(graph, ORDER)
    assert list(closed) == [ORDER]
    assert error(list(closed.values()), graph, expected) < 8e-15
    assert error(taylor(graph, None, ORDER, along_ones=True).outputs[-1:], graph, expected) < 8e-15


@pytest.mark.parametrize("name", UNARY)
def test_every_row_of_one_argument_agrees_with_its_recurrence(name):
    for graph, arrays in row_graphs()[name]:
        if len(graph.inputs) != 1 or arrays[0].dtype != np.float64:
            continue
        closed = closed_coefficients(graph, 5)
        if not closed:
            continue
        expected = evaluate(taylor(graph, None, 5, along_ones=True), arrays)
        found = evaluate(verify(Graph(graph.inputs, list(closed.values()), graph.labels)), arrays)
        for place, actual in zip(closed, found, strict=True):
            np.testing.assert_allclose(actual, expected[place], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["exp(-x²/2)", "1 / (1 + x²)"])
def test_powers_that_overflow_are_multiplied_by_zero(name):
    points = np.array([1e60, -1e200, np.nan])
    graph = traced(FUNCTIONS[name][0], points)
    with np.errstate(all="ignore"):
        closed = Graph(graph.inputs, list(closed_coefficients(graph, ORDER).values()), graph.labels)
        (found,) = evaluate(closed, [points])
    np.testing.assert_array_equal(found, [0, 0, np.nan])


def test_a_coefficient_that_is_used_alone_takes_its_closed_form():
    for function, _ in FUNCTIONS.values():
        series = lambda x, function=function: sg.func.taylor(function, ORDER)(x)
        alone, every = traced(lambda x, series=series: series(x)[ORDER]), traced(series)
        recurrence = taylor(traced(function), None, ORDER, along_ones=True)
        assert total_flops(alone) < total_flops(Graph(recurrence.inputs, recurrence.outputs[-1:], recurrence.labels))
        assert total_flops(every) <= total_flops(recurrence)


OTHERS = [
    lambda x: x.sum() * x, sg.lgamma, lambda x: sg.log(1 + sg.exp(x)), lambda x: sg.exp(x) * sg.tensor(POINTS),
    lambda x: sg.exp(x.to(sg.float16)),
]  # fmt: skip


@pytest.mark.parametrize("function", OTHERS)
def test_other_functions_have_recurrences_alone(function):
    assert not closed_coefficients(traced(function), ORDER)


def test_other_directions_scale_the_coefficients():
    x, v = sg.tensor(POINTS), sg.tensor(np.linspace(1, 2, len(POINTS)))
    series = sg.func.taylor(sg.tanh, 4)
    along, ones = (sg.compile(lambda x, v=v: series(x, v)[4], backend="numpy")(x).numpy() for v in (v, None))
    np.testing.assert_allclose(along, ones * v.numpy() ** 4, rtol=1e-9, atol=1e-12)
