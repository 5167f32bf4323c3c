"""Matrices and batches of them: values against NumPy, gradients to order 2 also where PyTorch has none, and every refusal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad import linalg
from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck

INF = float("inf")


def array(*shape):
    return np.random.default_rng(len(shape) * 7 + sum(shape)).normal(size=shape)


def leaf(*shape):
    return wrap(array(*shape), requires_grad=True)


def regular(*shape):
    """Well-conditioned square matrices."""
    return wrap(array(*shape) + 3 * np.eye(shape[-1]), requires_grad=True)


def positive(x):
    """Positive-definite matrices, symmetric in the entries that central differences move."""
    return x @ x.mT + 2 * wrap(np.eye(x.shape[-1]))


def symmetric(x):
    return x + x.mT


def check(function, *args):
    assert gradcheck(function, args)
    assert gradgradcheck(function, args)


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
    np.testing.assert_allclose(g._array, np.einsum("ijkl,kl->ij", expected, SINGULAR[name]) / 2, atol=1e-13)


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
    check(lambda *m: linalg.multi_dot(m), leaf(3), leaf(3, 4), leaf(4, 2), leaf(2))
    with pytest.warns(UserWarning, match="chain_matmul is deprecated"):
        np.testing.assert_allclose(sg.chain_matmul(a, b, c)._array, product._array)


@pytest.mark.parametrize(("x", "y", "dim"), [((3,), (3,), -1), ((2, 3), (3,), -1), ((2, 3), (2, 1), 0), ((2, 3, 2), (3, 1), 1)])
def test_vecdot(x, y, dim):
    x, y = leaf(*x), leaf(*y)
    np.testing.assert_allclose(linalg.vecdot(x, y, dim=dim)._array, (x._array * y._array).sum(dim))
    check(lambda a, b: linalg.vecdot(a, b, dim=dim), x, y)


# --- factorisations


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_eigh(uplo, shape):
    x = leaf(*shape)
    values, vectors = linalg.eigh(symmetric(x), uplo)
    np.testing.assert_allclose((vectors * values.reshape(*values.shape[:-1], 1, -1) @ vectors.mT)._array, symmetric(x)._array, atol=1e-12)
    check(lambda t: linalg.eigvalsh(symmetric(t), uplo), x)
    check(lambda t: linalg.eigh(symmetric(t), uplo)[1] ** 2, x)


def test_eigenvalues_that_are_equal_have_a_gradient():
    a = wrap(np.eye(3), requires_grad=True)
    linalg.eigvalsh(a).sum().backward()
    np.testing.assert_allclose(a.grad._array, np.eye(3), atol=1e-15)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape, full):
    a = leaf(*shape)
    u, s, vh = linalg.svd(a, full_matrices=full)
    k = min(shape[-2:])
    np.testing.assert_allclose((u[..., :k] * s.reshape(*s.shape[:-1], 1, k) @ vh[..., :k, :])._array, a._array, atol=1e-12)
    check(linalg.svdvals, a)

    def invariant(x):
        u, s, vh = linalg.svd(x, full_matrices=full)
        return (u[..., :k] * s.reshape(*s.shape[:-1], 1, k) ** 3) @ vh[..., :k, :], u[..., :k] ** 2, vh[..., :k, :] ** 2

    check(invariant, a)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_qr(shape):
    a = leaf(*shape)
    q, r = linalg.qr(a)
    np.testing.assert_allclose((q @ r)._array, a._array, atol=1e-12)
    check(linalg.qr, a)
    check(lambda x: linalg.qr(x).R, a)


def test_qr_modes():
    tall, wide = leaf(4, 2), leaf(2, 4)
    assert linalg.qr(tall, "complete").Q.shape == (4, 4)
    assert linalg.qr(tall, "r").Q.shape == (0,)
    check(lambda x: linalg.qr(x, "complete"), wide)
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows > ncols"):
        linalg.qr(tall, "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        linalg.qr(tall, "r").R.sum().backward()


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_pinv(shape):
    a = leaf(*shape)
    np.testing.assert_allclose(linalg.pinv(a)._array, np.linalg.pinv(a._array), atol=1e-12)
    check(linalg.pinv, a)


def test_pinv_drops_small_singular_values():
    a = wrap(np.diag([4.0, 1e-3]))
    np.testing.assert_allclose(linalg.pinv(a, rtol=1e-2)._array, np.diag([0.25, 0]), atol=1e-15)
    np.testing.assert_allclose(linalg.pinv(a, atol=1e-2)._array, np.diag([0.25, 0]), atol=1e-15)
    np.testing.assert_allclose(linalg.pinv(a, atol=1e-4)._array, np.diag([0.25, 1000]))


def test_complex_gradients():
    """The real part of a product with its own conjugate, so that everything that should be conjugated shows."""
    z = wrap(array(3, 3) + 1j * array(3, 3)[::-1] + 3 * np.eye(3), requires_grad=True)

    def hermitian(x):
        return x @ x.mH + 2 * wrap(np.eye(3) + 0j)

    def cubed(x):
        u, s, vh = linalg.svd(x)
        return (u * s**3) @ vh

    def size(x):
        return (x * x.conj()).real

    for function in (
        lambda x: size(x @ x.mT), lambda x: size(linalg.inv(x)), lambda x: size(linalg.det(x)), lambda x: linalg.slogdet(x).logabsdet,
        lambda x: linalg.slogdet(x).sign.imag, lambda x: size(linalg.solve(x, x.mT)), lambda x: linalg.eigvalsh(hermitian(x)),
        lambda x: size(linalg.cholesky(hermitian(x))), linalg.svdvals, lambda x: size(linalg.pinv(x)),
        lambda x: size(sg.einsum("ij,ij->i", x, x)),
        lambda x: size(linalg.eigh(hermitian(x))[1]), lambda x: size(linalg.svd(x)[0]), lambda x: size(cubed(x) - 1),
        lambda x: size(linalg.qr(x)[0]),
        lambda x: linalg.vecdot(x, x).real, lambda x: size(sg.trace(x)), lambda x: size(linalg.cross(x, x.mT)),
    ):  # fmt: skip
        assert gradcheck(function, (z,))


# --- norms


@pytest.mark.parametrize("ord", ["fro", "nuc", INF, -INF, 1, -1, 2, -2])
def test_matrix_norm(ord):
    a = leaf(3, 4)
    np.testing.assert_allclose(linalg.matrix_norm(a, ord)._array, np.linalg.norm(a._array, ord))
    np.testing.assert_allclose(linalg.norm(a, ord)._array, np.linalg.norm(a._array, ord))
    batch = leaf(3, 2, 4)
    for keepdim in (True, False):
        result = linalg.matrix_norm(batch, ord, dim=(2, 0), keepdim=keepdim)
        np.testing.assert_allclose(result._array, np.linalg.norm(batch._array, ord, axis=(2, 0), keepdims=keepdim))
    check(lambda x: linalg.matrix_norm(x, ord, dim=(2, 0)), batch)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, INF, -INF, -1])
def test_vector_norm(ord):
    x = leaf(3, 4)
    np.testing.assert_allclose(linalg.vector_norm(x, ord)._array, np.linalg.norm(x._array.ravel(), ord))
    for keepdim in (True, False):
        np.testing.assert_allclose(
            linalg.vector_norm(x, ord, dim=1, keepdim=keepdim)._array, np.linalg.norm(x._array, ord, axis=1, keepdims=keepdim)
        )
        np.testing.assert_array_equal(
            linalg.norm(x, ord, dim=1, keepdim=keepdim)._array, linalg.vector_norm(x, ord, dim=1, keepdim=keepdim)._array
        )


def test_the_nuclear_norm_at_top_level():
    a = leaf(3, 4)
    np.testing.assert_allclose(sg.norm(a, "nuc")._array, np.linalg.norm(a._array, "nuc"))


def test_norm_without_an_order_is_that_of_all_elements():
    x = leaf(2, 3, 2)
    np.testing.assert_allclose(linalg.norm(x)._array, np.sqrt((x._array**2).sum()))
    np.testing.assert_allclose(linalg.norm(x, dim=(0, 1))._array, np.sqrt((x._array**2).sum((0, 1))))
    assert linalg.norm(sg.tensor([3, 4]), dtype=sg.float64)._array == 5


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, INF])
def test_cdist(p):
    x, y = leaf(2, 3, 2), leaf(4, 2)
    expected = np.linalg.norm(x._array[..., None, :] - y._array, p, axis=-1)
    np.testing.assert_allclose(sg.cdist(x, y, p)._array, expected)
    check(lambda a, b: sg.cdist(a, b, p), x, y)


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary", None])
def test_both_ways_to_euclidean_distances(mode):
    x, y = leaf(30, 2), leaf(3, 2)
    expected = np.linalg.norm(x._array[:, None] - y._array, axis=-1)
    np.testing.assert_allclose(sg.cdist(x, y, compute_mode=mode)._array, expected, rtol=1e-10)
    check(lambda a, b: sg.cdist(a, b, compute_mode=mode), leaf(2, 4, 2), y)
    with pytest.raises(ValueError, match="not a valid value for compute_mode"):
        sg.cdist(x, y, compute_mode="fast")


def test_the_distance_of_a_point_from_itself_has_gradient_0():
    x = leaf(1, 2)
    for p in (1.0, 2.0, 3.0):
        sg.cdist(x, x.detach(), p).sum().backward()
    np.testing.assert_array_equal(x.grad._array, [[0, 0]])


def test_arguments_by_pytorchs_names():
    x, a = leaf(2, 3), regular(3, 3)
    np.testing.assert_array_equal(linalg.vecdot(x=x, y=x)._array, linalg.vecdot(x, x)._array)
    np.testing.assert_array_equal(linalg.vector_norm(x=x, axis=1, keepdims=True)._array, linalg.vector_norm(x, 2, 1, True)._array)
    np.testing.assert_array_equal(sg.tensordot(a=x, b=a, dims=1)._array, (x @ a)._array)
    np.testing.assert_array_equal(linalg.solve(A=a, B=a)._array, linalg.solve(a, a)._array)
    out = wrap(np.empty((2, 3)))
    assert sg.mm(x.detach(), a.detach(), out=out) is out
    np.testing.assert_array_equal(out._array, (x @ a)._array)


# --- refusals

ZERO, EYE = np.zeros((2, 2)), np.eye(2)
FAILURES = [
    (lambda: linalg.inv(wrap(ZERO)), "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed"),
    (lambda: linalg.inv(wrap(np.stack([EYE, ZERO]))), r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"),
    (lambda: linalg.inv(wrap(np.array([[1.0, 2], [2, 4]]))), "The diagonal element 2 is zero"),
    (lambda: linalg.solve(wrap(ZERO), leaf(2)), "The solver failed because the input matrix is singular"),
    (lambda: linalg.cholesky(wrap(-EYE)), "the leading minor of order 1 is not positive-definite"),
    (lambda: linalg.cholesky(wrap(np.stack([EYE, np.diag([1.0, -1])]))), r"\(Batch element 1\): .*the leading minor of order 2"),
    (lambda: linalg.matrix_power(wrap(ZERO), -1), "The diagonal element 1 is zero"),
    (lambda: linalg.svd(wrap(np.full((2, 2), np.nan))), "failed to converge"),
]
REFUSALS = [
    (lambda: linalg.inv(leaf(2, 3)), RuntimeError, "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: linalg.inv(leaf(3)), RuntimeError, "linalg.inv: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.det(sg.tensor([[1, 2], [3, 4]])), RuntimeError, "linalg.det: Expected a floating point or complex .*Got Long"),
    (lambda: linalg.inv(wrap(EYE.astype(np.float16))), RuntimeError, "linalg.inv: Low precision dtypes not supported. Got Half"),
    (lambda: linalg.slogdet(leaf(2, 3)), RuntimeError, "linalg.slogdet: A must be batches of square matrices"),
    (lambda: sg.logdet(leaf(2, 3)), RuntimeError, "logdet: A must be batches of square matrices"),
    (lambda: linalg.solve(leaf(2, 2), leaf(3)), RuntimeError, r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"),
    (lambda: linalg.solve(leaf(2, 2), sg.tensor([1.0, 2])), RuntimeError, "found A of type Double and B of type Float instead"),
    (lambda: linalg.solve_triangular(leaf(2, 2), leaf(2), upper=True), RuntimeError, "The input tensor B must have at least 2 dimensions"),
    (lambda: linalg.cholesky(leaf(2, 3)), RuntimeError, "linalg.cholesky: A must be batches of square matrices"),
    (lambda: linalg.matrix_power(leaf(2, 2), 0.5), TypeError, "argument 'n' .position 2. must be int, not float"),
    (lambda: linalg.multi_dot([leaf(2, 3)]), RuntimeError, "expected at least 2 tensors but got 1"),
    (lambda: linalg.multi_dot([leaf(2, 3), leaf(4, 5)]), RuntimeError, r"tensors 0 and 1 with shapes \[2, 3\] and \[4, 5\] cannot"),
    (lambda: linalg.vecdot(leaf(2, 3), leaf(2, 4)), RuntimeError, r"The size of tensor a \(3\) must match the size of tensor b \(4\)"),
    (lambda: linalg.eigh(leaf(2, 2), "x"), RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got x"),
    (lambda: linalg.qr(leaf(2, 2), "x"), RuntimeError, "qr received unrecognized mode 'x'"),
    (lambda: linalg.svd(leaf(2)), RuntimeError, "linalg.svd: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.vector_norm(leaf(3), "fro"), TypeError, "argument 'ord' .position 2. must be Number, not str"),
    (lambda: linalg.vector_norm(wrap(np.zeros(0)), INF), RuntimeError, "the operation does not have an identity"),
    (lambda: linalg.matrix_norm(leaf(3)), RuntimeError, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."),
    (lambda: linalg.matrix_norm(leaf(3, 3), 3), RuntimeError, "linalg.matrix_norm: Order 3 not supported."),
    (lambda: linalg.matrix_norm(leaf(3, 3), dim=(0, 0)), RuntimeError, "dims must be different"),
    (lambda: linalg.norm(leaf(3, 3, 3), 2), RuntimeError, "the input must be 1D or 2D. Got 3D"),
    (lambda: linalg.norm(sg.tensor([1, 2])), RuntimeError, "linalg.vector_norm: Expected a floating point or complex .*Got Long"),
    (lambda: sg.cdist(leaf(2, 3), leaf(4, 5)), RuntimeError, "X1 and X2 must have the same number of columns. X1: 3 X2: 5"),
    (lambda: linalg.inv(3), TypeError, "argument 'A' .position 1. must be Tensor, not int"),
]


@pytest.mark.parametrize("index", range(len(FAILURES)))
def test_failure(index):
    call, text = FAILURES[index]
    with pytest.raises(linalg.LinAlgError, match=text):
        call()


@pytest.mark.parametrize("index", range(len(REFUSALS)))
def test_refusal(index):
    call, error, text = REFUSALS[index]
    with pytest.raises(error, match=text):
        call()


def test_a_linalg_error_is_a_runtime_error():
    assert issubclass(linalg.LinAlgError, RuntimeError)
