"""Sparse derivatives of a graph, as arrays and as masks, beside the dense ones."""

from __future__ import annotations

import numpy as np

from symgrad.compiler.algebra.band import Constants
from symgrad.compiler.algebra.listed_rows import PlaceReader
from symgrad.compiler.algebra.sparse_values import first_derivative, second_derivatives, sparse_block
from symgrad.compiler.autodiff.jacobian import hessian, jacobian
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace


def traced(function, *arrays):
    """The graph of a function, and the arrays of all its inputs."""
    found = trace(lambda given: function(*given), list(arrays), [f"x{i}" for i in range(len(arrays))])
    return found.graph, [*arrays, *(t.numpy() for t in found.captured)]


def sparse(graph, arrays, wrt=0, second=False, output=0):
    """A block of a sparse derivative, and its values as a dense array."""
    constants, x, y = Constants(len(graph.inputs)), graph.inputs[wrt], graph.outputs[output]
    what = second_derivatives(graph, y, [x])[0] if second else first_derivative(graph, y, x)
    block = sparse_block(what, constants, PlaceReader(graph.inputs, lambda: arrays, x))
    places = [input_value(len(graph.inputs) + k, a.shape, a.dtype) for k, a in enumerate(constants.arrays)]
    values = [] if block.value is None else [block.value]
    data = block.template.copy()
    for vector in evaluate(verify(Graph((*graph.inputs, *places), values)), [*arrays, *constants.arrays]):
        data[: len(vector)] += vector
    found = np.zeros(block.shape)
    assert len(set(zip(block.rows.tolist(), block.cols.tolist(), strict=True))) == block.nnz  # each place once
    found[block.rows, block.cols] = data
    return block, found


def dense(graph, arrays, wrt=0, second=False, output=0):
    derivative = hessian if second else jacobian
    (found,) = evaluate(derivative(Graph(graph.inputs, (graph.outputs[output],), graph.labels), (wrt,)), arrays)
    size = graph.inputs[wrt].size
    return np.asarray(found, np.float64).reshape((size if second else graph.outputs[output].size), size)


def pattern(block):
    found = np.zeros(block.shape, bool)
    found[block.rows, block.cols] = True
    return found
