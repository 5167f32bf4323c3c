"""rewrite: a graph rebuilt from its inputs, each application by a given function."""

from __future__ import annotations

import numpy as np

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.rewrite.rewrite import rewrite

X = input_value(0, (3,), np.dtype(np.float64))


def test_what_reads_a_changed_value_reads_the_new_one():
    graph = Graph([X], [xp.exp(xp.sin(X)) * xp.cos(X), xp.cos(X)])
    changed = rewrite(graph, lambda v, args: xp.tanh(*args) if v.op == "sin" else None)
    assert {v.op for v in changed.values} == {"input", "tanh", "exp", "cos", "mul"}
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(evaluate(changed, [x])[0], np.exp(np.tanh(x)) * np.cos(x), rtol=1e-15)
    assert changed.outputs[1] is graph.outputs[1]


def test_several_outputs_are_replaced_together():
    values, places = xp.sort(X, axis=0, descending=False)
    graph = Graph([X], [values * 2, places])
    changed = rewrite(graph, lambda v, args: (xp.neg(args[0]), places) if isinstance(v.dtype, tuple) else None)
    assert evaluate(changed, [np.array([3.0, 1.0, 2.0])])[0].tolist() == [-6.0, -2.0, -4.0]


def test_nothing_changed_is_the_same_graph():
    graph = Graph([X], [xp.exp(X) + 1])
    assert rewrite(graph, lambda v, args: None).outputs[0] is graph.outputs[0]


def test_what_is_rebuilt_is_simplified_as_if_it_were_new():
    def outputs(mark):
        y = input_value(1, (2, 3), np.dtype(np.float64))
        row = xp.expand(mark(xp.sin(X)), shape=(2, 3))
        turned = xp.transpose(mark(xp.transpose(y, dim0=0, dim1=1)), dim0=0, dim1=1)
        return [y, xp.exp(y) * row, *xp.sort(mark(y), axis=0, descending=False), turned, xp.neg(mark(xp.neg(y)))]

    y, *marked = outputs(xp.detach)
    changed = rewrite(Graph([X, y], marked), lambda v, args: args[0] if v.op == "detach" else None)
    assert all(a is b for a, b in zip(changed.outputs, outputs(lambda v: v)[1:], strict=True))
