"""Products with one-hot matrices read and add rows: as many operations as elements, and the numbers of the products."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.algebra.one_hot import one_hot
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.trace.trace import trace

rng = np.random.default_rng(7)
ROWS, CLASSES, WIDTH = 90, 70, 80
INDICES = rng.integers(0, CLASSES, ROWS)
OUTSIDE = np.where(np.arange(ROWS) % 7 == 0, np.array([-1, CLASSES, -CLASSES, 10**9])[np.arange(ROWS) % 4], INDICES)
TABLE, GIVEN, SCORES = (rng.standard_normal(shape) for shape in ((CLASSES, WIDTH), (ROWS, WIDTH), (ROWS, CLASSES)))
hot = lambda i, like, n=CLASSES: F.one_hot(i, n).to(like.dtype)

FORMS = {
    # name: (function of indices and a tensor, the tensor, its value by indexing in NumPy, operations at most)
    "rows": (lambda i, w: hot(i, w) @ w, TABLE, lambda i, w: w[i], 3 * ROWS * WIDTH),
    "columns": (lambda i, w: w.T @ hot(i, w).T, TABLE, lambda i, w: w[i].T, 3 * ROWS * WIDTH),
    "sums of rows": (lambda i, x: hot(i, x).T @ x, GIVEN, lambda i, x: added(i, x), 2 * (ROWS + CLASSES) * WIDTH),
    "sums of columns": (lambda i, x: x.T @ hot(i, x), GIVEN, lambda i, x: added(i, x).T, 2 * (ROWS + CLASSES) * WIDTH),
    "a batch": (lambda i, w: hot(i.reshape(9, 10), w) @ w, TABLE, lambda i, w: w[i.reshape(9, 10)], 3 * ROWS * WIDTH),
    "a layer": (lambda i, w: F.linear(hot(i, w), w.T, w[0]), TABLE, lambda i, w: w[i] + w[0], 4 * ROWS * WIDTH),
}
LARGE = rng.integers(0, 500, 300)
FORMS |= {
    "elements": (
        lambda i, x: (hot(i, x, 500) * x).sum(1), rng.standard_normal((300, 500)), lambda i, x: np.take_along_axis(x, i[:, None], 1)[:, 0],
        4 * 300,
    ),
    "their sum": (
        lambda i, x: -(x * hot(i, x, 500)).sum(), rng.standard_normal((300, 500)), lambda i, x: -np.take_along_axis(x, i[:, None], 1).sum(),
        5 * 300,
    ),
}  # fmt: skip


def added(i, x, classes=CLASSES):
    total = np.zeros((classes, *x.shape[1:]), x.dtype)
    np.add.at(total, i, x)
    return total


def graph_of(function, i, x):
    return trace(lambda given: function(*given), [i, x], ["i", "x"]).graph


def indices_of(x):
    return LARGE if x.shape == (300, 500) else INDICES


def creation(graph):
    """The operations that make one-hot matrices, in case they are read elsewhere."""
    return sum(v.size for v in graph.values if v.op == "one_hot" or (v.op == "cast" and v.args[0].op == "one_hot"))


@pytest.mark.parametrize("name", FORMS)
def test_products_become_reads_and_sums_of_rows(name):
    function, x, expected, most = FORMS[name]
    i = indices_of(x)
    graph = graph_of(function, i, x)
    found = one_hot(graph)
    assert "one_hot" not in found.ops
    assert total_flops(found) <= most + 6 * i.size < total_flops(graph) / 10
    np.testing.assert_allclose(evaluate(found, [i, x])[0], expected(i, x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.complex128, np.int64])
@pytest.mark.parametrize("name", FORMS)
def test_an_index_that_names_no_class_selects_zeros(name, dtype):
    function, x, _, _ = FORMS[name]
    i = np.where(np.arange(300) % 5 == 0, -1, LARGE) if x.shape == (300, 500) else OUTSIDE
    x = (4 * x).round().astype(dtype) * (1 if dtype != np.complex128 else 1 - 2j)
    graph = graph_of(function, indices_of(x), x)
    found = one_hot(graph)
    assert found != graph
    np.testing.assert_array_equal(evaluate(found, [i, x])[0], evaluate(graph, [i, x])[0])


def test_the_gradient_of_rows_adds_into_the_table():
    graph = graph_of(lambda i, w: ((hot(i.reshape(9, 10), w) @ w) ** 2).sum(), INDICES, TABLE)
    back = grad(graph, [1])
    found = one_hot(back)
    assert {"one_hot", "matmul"}.isdisjoint(found.ops)
    assert {"index", "index_back"} <= found.ops
    assert total_flops(found) < total_flops(back) / 20
    np.testing.assert_allclose(evaluate(found, [INDICES, TABLE])[0], added(INDICES, 2 * TABLE[INDICES]), rtol=1e-13)


LEFT_ALONE = {
    "few classes": (lambda i, w: F.one_hot(i, 3).to(w.dtype) @ w[:3], np.arange(90) % 3, TABLE),
    "few rows": (lambda i, w: hot(i[:2], w) @ w, INDICES, TABLE),
    "a table for each row": (lambda i, w: hot(i.reshape(9, 10), w) @ w.expand(9, CLASSES, WIDTH), INDICES, TABLE),
    "a sum over rows": (lambda i, x: (hot(i, x) * x).sum(0), INDICES, SCORES),
    "scaled": (lambda i, w: (0.9 * hot(i, w)) @ w, INDICES, TABLE),
    "one row of several": (lambda i, w: (hot(i, w) * w.sum()) @ w, INDICES, TABLE),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_products_stay_as_they_are(name):
    function, i, x = LEFT_ALONE[name]
    graph = graph_of(function, i, x)
    assert one_hot(graph) == graph


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_compiled_functions_and_the_switch(backend):
    loss = lambda i, w: ((hot(i, w) @ w).sin() ** 2).sum()
    fast, plain = sg.compile(loss, backend=backend), sg.compile(loss, backend=backend, without=("one_hot", "contract"))
    given = sg.tensor(OUTSIDE % 10**6), sg.tensor(TABLE)
    for each in (fast, plain):  # a trace sees the indices, and one_hot refuses those outside
        each(sg.tensor(INDICES), given[1])
        each.grad(sg.tensor(INDICES), given[1], wrt="w")
    for one, other in ((fast(*given), plain(*given)), (fast.grad(*given, wrt="w"), plain.grad(*given, wrt="w"))):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
    assert "one_hot_product" in str(dict(fast.explain("grad")["passes"].rows)["one_hot"])
    assert "index" not in plain.source("forward")
    assert "[0 ≤ i[" in str(sg.derive(lambda i, w: hot(i, w) @ w)(sg.tensor(INDICES), given[1]))


def test_zeros_times_infinity_are_left_out():
    table = TABLE.copy()
    table[INDICES[0]] = np.inf
    graph = graph_of(FORMS["rows"][0], INDICES, table)
    np.testing.assert_array_equal(evaluate(one_hot(graph), [INDICES, table])[0], table[INDICES])
