"""The terms of Jacobians and Hessians, against derivatives by unit vectors."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_programs import HESSIANS, JACOBIANS, M, graph_of, x
from matrix_terms import dense

import symgrad as sg
from symgrad.compiler.algebra.affine import NotAffine
from symgrad.compiler.algebra.bilinear import hessian_terms, jacobian_terms
from symgrad.compiler.autodiff.jacobian import hessian, jacobian
from symgrad.compiler.ir.interpret import evaluate


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian(name):
    function, *arrays = HESSIANS[name]
    graph = graph_of(function, *arrays)
    (expected,) = evaluate(hessian(graph, (0,)), arrays)
    shape = arrays[0].shape
    found = dense(hessian_terms(graph, graph.outputs[0], graph.inputs[0], graph.inputs[0]), graph.inputs, arrays, shape, shape)
    assert np.allclose(found, expected.reshape(found.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobian(name):
    function, *arrays = JACOBIANS[name]
    graph = graph_of(function, *arrays)
    (expected,) = evaluate(jacobian(graph, (0,)), arrays)
    terms = jacobian_terms(graph, graph.outputs[0], graph.inputs[0])
    found = dense(terms, graph.inputs, arrays, graph.outputs[0].shape, arrays[0].shape)
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_two_inputs():
    arrays = M[:, :2], M[:, 2:4]
    graph = graph_of(lambda U, V: (U @ V.T).square().sum(), *arrays)
    blocks = evaluate(hessian(graph, (0, 1)), arrays)
    found = dense(hessian_terms(graph, graph.outputs[0], *graph.inputs), graph.inputs, arrays, (6, 2), (6, 2))
    assert np.allclose(found, blocks[1].reshape(found.shape), rtol=1e-12)


def test_places_of_a_diagonal_and_of_blocks():
    graph = graph_of(lambda x: (x**3).sum(), x)
    (term,) = hessian_terms(graph, graph.outputs[0], graph.inputs[0], graph.inputs[0])
    assert term.rows == term.columns
    assert term.product.coefficient == 6
    graph = graph_of(HESSIANS["factorisation"][0], M[:, :2], M, M * 1.0, M[:, 2:4])
    (term,) = hessian_terms(graph, graph.outputs[0], graph.inputs[0], graph.inputs[0])
    assert term.rows[0] == term.columns[0]
    assert term.rows[1] != term.columns[1]
    assert len(term.product.bound - term.placed) == 1


def test_what_has_no_normal_form_is_refused():
    graph = graph_of(lambda x: (x.cumsum(0) ** 3).sum(), x)
    with pytest.raises(NotAffine):
        hessian_terms(graph, graph.outputs[0], graph.inputs[0], graph.inputs[0])


def repeated(step, n=6):
    def f(x):
        for _ in range(n):
            x = step(x)
        return (x * x).sum()

    return f


W = np.array([0.3, -0.7, 1.1, 0.4])


@pytest.mark.parametrize(
    ("f", "structure"),
    [
        (repeated(lambda x: x.tanh() * x + x), "diagonal"),
        (repeated(lambda x: sg.where(x > 0, x.exp() * 0.1, x.sin()) * x - x * 0.5), "diagonal"),
        (repeated(lambda x: x / (1 + x * x)), "diagonal"),
        (repeated(lambda x: (x * sg.tensor(W)).sin() * x[:1]), None),
        (repeated(lambda x: x.T * x.sum(), 3), None),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_chains_of_elementwise_rows_keep_their_structure(f, structure, backend):
    """Expanded, they have more terms than are handled: the slopes of each chain are summed first."""
    x = sg.tensor(np.linspace(-0.9, 0.8, 16).reshape(4, 4))
    found = sg.compile(f, backend=backend).hessian(x, structured=True)
    if structure is not None:
        assert found.structure == structure
    expected = sg.func.hessian(f)(x).numpy().reshape(16, 16)
    np.testing.assert_allclose(np.asarray(found.to_dense()).reshape(16, 16), expected, rtol=1e-9, atol=1e-12 * abs(expected).max())
