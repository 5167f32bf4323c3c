"""Sparse derivatives of graphs equal the dense ones, for every row of the table, and no nonzero is missing."""

from __future__ import annotations

import numpy as np
import pytest
from row_graphs import row_graphs
from row_programs import PROGRAMS
from sparse_derivatives import dense, pattern, sparse, traced
from sparse_programs import random_program

import symgrad as sg
from symgrad.errors import GraphError, TraceError
from symgrad.ops.promotion import kind

F = sg.nn.functional
rng = np.random.default_rng(5)


def check(graph, arrays, wrt=0, second=False, output=0):
    try:
        expected = dense(graph, arrays, wrt, second, output)
    except (GraphError, RuntimeError):  # the row has no derivative
        return None
    block, found = sparse(graph, arrays, wrt, second, output)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    return block


def is_real(v):
    return kind(v.dtype) == "f"


def test_every_row_has_the_nonzeros_of_its_dense_jacobian():
    checked = set()
    for name, graphs in row_graphs().items():
        for graph, arrays in graphs:
            pairs = [(i, k) for i, x in enumerate(graph.inputs) for k, y in enumerate(graph.outputs) if is_real(x) and is_real(y)]
            for i, k in pairs:
                if graph.inputs[i].size * graph.outputs[k].size < 1000 and check(graph, arrays, i, False, k) is not None:
                    checked.add(name)
    assert len(checked) > 200


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_rows(name):
    function, *arrays = PROGRAMS[name]
    try:
        graph, given = traced(function, *arrays)
        squares, _ = traced(lambda *xs: function(*xs).square().sum(), *arrays)
    except TraceError:
        pytest.skip("no graph")
    if is_real(graph.outputs[0]):
        for i in range(len(arrays)):
            check(graph, given, i)
            check(squares, given, i, second=True)


def bratu(u, n=5):
    grid = u.reshape(n, n)
    p = F.pad(grid, (1, 1, 1, 1))
    return (p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1] - 4 * grid + 0.1 * sg.exp(grid)).reshape(-1)


def periodic_heat(u):
    flux = (1 + u * u) * (u.roll(-1, 0) - u)
    return flux - flux.roll(1, 0)


INDEX = np.array([3, 0, 3, 7, 1])

EXACT = {
    "identity": (lambda x: x, (6,), 6),
    "elementwise": (lambda x: sg.sin(x) * x + x.exp(), (4, 3), 12),
    "slices": (lambda x: x[1:] * x[:-1], (9,), 16),
    "slices with steps": (lambda x: x[1::3] * x[::3], (9,), 6),
    "steps of steps": (lambda x: x[1::2][1::2].exp(), (12,), 3),
    "steps into boxes": (lambda x: x[2:][::2] * x[:-2][::2], (11,), 10),
    "roll": (lambda x: x.roll(2, 0) * x, (7,), 14),
    "roll of a matrix": (lambda x: x.roll(1, 1) - x.roll(-1, 0), (4, 5), 40),
    "roll by all dimensions": (lambda x: x.roll((1, 2), (0, 1)) * x, (4, 5), 40),
    "flip": (lambda x: x.flip(0) * x, (7,), 13),
    "heat": (periodic_heat, (8,), 24),
    "pde": (bratu, (25,), 105),
    "blocks": (lambda x: sg.softmax(x, 1), (5, 3), 45),
    "transposed blocks": (lambda x: sg.logsumexp(x.T, 0) * x[:, 0], (5, 3), 15),
    "gather": (lambda x: x[INDEX] * x[:5], (8,), 10),
    "scatter": (lambda x: sg.zeros(9, dtype=sg.float64).index_add(0, sg.tensor(INDEX), x[:5] ** 2), (5,), 5),
    "cat": (lambda x: sg.cat([x[:3].square().sum(0, keepdim=True), x[2:] * 2]), (7,), 8),
    "stack": (lambda x: sg.stack([x, x.exp(), x.flip(0)], 1), (4,), 12),
    "padding": (lambda x: F.pad(x, (2, 1)) * 3, (5,), 5),
    "padded columns in one row": (lambda x: F.pad(x, (1, 1)).reshape(-1) ** 2, (3, 2), 6),
    "padded columns in another grid": (lambda x: F.pad(x, (1, 0)).reshape(2, 6) * 3, (4, 2), 8),
    "padded rows in one row": (lambda x: F.pad(x, (0, 0, 1, 2)).reshape(-1) ** 2, (3, 2), 6),
    "padded number in part of a row": (lambda x: F.pad(x.expand(3, 2), (1, 1, 1, 1)).reshape(-1)[3:] ** 2, (1,), 6),
    "padded broadcast in part of a grid": (lambda x: F.pad(x[:, None, None].expand(2, 3, 2), (1, 1)).reshape(2, -1)[:, 1:] * 3, (2,), 12),
    "broadcast": (lambda x: x[:, None] - x[None, :], (4,), 28),
    "sum of rows": (lambda x: x.sum(1) * x[:, 0], (4, 3), 12),
    "sum of a broadcast": (lambda x: x[:, None].expand(4, 3).sum(1), (4,), 4),
    "convolution": (lambda x: F.conv1d(x[None, None], sg.tensor([[[1.0, 2.0, 4.0]]], dtype=sg.float64), padding=1), (6,), 16),
    "diagonal": (lambda x: x.diagonal() ** 2, (4, 5), 4),
    "triangle": (lambda x: x.tril() * 2, (4, 4), 10),
    "windows": (lambda x: x.unfold(0, 3, 2).prod(1), (9,), 12),
    "matrix times vector": (lambda x: x @ x[0], (3, 3), 15),
    "cumulative": (lambda x: x.reshape(6, 2).cumsum(1), (12,), 24),
    "constant": (lambda x: sg.ones(3, dtype=sg.float64) + 0 * x[:3], (5,), 0),
    "one number": (lambda x: x**2, (1,), 1),
    "of a number": (lambda x: x * x, (), 1),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_pattern_is_exact(name):
    function, shape, nnz = EXACT[name]
    x = rng.uniform(0.5, 1.5, shape)
    graph, arrays = traced(function, x)
    assert check(graph, arrays).nnz == nnz


AT_ZERO = {
    "squares": (lambda x: x[1:] ** 2 - x[:-1] ** 2, np.zeros(5), 8),
    "products": (lambda x: x[1:] * x[:-1], np.zeros(5), 8),
    "mask": (lambda x: sg.where(x > 0, x * 2, 0 * x + 1), -np.ones(4), 4),
    "relu": (lambda x: x.relu(), np.array([-1.0, 0.0, 2.0]), 3),
    "largest": (lambda x: sg.maximum(x[1:], x[:-1]), np.array([1.0, 1.0, 2.0, 0.0]), 6),
    "largest of all": (lambda x: x.amax(0), np.array([1.0, 3.0, 3.0]), 3),
    "captured zeros": (lambda x: x * sg.tensor(np.zeros(3)), np.ones(3), 3),
    "weights": (lambda x: sg.tensor(np.diag([1.0, 0, 2])) @ x, np.ones(3), 9),
}


@pytest.mark.parametrize("name", AT_ZERO)
def test_a_coefficient_that_happens_to_be_zero_stays_in_the_pattern(name):
    function, x, nnz = AT_ZERO[name]
    graph, arrays = traced(function, x)
    assert check(graph, arrays).nnz == nnz


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


HESSIANS = {
    "rosenbrock": (rosenbrock, (8,), 22, "closed form"),
    "separable": (lambda x: (x.exp() * x).sum(), (5,), 5, "closed form"),
    "linear": (lambda x: (3 * x).sum(), (5,), 0, "closed form"),
    "square of a sum": (lambda x: x.sum() ** 2, (4,), 16, "closed form"),
    "pairs by index": (lambda x: (x[INDEX] * x[INDEX - 1]).square().sum(), (8,), 14, "closed form"),
    "sorted part": (lambda x: x[:3].sort()[0].prod() + (x[3:] * x[2:-1]).square().sum(), (12,), 36, "coloring, 3 colors"),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name):
    function, shape, nnz, method = HESSIANS[name]
    graph, arrays = traced(function, rng.uniform(0.5, 1.5, shape))
    block = check(graph, arrays, second=True)
    assert (block.nnz, block.method) == (nnz, method)
    assert (pattern(block) == pattern(block).T).all()


def test_a_hessian_needs_one_number():
    graph, arrays = traced(lambda x: x**2, np.ones(3))
    with pytest.raises(GraphError, match="one number"):
        sparse(graph, arrays, second=True)


def test_what_is_opaque_is_colored():
    graph, arrays = traced(lambda x: sg.cat([x[:4].sort()[0], x[4:] ** 2]), rng.normal(size=20))
    block = check(graph, arrays)
    assert (block.nnz, block.method) == (32, "coloring, 4 colors")


def test_complex_values_inside_are_not_lost():
    graph, arrays = traced(lambda x: sg.fft.rfft(x).abs(), rng.normal(size=6))
    assert check(graph, arrays).method == "dense"


def check_random(seed):
    """Values and pattern of a random program's Jacobian, and the values of the Hessian of a sum."""
    function, n = random_program(seed)
    points = np.random.default_rng(seed)
    x = points.uniform(-1, 1, n)
    graph, arrays = traced(function, x)
    block = check(graph, arrays)
    nonzero = np.zeros(block.shape, bool)
    for _ in range(3):  # no nonzero is missing at other points either, since the pattern is that of the program
        nonzero |= dense(graph, [points.uniform(-1, 1, n), *arrays[1:]]) != 0
    assert not (nonzero & ~pattern(block)).any()
    if seed % 3 == 0:
        graph, arrays = traced(lambda x: function(x).square().sum(), x)
        check(graph, arrays, second=True)


@pytest.mark.parametrize("seeds", [range(0, 30)])
def test_random_programs(seeds):
    for seed in seeds:
        check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_random_programs(start):
    for seed in range(start, start + 100):
        check_random(seed)
