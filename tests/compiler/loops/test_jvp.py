"""Taylor coefficients through loops and branches equal nested forward derivatives, and loops run once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.autodiff.laplacian import laplacian
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace

ORDER = 4
W = sg.tensor(np.random.default_rng(5).standard_normal((3, 3)) / 2)


def scanned(x):
    last, every = sg.scan(lambda carry, row: (sg.tanh(carry @ W + row), carry * row), x, sg.stack([x, x**2, W[0]]))
    return last.sum() + every[1:]


def repeated(x):
    return sg.fori_loop(0, 5, lambda i, carry: sg.sin(carry) * x, x)


def until(x):
    _, last = sg.while_loop(lambda state: state[0] < 4, lambda state: (state[0] + 1, sg.exp(-state[1]) + x), (sg.tensor(0), x * 2))
    return last


def chosen(x):
    taken = sg.cond(x.sum() > 0, lambda: sg.exp(x) * x[0], lambda: x**3)
    return taken * sg.cond(x.sum() > 9, lambda: x, lambda: sg.ones(3, dtype=sg.float64))


PROGRAMS = {"scan": scanned, "fori_loop": repeated, "while_loop": until, "cond": chosen}


def traced(name):
    point = np.array([0.4, -0.3, 0.8])
    found = trace(lambda given: PROGRAMS[name](*given), [point], ["x"])
    assert any(map(is_control, found.graph.values))
    return found.graph, [point, *(t.numpy() for t in found.captured)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_coefficients_agree_with_nested_forward_derivatives(name):
    graph, arrays = traced(name)
    direction = np.array([1.0, 0.5, -0.7])
    made = verify(taylor(graph, (0,), ORDER))
    found = evaluate(made, [*arrays, direction])
    assert np.array_equal(found[0], evaluate(graph, arrays)[0])
    nested = graph
    for k in range(1, ORDER + 1):
        nested, arrays = jvp(nested, (0,)), [*arrays, direction]
        (expected,) = evaluate(nested, arrays)
        np.testing.assert_allclose(found[k], expected / math.factorial(k), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_loop_carries_all_coefficients(name):
    graph, _ = traced(name)
    count = sum(map(is_control, graph.values))
    assert sum(map(is_control, taylor(graph, (0,), ORDER).values)) == count


@pytest.mark.parametrize("name", PROGRAMS)
def test_laplacian_is_a_sum_of_second_derivatives(name):
    graph, arrays = traced(name)
    (found,) = evaluate(verify(laplacian(graph, 0)), arrays)
    second = jvp(jvp(graph, (0,)), (0,))
    expected = sum(evaluate(second, [*arrays, unit, unit])[0] for unit in np.eye(3))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
