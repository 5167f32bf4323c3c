"""Taylor coefficients equal nested forward derivatives divided by factorials, for every row and for programs."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from row_graphs import row_graphs

from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.autodiff.pull import differentiable_inputs
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
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
    rng = np.random.default_rng(7)
    for whole, arrays in row_graphs()[name]:
        graph = floats(whole)
        wrt = sorted(i for i in differentiable_inputs(graph) if kind(graph.inputs[i].dtype) in "fc")
        if not wrt or not graph.outputs:
            continue
        directions = [rng.standard_normal(arrays[i].shape).astype(arrays[i].dtype) * 0.5 for i in wrt]
        try:
            expected = nested(graph, wrt, arrays, directions)
        except (GraphError, RuntimeError) as error:
            with pytest.raises(type(error), match=re.escape(str(error)[:30])):
                taylor(graph, wrt, ORDER)
            continue
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
