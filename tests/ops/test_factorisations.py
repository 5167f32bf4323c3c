"""Eigenvalues, singular values, QR and pseudo-inverses: values against NumPy, gradients to order 2, real and complex."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import array, check, leaf, symmetric

import symgrad as sg
from symgrad import linalg
from symgrad.tensor import wrap
from symgrad.testing import gradcheck


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
