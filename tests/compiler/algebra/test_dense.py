"""Full Jacobians and Hessians from terms, against those by unit vectors."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_programs import HESSIANS, JACOBIANS, M, graph_of, x

import symgrad as sg
from symgrad.compiler.algebra import combine, dense
from symgrad.compiler.algebra.cost import total_flops
from symgrad.compiler.autodiff import jacobian as by_unit_vectors
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify

BLOCKS = np.random.default_rng(3).standard_normal((3, 4, 5))
MORE = {
    "matrix of elements": (lambda W: (W**3).sum(), M),
    "blocks along the middle": (lambda X: ((X * X).sum(1) ** 2).sum(), BLOCKS),
    "blocks along the ends": (lambda X: ((X * X).sum((0, 2)) ** 2).sum(), BLOCKS),
    "blocks at the end": (lambda X: ((X * X).sum(2) ** 2).sum(), BLOCKS),
}
MOSTLY_BY_UNIT_VECTORS = {"gather", "two gathers", "rows of a table", "convolution", "rolled along two axes", "rolled", "softmax",
                          "quadratic form", "Kronecker product", "one element", "linear", "matrix", "flipped", "scattered"}  # fmt: skip


@pytest.mark.parametrize("name", [*HESSIANS, *MORE])
def test_hessian(name):
    function, *arrays = HESSIANS.get(name) or MORE[name]
    graph = graph_of(function, *arrays)
    written, found = by_unit_vectors.hessian(graph, (0,)), verify(dense.hessian(graph, (0,)))
    (expected,), (value,) = evaluate(written, arrays), evaluate(found, arrays)
    assert np.allclose(value, expected, rtol=1e-12, atol=1e-12)
    assert total_flops(found) <= total_flops(written)
    assert (total_flops(found) < total_flops(written)) == (name not in MOSTLY_BY_UNIT_VECTORS)


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobian(name):
    function, *arrays = JACOBIANS[name]
    graph = graph_of(function, *arrays)
    written, found = by_unit_vectors.jacobian(graph, (0,)), verify(dense.jacobian(graph, (0,)))
    (expected,), (value,) = evaluate(written, arrays), evaluate(found, arrays)
    assert np.allclose(value, expected, rtol=1e-12, atol=1e-12)
    assert (total_flops(found) < total_flops(written)) == (name not in MOSTLY_BY_UNIT_VECTORS)


def test_several_inputs():
    arrays = M[:, :2], M[:5, 2:4]
    graph = graph_of(lambda U, V: ((U @ V.T) ** 2).sum() + (U**3).sum(), *arrays)
    written, found = by_unit_vectors.hessian(graph), verify(dense.hessian(graph))
    assert total_flops(found) < total_flops(written) / 5
    for value, expected in zip(evaluate(found, arrays), evaluate(written, arrays), strict=True):
        assert np.allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_the_hessian_of_a_factorisation_takes_no_product_per_unit_vector():
    n = 50
    shapes = (n, 5), (n, n), (n, n), (n, 5)
    graph = graph_of(HESSIANS["factorisation"][0], *(np.ones(s) for s in shapes))
    assert total_flops(by_unit_vectors.hessian(graph, (0,))) > 100 * (n * 5) ** 2
    assert total_flops(dense.hessian(graph, (0,))) < 4 * (n * 5) ** 2


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_compiled(backend):
    fast = sg.compile(HESSIANS["factorisation"][0], backend=backend)
    arrays = HESSIANS["factorisation"][1:]
    (expected,) = evaluate(by_unit_vectors.hessian(graph_of(HESSIANS["factorisation"][0], *arrays), (0,)), arrays)
    assert np.allclose(fast.hessian(*arrays, wrt=0), expected.reshape(6, 2, 6, 2), rtol=1e-12)
    assert "eye" not in fast.source(what="hessian", wrt=0)


def test_half_precision_and_mixed_dtypes_keep_their_dtype():
    for dtype in (np.float16, np.float32):
        graph = graph_of(lambda x, A: ((A @ x) ** 2).sum() + (x**3).sum(), x.astype(dtype), M.astype(dtype))
        (written,), (found,) = by_unit_vectors.hessian(graph, (0,)).outputs, dense.hessian(graph, (0,)).outputs
        assert found.dtype == written.dtype == dtype


def test_common_factors_of_many_terms_are_looked_for_once(monkeypatch):
    """A Hessian of 240 terms, most of which share factors: comparing all pairs again after each merge took half a minute."""
    compared, renaming = [], combine._renaming
    monkeypatch.setattr(combine, "_renaming", lambda *args: compared.append(1) or renaming(*args))

    def normalized(x):
        y = sg.where(x > 0.1, x, 0.0)
        y = y + 0.5 * y * x + 1.7
        return (y / (y * y).sum(1, keepdim=True).sqrt()).sum()

    x = np.array([[0.3, -0.5, 0.9], [1.2, 0.4, -0.1]])
    found = sg.compile(normalized, backend="numpy").hessian(x, wrt=0)
    np.testing.assert_allclose(found, sg.func.hessian(normalized)(sg.tensor(x)).numpy(), rtol=1e-10, atol=1e-12)
    assert 0 < len(compared) < 60_000
