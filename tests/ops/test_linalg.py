"""Determinants, inverses and systems of equations, of matrices and batches of them: values against NumPy, gradients to order 2."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matrices import check, leaf, positive, regular

import symgrad as sg
from symgrad import linalg
from symgrad.tensor import wrap
from symgrad.testing import gradcheck

INF = float("inf")


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (1, 1), (2, 2, 2, 2)])
def test_inverse_determinant_logarithm(shape):
    a = regular(*shape)
    np.testing.assert_allclose(linalg.inv(a)._array, np.linalg.inv(a._array))
    np.testing.assert_allclose(linalg.det(a)._array, np.linalg.det(a._array))
    sign, logarithm = linalg.slogdet(a)
    np.testing.assert_allclose((sign._array, logarithm._array), np.linalg.slogdet(a._array))
    for function in (linalg.inv, sg.inverse, linalg.det, sg.det, lambda x: sg.slogdet(x).logabsdet, sg.logdet):
        check(function, a)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0)])
def test_matrices_without_elements(shape):
    empty = wrap(np.zeros(shape), requires_grad=True)
    np.testing.assert_array_equal(linalg.det(empty)._array, np.ones(shape[:-2]))
    assert linalg.inv(empty).shape == shape
    linalg.det(empty).sum().backward()
    assert empty.grad.shape == shape


def minors(a):
    """The second derivative of the determinant of a 3 by 3 matrix, from its definition as a sum over permutations."""
    hessian = np.zeros((3, 3, 3, 3))
    for p in itertools.permutations(range(3)):
        sign = np.linalg.det(np.eye(3)[list(p)])
        for i, j in itertools.permutations(range(3), 2):
            (k,) = set(range(3)) - {i, j}
            hessian[i, p[i], j, p[j]] += sign * a[k, p[k]]
    return hessian


SINGULAR = {
    "rank 2": np.outer([1.0, 2, 3], [1, 0, 2]) + np.outer([0.0, 1, 1], [2, 1, 0]),
    "rank 1": np.outer([1.0, 2, 3], [4, 5, 6]),
    "rank 0": np.zeros((3, 3)),
    "equal singular values": np.eye(3),
    "two zeros": np.diag([0.0, 0.0, 2.0]),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_the_determinant_has_two_derivatives_everywhere(name):
    a = wrap(SINGULAR[name].copy(), requires_grad=True)
    (g,) = sg.autograd.grad(linalg.det(a), a, create_graph=True)
    hessian = np.stack([sg.autograd.grad(g[i, j], a, retain_graph=True)[0]._array for i in range(3) for j in range(3)])
    expected = minors(SINGULAR[name])
    np.testing.assert_allclose(hessian.reshape(3, 3, 3, 3), expected, atol=1e-13)
    rounding = np.finfo(float).eps * max(1, np.square(SINGULAR[name]).sum())  # of products of two singular values, which cancel
    np.testing.assert_allclose(g._array, np.einsum("ijkl,kl->ij", expected, SINGULAR[name]) / 2, atol=rounding)


@pytest.mark.parametrize("bad", [[[1.0, 2.0], [0.5, 1.0 + 1e-14]], [[1e-309, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_the_gradient_of_a_determinant_in_a_batch_of_good_and_bad_matrices(bad):
    """Beside nearly and wholly singular matrices, where the inverse overflows or is none, the cofactors keep their digits."""
    a = wrap(np.stack([np.eye(2), bad, np.ones((2, 2)) + np.eye(2)]), requires_grad=True)
    linalg.det(a).sum().backward()
    cofactors = np.stack([[[m[1, 1], -m[1, 0]], [-m[0, 1], m[0, 0]]] for m in a._array])
    np.testing.assert_allclose(a.grad._array, cofactors, rtol=1e-14, atol=1e-15)


def test_a_matrix_of_nan_spoils_no_other():
    a = wrap(np.stack([2 * np.eye(2), np.full((2, 2), np.nan)]), requires_grad=True)
    (g,) = sg.autograd.grad(linalg.det(a).sum(), a, create_graph=True)
    (second,) = sg.autograd.grad(g.sum(), a)
    np.testing.assert_allclose(g._array[0], 2 * np.eye(2))
    np.testing.assert_allclose(second._array[0], [[1, -1], [-1, 1]], atol=1e-15)
    assert np.isnan(g._array[1]).all()


def test_the_third_derivative_of_a_determinant():
    a = regular(3, 3)

    def second(x):
        (g,) = sg.autograd.grad(linalg.det(x), x, create_graph=True)
        return sg.autograd.grad((g * g * g).sum(), x, create_graph=True)[0]

    assert gradcheck(second, (a,))


def test_the_logarithm_at_a_singular_matrix_is_infinite_and_no_error():
    a = wrap(np.stack([np.eye(2), np.ones((2, 2))]), requires_grad=True)
    logarithm = sg.logdet(a)
    np.testing.assert_array_equal(logarithm._array, [0, -INF])
    logarithm.sum().backward()
    np.testing.assert_array_equal(a.grad._array[0], np.eye(2))
    assert np.isinf(a.grad._array[1]).all()


def test_the_logarithm_of_a_negative_determinant_is_nan():
    assert np.isnan(sg.logdet(wrap(-np.eye(3)))._array)


SYSTEMS = [
    ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3,)), ((2, 2, 2), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SYSTEMS)
def test_solve(a, b):
    vector = len(b) == 1 or b == a[:-1]
    a, b = regular(*a), leaf(*b)
    x = linalg.solve(a, b)
    product = a._array @ (x._array[..., None] if vector else x._array)
    np.testing.assert_allclose(product[..., 0] if vector else product, np.broadcast_to(b._array, x.shape), rtol=1e-12)
    check(linalg.solve, a, b)


def test_solve_from_the_right():
    a, b = regular(3, 3), leaf(2, 3)
    np.testing.assert_allclose((linalg.solve(a, b, left=False) @ a)._array, b._array)
    check(lambda x, y: linalg.solve(x, y, left=False), a, b)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_solve_triangular(upper, left, unitriangular):
    a, b = regular(2, 3, 3), leaf(3, 3)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    matrix = (np.triu if upper else np.tril)(a._array)
    if unitriangular:
        matrix = matrix * (1 - np.eye(3)) + np.eye(3)
    x = linalg.solve_triangular(a, b, **options)._array
    np.testing.assert_allclose(matrix @ x if left else x @ matrix, np.broadcast_to(b._array, x.shape), rtol=1e-12)
    check(lambda m, n: linalg.solve_triangular(m, n, **options), a, b)


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("upper", [True, False])
def test_triangular_systems_in_batches_small_and_large(n, upper):
    a, b = regular(3, n, n), leaf(3, n, 2)
    x = linalg.solve_triangular(a + n * wrap(np.eye(n)), b, upper=upper)._array
    matrix = (np.triu if upper else np.tril)(a._array + n * np.eye(n))
    np.testing.assert_allclose(matrix @ x, b._array, rtol=1e-10, atol=1e-12)


def test_a_singular_triangular_system_is_infinite_as_in_pytorch():
    for batch in ((), (2,)):
        x = linalg.solve_triangular(wrap(np.zeros((*batch, 2, 2))), wrap(np.ones((2, 1))), upper=True)
        assert not np.isfinite(x._array).any()


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_cholesky(upper, shape):
    x = leaf(*shape)
    a = positive(x)
    factor = linalg.cholesky(a, upper=upper)
    np.testing.assert_allclose((factor.mT @ factor if upper else factor @ factor.mT)._array, a._array)
    np.testing.assert_array_equal(np.triu(factor._array, 1) if not upper else np.tril(factor._array, -1), np.zeros(shape))
    check(lambda t: linalg.cholesky(positive(t), upper=upper), x)


def test_the_gradient_of_cholesky_is_symmetric():
    a = positive(leaf(3, 3)).detach().requires_grad_()
    (linalg.cholesky(a) * leaf(3, 3)).sum().backward()
    np.testing.assert_allclose(a.grad._array, a.grad._array.T, rtol=1e-12)


@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_solve_and_inverse(upper):
    x, b = leaf(3, 3), leaf(3, 2)
    a = positive(x)
    factor = linalg.cholesky(a, upper=upper)
    np.testing.assert_allclose(sg.cholesky_solve(b, factor, upper)._array, np.linalg.solve(a._array, b._array))
    np.testing.assert_allclose(sg.cholesky_inverse(factor, upper)._array, np.linalg.inv(a._array))
    check(lambda t, u: sg.cholesky_solve(u, linalg.cholesky(positive(t), upper=upper), upper), x, b)


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 3, 5])
def test_matrix_power(n):
    a = regular(2, 3, 3)
    np.testing.assert_allclose(linalg.matrix_power(a, n)._array, np.linalg.matrix_power(a._array, n), rtol=1e-10)
    if n:
        check(lambda x: sg.matrix_power(x / 3, n), a)


def test_multi_dot_takes_the_cheap_order():
    a, b, c = leaf(10, 2), leaf(2, 30), leaf(30, 3)
    product = linalg.multi_dot([a, b, c])
    np.testing.assert_allclose(product._array, a._array @ b._array @ c._array)
    assert tuple(product.grad_fn.inputs[1].shape) == (2, 3)  # a @ (b @ c): 240 products, not 1500
    narrow = linalg.multi_dot([leaf(2, 10), leaf(10, 11), leaf(11, 1)])
    assert tuple(narrow.grad_fn.inputs[1].shape) == (10, 1)  # again, and only because the last has one column
    check(lambda *m: linalg.multi_dot(m), leaf(3), leaf(3, 4), leaf(4, 2), leaf(2))
    with pytest.warns(UserWarning, match="chain_matmul is deprecated"):
        np.testing.assert_allclose(sg.chain_matmul(a, b, c)._array, product._array)


@pytest.mark.parametrize(("x", "y", "dim"), [((3,), (3,), -1), ((2, 3), (3,), -1), ((2, 3), (2, 1), 0), ((2, 3, 2), (3, 1), 1)])
def test_vecdot(x, y, dim):
    x, y = leaf(*x), leaf(*y)
    np.testing.assert_allclose(linalg.vecdot(x, y, dim=dim)._array, (x._array * y._array).sum(dim))
    check(lambda a, b: linalg.vecdot(a, b, dim=dim), x, y)


def test_arguments_by_pytorchs_names():
    x, a = leaf(2, 3), regular(3, 3)
    np.testing.assert_array_equal(linalg.vecdot(x=x, y=x)._array, linalg.vecdot(x, x)._array)
    np.testing.assert_array_equal(linalg.vector_norm(x=x, axis=1, keepdims=True)._array, linalg.vector_norm(x, 2, 1, True)._array)
    np.testing.assert_array_equal(sg.tensordot(a=x, b=a, dims=1)._array, (x @ a)._array)
    np.testing.assert_array_equal(linalg.solve(A=a, B=a)._array, linalg.solve(a, a)._array)
    out = wrap(np.empty((2, 3)))
    assert sg.mm(x.detach(), a.detach(), out=out) is out
    np.testing.assert_array_equal(out._array, (x @ a)._array)
