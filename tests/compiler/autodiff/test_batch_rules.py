"""Every row of the table takes one more dimension along; those that do it slice by slice are counted."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.autodiff.batch import batch
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify

SIZE = 3


def patterns(count):
    """Every argument by itself, and all of them."""
    return sorted({*itertools.combinations(range(count), 1), tuple(range(count))} - {()})


def looped(name, graph, arrays, which):
    """Whether the batched row goes slice by slice; what it computes is what slices give."""
    given = [np.stack([a] * SIZE) if i in which else a for i, a in enumerate(arrays)]
    for i in which:
        if arrays[i].dtype.kind == "f":
            given[i] = given[i] * np.array([1, 1.25, 0.75]).reshape(SIZE, *(1,) * arrays[i].ndim)
    grown = verify(batch(graph, which, SIZE))
    found = evaluate(grown, given)
    runs = [evaluate(graph, [a[i] if j in which else a for j, a in enumerate(given)]) for i in range(SIZE)]
    for a, column in zip(found, zip(*runs, strict=True), strict=True):
        b = np.stack(column)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"{name} {which}")
    return any("_batched" in v.op for v in grown.values)


SLICE_BY_SLICE = {
    "convolution": "weights of its own for each slice",
    "convolution_transpose": "the same",
    "convolution_weight": "a sum over the batch, which the new dimension is no part of",
    "embedding": "a table of its own for each slice",
    "index": "indices of their own for each slice, or in dimensions that are not side by side",
    "index_add": "indices of their own for each slice",
    "index_back": "as index",
    "index_copy": "as index_add",
    "index_fill": "a number for each slice",
    "index_put": "as index",
    "index_select": "indices and array of their own for each slice",
    "nll_loss": "a mean over the batch, which the new dimension is no part of",
    "nll_spread": "its derivative",
    "pinv": "a tolerance for each matrix",
    "searchsorted": "a sequence of its own for each slice",
    "view_write": "a path of views that is given by its shapes",
}
"""Rows that go slice by slice for some of the arguments with a dimension more, and why."""
ALWAYS = {"convolution_weight", "nll_loss", "nll_spread", "pinv", "view_write"}
"""Those that have no better rule for any."""


@pytest.mark.parametrize("name", sorted(row_graphs()))
def test_rows(name):
    runs = [(looped(name, graph, arrays, which)) for graph, arrays in row_graphs()[name] for which in patterns(len(arrays))]
    assert any(runs) == (name in SLICE_BY_SLICE)
    assert (bool(runs) and all(runs)) == (name in ALWAYS)


def test_few_rows_go_slice_by_slice():
    assert len(SLICE_BY_SLICE) <= 16
    assert len(ALWAYS) <= 5


@pytest.mark.parametrize("count", [10, 1000])
def test_cross_and_unbind_run_once_for_all(count):
    def frame(x, y):
        a, b, c = sg.unbind(x)
        return sg.linalg.cross(x / (a * a + b * b + c * c).sqrt(), y)

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(count, 3)) for _ in range(2))
    fast = sg.compile(sg.vmap(frame), backend="numpy")
    fast(x, y), fast(x, y)
    calls = 0

    def see(*_):
        nonlocal calls
        calls += 1

    sys.setprofile(see)
    try:
        found = fast(x, y)
    finally:
        sys.setprofile(None)
    assert calls <= 250  # entered and left, however many examples there are
    np.testing.assert_allclose(found, np.cross(x / np.linalg.norm(x, axis=1, keepdims=True), y), rtol=1e-12)
