"""Recurrent layers in compiled functions: from some steps on they are loops, with the same results as the steps."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.control_flow import is_control
from symgrad.nn.recurrence import LOOP, is_loop

LAYERS = {
    "rnn": lambda: sg.nn.RNN(3, 4, dtype=sg.float64),
    "relu": lambda: sg.nn.RNN(3, 4, nonlinearity="relu", bias=False, dtype=sg.float64),
    "lstm": lambda: sg.nn.LSTM(3, 4, num_layers=2, bidirectional=True, dtype=sg.float64),
    "projected": lambda: sg.nn.LSTM(3, 4, proj_size=2, dtype=sg.float64),
    "gru": lambda: sg.nn.GRU(3, 4, bidirectional=True, batch_first=True, dtype=sg.float64),
    "gru without bias": lambda: sg.nn.GRU(3, 4, bias=False, dtype=sg.float64),
}


def summed(tree):
    return sum(summed(t) for t in tree) if isinstance(tree, tuple) else (tree * tree).sum()


@pytest.mark.parametrize("name", LAYERS)
def test_a_long_layer_is_a_loop_and_agrees(name):
    sg.manual_seed(0)
    layer = LAYERS[name]()
    x = sg.tensor(np.random.default_rng(0).normal(size=(LOOP + 3, LOOP + 3, 3)), requires_grad=True)
    weights = [x, *layer.parameters()]
    f = lambda x: summed(layer(x))
    compiled = sg.compile(f)
    f(x).backward()
    expected = [w.grad.clone() for w in weights]
    for w in weights:
        w.grad = None
    value = compiled(x)
    np.testing.assert_allclose(value.item(), f(x).item(), rtol=1e-10)
    value.backward()
    for w, g in zip(weights, expected, strict=True):
        np.testing.assert_allclose(w.grad.numpy(), g.numpy(), rtol=1e-8, atol=1e-10)
    assert any(map(is_control, compiled.graph().values))


def test_short_sequences_and_those_that_end_are_written_out():
    layer = sg.nn.GRU(3, 4)
    compiled = sg.compile(lambda x: layer(x)[0])
    compiled(sg.randn(LOOP - 1, 2, 3))
    assert not any(map(is_control, compiled.graph().values))
    asked = []

    @sg.compile
    def f(x):
        asked.append((is_loop([2] * LOOP), is_loop([2] * LOOP + [1])))
        return x * 2

    f(sg.ones(3))
    assert asked == [(True, False)]
    assert not is_loop([2] * LOOP)
