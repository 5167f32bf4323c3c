"""Every row of the table as a small graph, on samples of its arguments."""

from __future__ import annotations

import functools

import numpy as np
from row_samples import caught

from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.ops.table import TABLE
from symgrad.testing.samples import samples

WITHOUT_SHAPE = {"bincount", "nonzero", "unique", "unique_consecutive"}
"""How large their results are is known only from values: no graph holds them."""


def samples_of(row):
    whole = (np.array([3, 0, 5]), np.array([1, 2, 2]))[: len(row.args)]
    if row.name == "imag":
        return [((np.array([1 + 2j, 3 - 1j]),), {})]
    if row.name == "any":
        return [((np.array([[True, False], [False, False]]),), {"axis": (1,), "keepdims": False})]
    return [(whole, {})] if row.name.startswith("bitwise") else [*samples(row), *caught().get(row.name, [])]


@functools.cache
def row_graphs():
    """Name of a row -> a list of (graph, arrays)."""
    return {name: [_graph(row, *sample) for sample in samples_of(row)] for name, row in TABLE.items() if name not in WITHOUT_SHAPE}


def _graph(row, args, attrs):
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    inputs = [input_value(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    given = iter(inputs)
    results = apply(row, tuple(next(given) if isinstance(a, np.ndarray) else a for a in args), attrs)
    return Graph(inputs, results if isinstance(results, tuple) else (results,)), arrays
