"""The interpreter is the oracle: every row runs through it, and gives what eager code gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from row_graphs import WITHOUT_SHAPE, row_graphs

from symgrad.application import apply
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, input_value, row_of
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap


def eager(graph, arrays):
    """The graph run by the dispatcher: what it gives as arrays."""
    known = dict(zip(graph.inputs, map(wrap, arrays), strict=True))
    for v in graph.values:
        if v.op == LITERAL:
            known[v] = wrap(np.asarray(v.value, v.dtype))
        elif v.op == OUTPUT:
            known[v] = known[v.args[0]][v.attrs["index"]]
        elif v.op != INPUT:
            known[v] = apply(row_of(v), tuple(None if a is None else known[a] for a in v.args), dict(v.attrs))
    return [known[v].numpy() for v in graph.outputs]


def test_no_row_is_left_out():
    assert set(row_graphs()) == set(TABLE) - WITHOUT_SHAPE
    assert all(row_graphs().values())


@pytest.mark.parametrize("name", sorted(row_graphs()))
def test_every_row(name):
    for graph, arrays in row_graphs()[name]:
        for found, wanted in zip(evaluate(verify(graph), arrays), eager(graph, arrays), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


def test_half_precision_is_rounded_after_every_step():
    x = input_value(0, (3,), np.float16)
    graph = Graph([x], [xp.exp(x) * x, *xp.max_along(xp.sin(x), axis=0, keepdims=False)])
    array = np.array([0.1, 1.7, -2.3], np.float16)
    for found, wanted in zip(evaluate(graph, [array]), eager(graph, [array]), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)
