"""Functions of symmetric matrices by eigh: gradients at equal, nearly equal and different eigenvalues, in every spelling."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.spectral import spectral
from symgrad.compiler.trace.trace import trace

rng = np.random.default_rng(3)
Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
C = rng.standard_normal((4, 4))
EIGENVALUES = {
    "equal": [2.0, 2.0, 0.5, 2.0], "two pairs": [1.0, 3.0, 1.0, 3.0], "all equal": [2.0] * 4, "near": [2.0, 2.0 + 1e-9, 0.5, 1.0],
    "different": [0.5, 1.0, 2.0, 4.0],
}  # fmt: skip
SPELLINGS = {
    # name: (function of eigenvalues and eigenvectors, h, h')
    "(V * h) @ V.T": (lambda w, V: (V * w.exp()) @ V.T, np.exp, np.exp),
    "V @ (h * V.T)": (lambda w, V: V @ (w.log()[:, None] * V.mT), np.log, lambda w: 1 / w),
    "V @ diag(h) @ V.T": (lambda w, V: V @ sg.diag(w.sqrt() + 1) @ V.T, lambda w: np.sqrt(w) + 1, lambda w: 0.5 / np.sqrt(w)),
    "V @ (diag(h) @ V.T)": (lambda w, V: V @ (sg.diag(w**3) @ V.T), lambda w: w**3, lambda w: 3 * w**2),
    "V / h @ V.T": (lambda w, V: (V / w) @ V.T, lambda w: 1 / w, lambda w: -1 / w**2),
    "root times root": (lambda w, V: (V * w.sqrt()) @ (V * w.sqrt()).T, lambda w: w, np.ones_like),
    "a constant": (lambda w, V: (2 * V) @ V.T, lambda w: 2 + 0 * w, np.zeros_like),
}


def matrix(eigenvalues):
    return (Q * np.array(eigenvalues)) @ Q.T


def exact(eigenvalues, h, slope):
    """The symmetric gradient of Σ C * V diag(h) V', by the divided differences of h."""
    w = np.array(eigenvalues)
    gaps = w - w[:, None]
    close = np.abs(gaps) < 1e-6
    between = np.where(close, slope((w + w[:, None]) / 2), (h(w) - h(w)[:, None]) / np.where(close, 1, gaps))
    return Q @ (Q.T @ (C + C.T) @ Q / 2 * between) @ Q.T


def gradient(function, a, c=C, **options):
    fast = sg.compile(lambda a: (function(*sg.linalg.eigh(a)) * sg.tensor(c)).real.sum(), **{"backend": "numpy", **options})
    found = fast.grad(sg.tensor(a), wrt=0).numpy()
    return (found + found.conj().T) / 2


@pytest.mark.parametrize("where", EIGENVALUES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_gradients_are_those_of_the_matrix_function(spelling, where):
    function, h, slope = SPELLINGS[spelling]
    expected = exact(EIGENVALUES[where], h, slope)
    np.testing.assert_allclose(gradient(function, matrix(EIGENVALUES[where])), expected, atol=1e-8 * np.abs(expected).max() + 1e-14)


def test_xla_and_single_precision():
    function, h, slope = SPELLINGS["(V * h) @ V.T"]
    expected = exact(EIGENVALUES["equal"], h, slope)
    for a, tolerance in ((matrix(EIGENVALUES["equal"]), 1e-8), (matrix(EIGENVALUES["equal"]).astype(np.float32), 1e-3)):
        found = gradient(function, a, C.astype(a.dtype), backend="xla")
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_hermitian_matrices():
    u = np.linalg.qr(rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4)))[0]
    c = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    a = (u * np.array([1.0, 1.0, 2.0, 2.0])) @ u.conj().T
    found = gradient(lambda w, V: (V * w.exp()) @ V.mH, (a + a.conj().T) / 2, c)
    value = lambda a: float(np.real(((lambda w, V: (V * np.exp(w)) @ V.conj().T)(*np.linalg.eigh(a)) * c).sum()))
    turn = np.triu(np.full((4, 4), 1j), 1)
    for direction in (np.diag([1.0, 0, 0, 0]), np.eye(4)[::-1] * 0.5, turn + turn.conj().T):
        slope = (value(a + 1e-5 * direction) - value(a - 1e-5 * direction)) / 2e-5
        assert np.real((found.conj() * direction).sum()) == pytest.approx(slope, abs=1e-7)


def test_a_projector_on_all_equal_eigenvalues():
    a = matrix([1.0, 1.0, 5.0, 5.0])
    found = gradient(lambda w, V: V[:, :2] @ V[:, :2].T, a)
    expected = exact([1.0, 1.0, 5.0, 5.0], lambda w: (w < 3) * 1.0, np.zeros_like)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    divided = gradient(lambda w, V: V[:, :1] @ V[:, :1].T, a)
    assert not np.abs(divided).max() < 1e10, "the projector on one of two equal eigenvalues has no derivative"


BATCHED = {
    "(V * h) @ V.mT": lambda w, V: (V * w.exp()[..., None, :]) @ V.mT,
    "V @ (h * V.mT)": lambda w, V: V @ (w.exp().unsqueeze(-1) * V.mT),
    "V @ diag(h) @ V.mT": lambda w, V: V @ sg.diag_embed(w.exp()) @ V.mT,
    "projectors": lambda w, V: V[..., 2:] @ V[..., 2:].mT,
}


@pytest.mark.parametrize("spelling", BATCHED)
def test_batches_have_the_gradients_of_their_matrices(spelling):
    if spelling == "projectors":
        names = ["different", "two pairs", "two pairs", "different"]
        h, slope = (lambda w: (w > 1.5) * 1.0), np.zeros_like
    else:
        names, h, slope = ["equal", "different", "all equal", "near"], np.exp, np.exp
    a = np.stack([matrix(EIGENVALUES[name]) for name in names]).reshape(2, 2, 4, 4)
    fast = sg.compile(lambda a: (BATCHED[spelling](*sg.linalg.eigh(a)) * sg.tensor(C)).sum(), backend="numpy")
    found = fast.grad(sg.tensor(a), wrt=0).numpy().reshape(4, 4, 4)
    for one, name in zip(found, names, strict=True):
        expected = exact(EIGENVALUES[name], h, slope)
        np.testing.assert_allclose((one + one.T) / 2, expected, atol=1e-8 * np.abs(expected).max())


BATCHES_LEFT_ALONE = {
    "eigenvalues of another matrix": lambda w, V: (V * w.flip(0)[:, None, :]) @ V.mT,
    "of the first matrix": lambda w, V: (V * w[0].exp()) @ V.mT,
    "vectors of another matrix": lambda w, V: (V * w[:, None, :]) @ V.flip(0).mT,
}


@pytest.mark.parametrize("name", BATCHES_LEFT_ALONE)
def test_products_across_a_batch_are_left_alone(name):
    given = np.stack([matrix(EIGENVALUES["different"])] * 4)
    graph = trace(lambda args: BATCHES_LEFT_ALONE[name](*sg.linalg.eigh(args[0])), [given], ["A"]).graph
    assert spectral(graph) == graph


LEFT_ALONE = {
    "weights of all eigenvalues": lambda w, V: (V * sg.softmax(w, 0)) @ V.T,
    "weights of other eigenvalues": lambda w, V: (V * w.flip(0)) @ V.T,
    "weights of eigenvectors": lambda w, V: (V * V[0]) @ V.T,
    "scaled rows": lambda w, V: (V * w[:, None]) @ V.T,
    "no transpose": lambda w, V: (V * w) @ V,
    "the other side": lambda w, V: V.T @ (w[:, None] * V),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_products_are_left_alone(name):
    graph = trace(lambda given: LEFT_ALONE[name](*sg.linalg.eigh(given[0])), [matrix(EIGENVALUES["different"])], ["A"]).graph
    assert spectral(graph) == graph


def test_second_derivatives_at_different_eigenvalues_and_the_switch():
    a = sg.tensor(matrix(EIGENVALUES["different"]))
    loss = lambda a: (SPELLINGS["(V * h) @ V.T"][0](*sg.linalg.eigh(a)) * sg.tensor(C)).sum()
    fast, plain = sg.compile(loss, backend="numpy"), sg.compile(loss, backend="numpy", without="spectral")
    np.testing.assert_allclose(fast.grad(a, wrt=0), plain.grad(a, wrt=0), rtol=1e-9, atol=1e-12)
    v = sg.tensor(C + C.T)
    np.testing.assert_allclose(fast.hvp(a, v=v, wrt=0), plain.hvp(a, v=v, wrt=0), rtol=1e-7, atol=1e-9)
    equal = sg.tensor(np.eye(4))
    assert np.isfinite(fast.grad(equal, wrt=0)).all()
    assert not np.isfinite(plain.grad(equal, wrt=0)).all()
    assert "V diag(h) V'" in str(fast.explain("grad")["passes"])


# singular values

SINGULAR = {
    # name: (function of U, s, V', the function of the matrix by NumPy where its singular values are not 0)
    "(U * h) @ Vh": lambda U, s, Vh: (U * s.sinh()[..., None, :]) @ Vh,
    "U @ (h * Vh)": lambda U, s, Vh: U @ ((s**3)[..., None] * Vh),
    "U @ diag(h) @ Vh": lambda U, s, Vh: U @ sg.diag_embed(s.sin()) @ Vh,
    "the polar factor": lambda U, s, Vh: U @ Vh,
}
SINGULAR_VALUES = {"equal": [2.0, 2.0, 0.5], "all equal": [1.5] * 3, "near": [1.0, 1.0 + 1e-9, 0.5], "different": [0.5, 1.0, 3.0]}
SHAPES = {"square": (3, 3), "tall": (5, 3), "wide": (3, 5)}


def of_singular_values(singular, shape, seed=0):
    draw = np.random.default_rng(seed)
    left, right = (np.linalg.qr(draw.standard_normal((n, n)))[0][:, :3] for n in shape)
    return (left * np.array(singular)) @ right.T


def slopes_of(loss, a):
    """The gradient by differences of the matrix function, which is smooth: 8th order, so that steps can be large."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    found = np.zeros_like(a)
    for place in np.ndindex(a.shape):
        step = np.zeros_like(a)
        step[place] = 1e-2
        found[place] = sum(k * (loss(a + n * step) - loss(a - n * step)) for n, k in weights.items()) / 1e-2
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spelling", SINGULAR)
def test_functions_of_singular_values(spelling, shape):
    weights = np.random.default_rng(1).standard_normal(SHAPES[shape])
    loss = lambda a: (SINGULAR[spelling](*sg.linalg.svd(a, full_matrices=False)) * sg.tensor(weights)).sum()
    fast = sg.compile(loss, backend="numpy")
    for name in SINGULAR_VALUES:
        a = of_singular_values(SINGULAR_VALUES[name], SHAPES[shape])
        expected = slopes_of(lambda a: float(loss(sg.tensor(a))), a)
        np.testing.assert_allclose(fast.grad(sg.tensor(a), wrt=0), expected, atol=1e-7 * np.abs(expected).max(), err_msg=name)
    assert spectral(trace(lambda given: loss(given[0]), [a], ["A"]).graph).ops >= {"custom"}


def test_batches_and_zeros_of_singular_values():
    a = np.stack([of_singular_values([2.0, 2.0, 0.0], (3, 3), 1), of_singular_values([0.0] * 3, (3, 3))])
    loss = lambda a: (SINGULAR["(U * h) @ Vh"](*sg.linalg.svd(a)) * sg.tensor(C[:3, :3])).sum()
    expected = slopes_of(lambda a: float(loss(sg.tensor(a))), a)
    for backend in ("numpy", "xla"):
        fast = sg.compile(loss, backend=backend)
        np.testing.assert_allclose(fast.grad(sg.tensor(a), wrt=0), expected, atol=1e-7)


SVD_LEFT_ALONE = {
    "of two matrices": lambda A: sg.linalg.svd(A)[0] @ sg.linalg.svd(A + 1)[2],
    "the other order": lambda A: sg.linalg.svd(A)[2] @ sg.linalg.svd(A)[0],
    "left vectors": lambda A: sg.linalg.svd(A)[0] @ sg.linalg.svd(A)[0].mT,
    "weights of all values": lambda A: (lambda U, s, Vh: (U * s.softmax(-1)) @ Vh)(*sg.linalg.svd(A)),
}


@pytest.mark.parametrize("name", SVD_LEFT_ALONE)
def test_other_products_of_singular_vectors_are_left_alone(name):
    graph = trace(lambda given: SVD_LEFT_ALONE[name](given[0]), [C], ["A"]).graph
    assert spectral(graph) == graph
