"""log(1 + exp(x)) -> softplus(x), and its like: where it fires, where it must not, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.rewrite.stable import stabilise

AXIS = {"axis": (0,), "keepdims": False}
FIRES = {
    "softplus": lambda x: xp.log(xp.exp(x) + 1),
    "log_sigmoid": lambda x: xp.log(xp.sigmoid(x)),
    "log_softmax": lambda x: xp.log(xp.softmax(x, axis=(0,))),
    "logsumexp": lambda x: xp.log(xp.sum(xp.exp(x), **AXIS)),
}
LEFT_ALONE = {
    "another number": lambda x: xp.log(xp.exp(x) + 2),
    "a difference": lambda x: xp.log(1 - xp.exp(-xp.abs(x) - 1)),
    "a sum of others": lambda x: xp.log(xp.sum(xp.abs(x), **AXIS)),
    "another shape": lambda x: xp.log(xp.expand(xp.sum(x * 0, **AXIS) + 1, shape=(3,)) * 0 + 1 + xp.exp(xp.sum(x, **AXIS))),
}


def graph_of(f):
    x = input_value(0, (3,), np.float64)
    return Graph([x], [f(x)])


@pytest.mark.parametrize("name", FIRES)
def test_it_fires(name):
    before = graph_of(FIRES[name])
    after = verify(stabilise(before))
    assert after.outputs[0].op == name
    x = np.array([-1.5, 0.3, 2.0])
    np.testing.assert_allclose(evaluate(after, [x]), evaluate(before, [x]), rtol=1e-14)
    assert np.isfinite(evaluate(after, [np.array([-900.0, 1.0, 900.0])])[0]).all()


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_it_leaves_others_alone(name):
    graph = graph_of(LEFT_ALONE[name])
    after = verify(stabilise(graph))
    assert after.outputs[0].shape == graph.outputs[0].shape
    x = np.array([-1.5, 0.3, 2.0])
    np.testing.assert_allclose(evaluate(after, [x]), evaluate(graph, [x]), rtol=1e-14)


def test_a_one_of_another_shape():
    """ones(3) + exp(a number) has three elements, softplus of the number one."""
    a = input_value(0, (), np.float64)
    ones = xp.expand(xp.cast(a * 0, dtype=np.dtype(np.float64)) * 0 + 1, shape=(3,))
    graph = Graph([a], [xp.log(xp.exp(a) + ones)])
    assert verify(stabilise(graph)).outputs[0].shape == (3,)


def test_gradients_of_a_function_with_effects_are_stable_too():
    calls, x = sg.tensor(0), sg.tensor([1000.0, 0.0], requires_grad=True)

    @sg.compile
    def softplus(x):
        calls.add_(1)
        return (1 + x.exp()).log()

    softplus(sg.zeros(2, requires_grad=True))  # the trace, which runs as it is written
    softplus(x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.5]
    assert calls.item() == 2
