"""Forward mode: tangents equal the transposed VJP of the whole graph, loops run once, and nested graphs grow slowly."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.forward import jvp, value_and_jvp
from symgrad.compiler.autodiff.pull import transposed_vjp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.subgraph import inline
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace

rng = np.random.default_rng(11)
W = sg.tensor(rng.standard_normal((3, 3)))
HOLES = sg.tensor([1.0, 0.0, 2.0], dtype=sg.float64)

PROGRAMS = {
    "exp(sin x) tanh x": lambda x: sg.exp(sg.sin(x)) * sg.tanh(x),
    "1 / (1 + x²)": lambda x: 1 / (1 + x * x),
    "exp(-x²/2)": lambda x: sg.exp(-(x * x) / 2),
    "log(1 + exp(sin² x))": lambda x: sg.log(1 + sg.exp(sg.sin(x) * sg.sin(x))),
    "two layers": lambda x: sg.tanh(x @ W) @ W,
    "softmax": lambda x: sg.softmax(x * x, 0),
    "a quotient by its own result": lambda x: x / (x / (1 + x * x)),
}
"""Elementwise functions and networks, whose nested derivatives share intermediate results."""
MORE = {
    "the same over the same": lambda x: (x * 2) / (x * 2),
    "a row over a column": lambda x: x / (x[:, None] + 3),
    "a number over x": lambda x: 2 / (x + 3),
    "a constant over x": lambda x: HOLES / (x + 3),
    "x over a constant": lambda x: x / (HOLES + 1),
    "sorted": lambda x: sg.sort(x)[0] * x,
    "solve": lambda x: sg.linalg.solve(W + 3 * sg.diag(x), x),
    "moments": lambda x: sg.var(x) / sg.mean(x),
    "half precision": lambda x: (x.half() / (x.half() + 3)).double(),
    "a constant result": lambda x: HOLES * 2,
}


def traced(function):
    found = trace(lambda given: function(*given), [np.array([0.4, -0.3, 0.8])], ["x"])
    return found.graph, [np.array([0.4, -0.3, 0.8]), *(t.numpy() for t in found.captured)]


@pytest.mark.parametrize("name", {**PROGRAMS, **MORE})
def test_tangents_are_those_of_the_transposed_vjp(name):
    graph, arrays = traced({**PROGRAMS, **MORE}[name])
    direction = np.array([1.0, 0.5, -0.7])
    (found,) = evaluate(verify(jvp(graph, (0,))), [*arrays, direction])
    (expected,) = evaluate(transposed_vjp(graph, (0,)), [*arrays, direction])
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-3 if name == "half precision" else 1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nested_derivatives_along_one_direction_grow_slowly(name):
    graph, _ = traced(PROGRAMS[name])
    x, start = graph.inputs[0], len(graph.inputs)
    v = input_value(start, x.shape, x.dtype)
    graph = Graph((*graph.inputs, v), graph.outputs, (*graph.labels, "v"))
    sizes = [len(graph.values)]
    for _ in range(8):
        graph = Graph(graph.inputs, inline(jvp(graph, (0,)), [*graph.inputs, v]), graph.labels)
        sizes.append(len(graph.values))
    # transposing the VJP of the whole graph doubled it with each order: up to 330 times the first derivative at order 8
    assert all(size <= sizes[1] * (0.8 * n * n + 1) for n, size in enumerate(sizes)), sizes


def test_a_loop_runs_once_for_values_and_tangents():
    def until(x):
        return sg.while_loop(lambda state: state[0] < 4, lambda state: (state[0] + 1, sg.exp(-state[1]) + x), (sg.tensor(0), x * 2))[1] * x

    graph, arrays = traced(until)
    pushed = verify(value_and_jvp(graph, (0,)))
    assert sum(map(is_control, pushed.values)) == 1
    value, along = evaluate(pushed, [*arrays, np.ones(3)])
    near, far = (evaluate(graph, [arrays[0] + h, *arrays[1:]])[0] for h in (-1e-6, 1e-6))
    np.testing.assert_allclose(value, evaluate(graph, arrays)[0])
    np.testing.assert_allclose(along, (far - near) / 2e-6, rtol=1e-7)


def test_tangents_that_no_result_depends_on_are_not_asked_for():
    """As in reverse mode: a row without a derivative may decide a branch."""
    x = sg.tensor([1.0, -2.0], dtype=sg.float64)
    fast = sg.compile(lambda x: sg.where(sg.heaviside(x, x) > 0.5, x * x, 3 * x), backend="numpy")
    assert fast.jvp(x)(sg.ones(2, dtype=sg.float64)).tolist() == [2.0, 3.0]
