"""Taylor coefficients equal nested forward derivatives divided by factorials, for every row and for programs."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from row_graphs import row_graphs

from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.autodiff.laplacian import laplacian
from symgrad.compiler.autodiff.pull import differentiable_inputs
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.subgraph import inline
from symgrad.compiler.ir.verify import verify
from symgrad.errors import GraphError
from symgrad.ops.promotion import kind
from symgrad.ops.table import TABLE

ORDER = 3
ROUNDING = {"cofactor_derivative": 1e-7}
"""Rows whose kernels lose digits: this one has a singular matrix among its samples."""
ROWS = sorted(name for name, row in TABLE.items() if row.differentiable and name in row_graphs())


def floats(graph):
    return Graph(graph.inputs, [y for y in graph.outputs if kind(y.dtype) in "fc"], graph.labels)


def nested(graph, wrt, arrays, directions):
    """The derivatives of order 1 to ORDER along the directions, each the forward derivative of the one before."""
    found = []
    for _ in range(ORDER):
        graph, arrays = jvp(graph, wrt), [*arrays, *directions]
        found.append(evaluate(graph, arrays))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_every_row_agrees_with_nested_forward_derivatives(name):
    for graph, arrays in row_graphs()[name]:
        compare_with_nested(name, floats(graph), arrays)


@pytest.mark.parametrize("name", [name for name in ROWS if TABLE[name].elementwise])
def test_every_elementwise_row_of_numbers_that_are_spread_out(name):
    """Rows of expanded arguments are built of what the arguments were before: x * expand(x) in place of expand(x) * expand(x)."""
    for graph, arrays in row_graphs()[name]:
        numbers, smaller = spread_out(floats(graph), arrays)
        if compare_with_nested(name, numbers, smaller):
            compare_laplacians(numbers, smaller)


def spread_out(graph, arrays):
    """The graph of one element of each array of floats, expanded to the shape of the array; with these elements."""
    spread = [a.size > 0 and a.ndim > 0 and a.dtype.kind in "fc" for a in arrays]
    inputs = [input_value(i, () if found else x.shape, x.dtype) for i, (x, found) in enumerate(zip(graph.inputs, spread, strict=True))]
    args = [xp.expand(x, shape=a.shape) if found else x for x, a, found in zip(inputs, arrays, spread, strict=True)]
    return Graph(inputs, inline(graph, args), graph.labels), [a.flat[0] if found else a for a, found in zip(arrays, spread, strict=True)]


def wrt_of(graph):
    return sorted(i for i in differentiable_inputs(graph) if kind(graph.inputs[i].dtype) in "fc")


def compare_with_nested(name, graph, arrays):
    """True if there was something to compare; False for rows whose derivative is refused, by both."""
    wrt, rng = wrt_of(graph), np.random.default_rng(7)
    if not wrt or not graph.outputs:
        return False
    directions = [np.asarray(rng.standard_normal(arrays[i].shape) * 0.5, arrays[i].dtype) for i in wrt]
    try:
        expected = nested(graph, wrt, arrays, directions)
    except (GraphError, RuntimeError) as error:
        with pytest.raises(type(error), match=re.escape(str(error)[:30])):
            taylor(graph, wrt, ORDER)
        return False
    made = verify(taylor(graph, wrt, ORDER))
    found = evaluate(made, [*arrays, *directions])
    for j, y in enumerate(graph.outputs):
        for k in range(ORDER):
            reference = expected[k][j] / math.factorial(k + 1)
            actual = found[j * (ORDER + 1) + k + 1]
            assert actual.dtype == y.dtype
            scale = max(1.0, np.abs(reference[np.isfinite(reference)]).max(initial=0))
            relative = ROUNDING.get(name, 1e-10) if y.dtype.itemsize >= 8 else 1e-4
            np.testing.assert_allclose(actual, reference, rtol=relative, atol=relative * scale, err_msg=f"order {k + 1}")
    return True


def compare_laplacians(graph, arrays):
    """The Laplacians in single numbers are second derivatives."""
    for i in wrt_of(graph):
        if graph.inputs[i].shape or any(kind(v.dtype) != "f" for v in (graph.inputs[i], *graph.outputs)):
            continue
        found = evaluate(verify(laplacian(graph, i)), arrays)
        expected = evaluate(jvp(jvp(graph, (i,)), (i,)), [*arrays, *[np.ones((), graph.inputs[i].dtype)] * 2])
        for actual, reference in zip(found, expected, strict=True):
            relative = 1e-10 if reference.dtype.itemsize >= 8 else 1e-4
            np.testing.assert_allclose(actual, reference, rtol=relative, atol=relative)
