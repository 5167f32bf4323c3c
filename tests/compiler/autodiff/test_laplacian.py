"""The Laplacian equals the trace of the Hessian, for programs of every kind of row."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.jacobian import hessian
from symgrad.compiler.autodiff.laplacian import laplacian
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace
from symgrad.errors import GraphError

rng = np.random.default_rng(3)
W, B, V = (sg.tensor(rng.standard_normal(shape)) for shape in ((5, 8), (8,), (8, 3)))
EYE = sg.eye(3, dtype=sg.float64)

PROGRAMS = {
    "two layers": (lambda x: sg.tanh(x @ W + B) @ V, (5,)),
    "one over the norm": (lambda x: 1 / (x * x).sum().sqrt(), (3,)),
    "softmax": (lambda x: sg.softmax(sg.sin(x @ W), 0), (5,)),
    "log det": (lambda x: sg.logdet(x @ x.T + EYE), (3, 3)),
    "solve": (lambda x: sg.linalg.solve(x + 3 * EYE, x.T).sum(), (3, 3)),
    "inverse": (lambda x: sg.linalg.inv(x + 3 * EYE), (3, 3)),
    "eigenvalues": (lambda x: sg.linalg.eigvalsh(x + x.T), (3, 3)),
    "sorted": (lambda x: (sg.sort(x)[0] ** 3).cumsum(0), (4,)),
    "linear": (lambda x: x @ W, (5,)),
    "constant": (lambda x: sg.sign(x) * 2, (5,)),
    "of a number": (lambda x: sg.exp(x) * x, ()),
    "products of slices": (lambda x: x[1:] * x[:-1] * x[0], (6,)),
    "layer norm": (lambda x: sg.nn.functional.layer_norm(x, (5,)) ** 2, (5,)),
    "convolution": (lambda x: sg.nn.functional.conv1d(x[None] ** 2, x[None, None, :3]).sin(), (2, 7)[1:]),
    "relu": (lambda x: sg.relu(x @ W) ** 2, (5,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_laplacian_is_the_trace_of_the_hessian(name):
    function, shape = PROGRAMS[name]
    x = rng.standard_normal(shape)
    traced = trace(lambda given: function(*given), [x], ["x"])
    arrays = [x, *(t.numpy() for t in traced.captured)]
    (found,) = evaluate(verify(laplacian(traced.graph, 0)), arrays)
    (second,) = evaluate(hessian(traced.graph, (0,)), arrays)
    expected = np.trace(second.reshape(*found.shape, x.size, x.size), axis1=-2, axis2=-1)
    assert found.shape == traced.graph.outputs[0].shape
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(expected).max()))


def test_laplacian_of_a_network_multiplies_once_for_each_direction_and_twice_more():
    n, width = 6, 32
    weights = [sg.tensor(rng.standard_normal(shape)) for shape in ((n, width), (width, width), (width, 1))]

    def net(x):
        for w in weights[:-1]:
            x = sg.tanh(x @ w)
        return x @ weights[-1]

    traced = trace(lambda given: net(*given), [np.ones(n)], ["x"])
    made = laplacian(traced.graph, 0)
    middle = [v for v in made.values if v.op == "matmul" and (width, width) in (v.args[0].shape, v.args[1].shape)]
    assert sum(v.size for v in middle) == (n + 2) * width, middle


def test_integers_and_complex_numbers_are_refused():
    x = np.ones(3)
    whole = trace(lambda given: given[0] > 0, [x], ["x"]).graph
    with pytest.raises(GraphError, match="only floating-point outputs have a Laplacian"):
        laplacian(whole, 0)
    turned = trace(lambda given: given[0] * 1j, [x], ["x"]).graph
    with pytest.raises(GraphError, match="a Laplacian of complex numbers"):
        laplacian(turned, 0)
