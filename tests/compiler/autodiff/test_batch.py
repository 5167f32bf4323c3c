"""Batched graphs: one more dimension in front gives what runs of the graph, one after the other, give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.batch import batch
from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.trace.trace import trace

F = sg.nn.functional
SIZE = 3
INDEX = sg.tensor([0, 2, 2])


def products():
    shapes = itertools.product([(4,), (3, 4), (2, 3, 4)], [(4,), (4, 5), (4, 1), (2, 4, 5), (1, 4, 5)])
    return [pytest.param(lambda x, y: x @ y, pair, id=f"matmul{pair}") for pair in shapes]


CASES = [
    *products(),
    pytest.param(lambda x, y: (x + y) * y.exp(), ((3,), (2, 1)), id="broadcasting"),
    pytest.param(lambda x: x.sum(1).sin() + x.amax(-1), ((3, 4),), id="reductions"),
    pytest.param(lambda x: x.permute(2, 0, 1).transpose(-1, 0), ((3, 4, 2),), id="permute"),
    pytest.param(lambda x: x[1:, 0].expand(5, 2), ((3, 4),), id="getitem"),
    pytest.param(lambda x, y: sg.cat([x, y], -1).flip(0).cumsum(-1), ((3, 4), (3, 2)), id="cat"),
    pytest.param(lambda x, y: sg.stack([x, y], -1).softmax(-1), ((3, 4), (3, 4)), id="stack"),
    pytest.param(lambda x, y: sg.einsum("ij,jk->ki", x, y), ((3, 4), (4, 2)), id="einsum"),
    pytest.param(lambda x, y: sg.linalg.solve(x, y), ((3, 3), (3, 2)), id="solve"),
    pytest.param(lambda x: sg.linalg.eigh(x @ x.T)[0], ((3, 3),), id="eigh"),
    pytest.param(lambda x: x.sort(0)[0], ((3, 3),), id="sort"),
    pytest.param(lambda x: F.pad(x, (1, 2)), ((3, 3),), id="pad"),
    pytest.param(lambda x, w, b: F.conv1d(x, w, b, padding=1), ((2, 3, 6), (4, 3, 3), (4,)), id="convolution"),
    pytest.param(lambda x, w: F.conv_transpose1d(x, w, stride=2), ((2, 3, 6), (3, 4, 3)), id="convolution_transpose"),
    pytest.param(lambda x, w, b: F.linear(x, w, b), ((2, 3), (4, 3), (4,)), id="linear"),
    pytest.param(lambda x: F.max_pool1d(x, 2), ((2, 3, 6),), id="max_pool"),
    pytest.param(lambda x: x.tril().diagonal(), ((3, 3),), id="tril"),
    pytest.param(lambda x: x[INDEX], ((3, 3),), id="index"),
    pytest.param(lambda x: x.mean(0) + x.var(1) + x.unsqueeze(0).squeeze(0).std(), ((3, 3),), id="statistics"),
    pytest.param(lambda x: x.triu(1).clone().roll(1, 0).cumprod(0), ((3, 3),), id="roll"),
    pytest.param(lambda x, y: sg.where(x > 0, x, y).clamp(min=0.1).norm(), ((3, 3), (3,)), id="where"),
]


def slices(graph, arrays, which):
    """The outputs for one slice after the other."""
    runs = [evaluate(graph, [a[i] if j in which else a for j, a in enumerate(arrays)]) for i in range(SIZE)]
    return [np.stack(column) for column in zip(*runs, strict=True)]


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("f", "shapes"), CASES)
def test_batched_is_one_run_after_the_other(f, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    traced = trace(lambda ts: f(*ts), arrays, [f"x{i}" for i in range(len(arrays))])
    captured = [t._array for t in traced.captured]
    for count in range(1, len(arrays) + 1):
        for which in itertools.combinations(range(len(arrays)), count):
            graph = verify(batch(traced.graph, which, SIZE))
            given = [rng.standard_normal((SIZE, *a.shape)) if i in which else a for i, a in enumerate(arrays)] + captured
            close(evaluate(graph, given), slices(traced.graph, given, which))


def everything(x, y, w):
    rows = sg.linalg.solve(x @ x.T + 5 * (x == x).tril().triu(), y)
    return rows.sort(0)[0] @ w, rows.cumprod(1).roll(1, 0), F.max_pool1d(rows[None], 2), rows.sum(), sg.linalg.pinv(rows)


def test_rows_without_a_rule_of_their_own_are_mapped_in_kernels():
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in ((3, 3), (3, 4), (4,))]
    graph = trace(lambda ts: everything(*ts), arrays, ["x", "y", "w"]).graph
    given = [rng.standard_normal((SIZE, 3, 3)), *arrays[1:]]
    kernel = XlaKernel(verify(batch(graph, (0,), SIZE)))
    assert "jax.vmap(lambda" in kernel.source()
    for a, b in zip(kernel(given), slices(graph, given, {0}), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_what_is_common_is_computed_once():
    graph = trace(lambda ts: ts[0].exp().sum() * ts[1], [np.ones(4), np.ones(2)], ["x", "y"]).graph
    grown = batch(graph, (1,), SIZE)
    assert [v.shape for v in grown.values if v.op == "exp"] == [(4,)]
    assert batch(graph, (), SIZE).outputs[0].shape == (SIZE, 2)


def repeated(x, w):
    return sg.fori_loop(0, 3, lambda i, y: (y @ w * x).sin(), x)


def carried(x, w):
    return sg.scan(lambda c, t: ((c @ w + t).tanh(), c.sum() * t), x, sg.stack([x, x * 2, x * 3]))


def chosen(x, w):
    return sg.cond(x.sum() > 0, lambda: (x @ w).sin(), lambda: x * w.sum())


def until(x, w):
    return sg.while_loop(lambda y: (y * y).sum() < 100, lambda y: y * 1.5 + (x @ w).sin(), x)


def flat(tree):
    return np.concatenate([np.ravel(t.numpy()) for t in (tree if isinstance(tree, tuple) else (tree,))])


@pytest.mark.parametrize("f", [repeated, carried, chosen, until])
@pytest.mark.parametrize("wrt", [0, 1])
def test_jacobians_of_loops_and_branches(f, wrt):
    """By the NumPy back end: what is batched is the same graph."""
    sg.manual_seed(0)
    x, w = sg.randn(3, dtype=sg.float64), sg.randn(3, 3, dtype=sg.float64)
    eager = sg.func.jacfwd if f is until else sg.func.jacrev
    found = sg.compile(f, backend="numpy").jacobian(x, w, wrt=wrt)
    np.testing.assert_allclose(flat(found), flat(eager(f, wrt)(x, w)), rtol=1e-12, atol=1e-12)


def test_jacobian_of_a_scan_by_xla():
    x, w = sg.ones(3, dtype=sg.float64), sg.eye(3, dtype=sg.float64) / 2
    found = sg.compile(carried).jacobian(x, w, wrt=1)
    np.testing.assert_allclose(flat(found), flat(sg.func.jacrev(carried, 1)(x, w)), rtol=1e-12, atol=1e-12)


def test_branches_and_loops_over_a_batch():
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((SIZE, 3)), rng.standard_normal((3, 3))
    for f in (repeated, carried, chosen, until):
        traced = trace(lambda ts, f=f: f(*ts), [x[0], w], ["x", "w"])
        given = [x, w, *(t._array for t in traced.captured)]
        close(evaluate(verify(batch(traced.graph, (0,), SIZE)), given), slices(traced.graph, given, {0}))
