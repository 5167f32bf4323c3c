"""Derivatives of higher order and of functions with many results, in closed form: as they are read, and run against autograd."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as nn
from symgrad.autograd.functional import hessian, jacobian

L = sg.linalg


def lines(f, *shapes, **options):
    return str(sg.derive(f, **options)(*(sg.spec(shape, sg.float64) for shape in shapes))).splitlines()


@pytest.mark.parametrize(
    ("f", "shapes", "wanted"),
    [
        (lambda x, a: x @ a @ x, [(3,), (3, 3)], "∂²f/∂x∂x = a + aᵀ"),
        (lambda x, a, b: ((a @ x - b) ** 2).sum(), [(3,), (4, 3), (4,)], "∂²f/∂x∂x = 2 aᵀ a"),
        (lambda x, a: (a @ x).exp().sum(), [(3,), (4, 3)], "∂²f/∂x∂x = aᵀ diag(exp(a x)) a"),
        (lambda x, a: (1 + (a @ x).exp()).log().sum(), [(3,), (4, 3)], "∂²f/∂x∂x = aᵀ diag((1 - sigmoid(a x)) ∘ sigmoid(a x)) a"),
        (lambda x: (x * x).sum().sqrt(), [(3,)], "∂²f/∂x∂x = (-1/‖x‖³) x xᵀ + (1/‖x‖) I"),
        (lambda x, a: (a * x**3).sum(), [(3,), (3,)], "∂²f/∂x∂x = 6 diag(x ∘ a)"),
        (lambda x, a: (x @ a) ** 2, [(3,), (3,)], "∂²f/∂x∂x = 2 a aᵀ"),
        (lambda x: x**4, [()], "∂²f/∂x∂x = 12*x**2"),
        (lambda x: L.det(x), [(2, 2)], "∂²f/∂x[i, j]∂x[k, l] = (inv(x)[j, i]*inv(x)[l, k] - inv(x)[j, k]*inv(x)[l, i])*det(x)"),
        (lambda x, a: (x.T @ a @ x).trace(), [(3, 2), (3, 3)], "∂²f/∂x[i, j]∂x[k, l] = δ[j, l]*a[i, k] + δ[j, l]*a[k, i]"),
    ],
)  # fmt: skip
def test_hessians_read_as_in_a_textbook(f, shapes, wanted):
    notation = "index" if len(shapes[0]) == 2 else "auto"
    assert lines(f, *shapes, wrt="x", order=2, notation=notation)[2] == wanted


def test_jacobians():
    assert lines(lambda x, a: a @ x, (3,), (4, 3), wrt="x")[1] == "∂f/∂x = a"
    assert lines(lambda x: x.exp(), (3,), notation="matrix")[1] == "∂f/∂x = diag(exp(x))"
    assert lines(lambda x, a: (a @ x).sin(), (3,), (4, 3), wrt="x")[1] == "∂f/∂x = diag(cos(a x)) a"
    assert lines(lambda x, y: x @ y, (2, 3), (3, 2), wrt="x") == [
        "f(x, y)[i, j] = Σ_k x[i, k]*y[k, j]", "∂f[i, j]/∂x[k, l] = δ[i, k]*y[l, j]",
    ]  # fmt: skip


FUNCTIONS = {
    "quadratic": (lambda x, a: x @ a @ x, (3,), (3, 3)),
    "logistic": (lambda w, x, y: -(y * (x @ w)).sigmoid().log().sum(), (3,), (4, 3), (4,)),
    "net": (lambda x, u, v: ((x @ u).tanh() @ v).square().sum(), (2, 3), (3, 4), (4, 2)),
    "softmax": (lambda w, x, y: -(y * (x @ w).log_softmax(1)).sum(), (3, 2), (4, 3), (4, 2)),
    "norm": (lambda x, y: (x - y).square().sum().sqrt(), (3,), (3,)),
    "solve": (lambda x, b: b @ L.solve(x + 4 * sg.eye(3, dtype=sg.float64), b), (3, 3), (3,)),
    "det": (lambda x: L.det(x), (3, 3)),
    "logdet": (lambda x: sg.logdet(x @ x.T + sg.eye(3, dtype=sg.float64)), (3, 3)),
    "scan": (lambda x, y: (x.cumprod(0) * y.sin()).sum(), (4,), (4,)),
    "rows": (lambda x, a: (x @ a).sin().sum() + (x @ a) @ (a.T @ x) * (x @ a).sum(), (3,), (3, 4)),
    "outer": (lambda x, a: (x[:, None] @ a[None, :]).square().sum() + ((x[None, :] @ a[:, None]) ** 3).sum(), (3,), (3,)),
    "centred": (lambda x, a: (a * (x - x.mean(0, keepdim=True)) ** 3).sum(), (3,), (3,)),
    "layer norm": (lambda x, a: (nn.layer_norm(x, (3,), eps=0.5) * a).sum(), (3,), (3,)),
    "softmax of a vector": (lambda x, a: (x.softmax(0).cos() * a).sum(), (3,), (3,)),
    "leaky": (lambda x, a: (nn.leaky_relu(x - 0.7) * a + (x * 0.01) * 0.01).square().sum(), (3,), (3,)),
    "numbers": (lambda x, y: (x * y.sin()).exp() + x / y, (), ()),
    "one": (lambda x, y: (x * y).sum() ** 2, (1,), (3,)),
}


@pytest.mark.parametrize("notation", ["auto", "index", "elements"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_run(name, notation):
    f, *shapes = FUNCTIONS[name]
    rng = np.random.default_rng(3)
    args = tuple(sg.tensor(rng.uniform(0.3, 1.2, size=shape), requires_grad=True) for shape in shapes)
    if notation == "elements" and name in ("softmax", "solve", "det", "logdet", "softmax of a vector"):
        with pytest.raises(sg.errors.FormulaError, match=r"elements notation|no form in elements"):  # too large, or no form
            sg.derive(f, order=2, notation=notation)(*args)
        return
    value, gradients, blocks = sg.derive(f, order=2, notation=notation)(*args)(*args)
    expected = f(*args)
    np.testing.assert_allclose(value.numpy(), expected.detach().numpy(), rtol=1e-12)
    for found, wanted in zip(gradients, sg.autograd.grad(expected, args), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-11, atol=1e-13)
    for row, rows in zip(blocks, hessian(f, args), strict=True):
        for found, wanted in zip(row, rows, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("notation", ["auto", "index", "elements"])
def test_jacobians_run(notation):
    rng = np.random.default_rng(5)
    x, a = (sg.tensor(rng.normal(size=shape), requires_grad=True) for shape in [(3,), (2, 3)])
    f = lambda x, a: (a @ x).tanh()
    _, (by_x, by_a) = sg.derive(f, notation=notation)(x, a)(x, a)
    for found, wanted in zip((by_x, by_a), jacobian(f, (x, a)), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_third_derivatives():
    f = lambda x, a: (a * x**3).sum() + (x @ a) ** 3
    assert lines(f, (3,), (3,), wrt="x", order=3)[3] == "∂³f/∂x[i]∂x[j]∂x[k] = 6*δ[i, k]*δ[j, k]*a[k] + 6*a[i]*a[j]*a[k]"
    rng = np.random.default_rng(1)
    x, a = (sg.tensor(rng.normal(size=3), requires_grad=True) for _ in range(2))
    found = sg.derive(f, wrt="x", order=3)(x, a)(x, a)[3]
    second = lambda x: sg.derive(f, wrt="x", order=2)(x, a)(x, a)[2]
    step = 1e-5
    for k in range(3):
        shift = sg.zeros(3, dtype=sg.float64)
        shift[k] = step
        slope = (second(x + shift) - second(x - shift)) / (2 * step)
        np.testing.assert_allclose(found[:, :, k].numpy(), slope.detach().numpy(), rtol=1e-6, atol=1e-6)


def test_parts_are_found_by_their_names():
    derivation = sg.derive(lambda x, y: (x * y).sum(), order=2)(sg.spec(3), sg.spec(3))
    assert list(derivation.derivatives) == [("x",), ("y",), ("x", "x"), ("x", "y"), ("y", "y")]
    with pytest.raises(KeyError, match="derivatives in x; y; x, x; x, y; y, y"):
        derivation["y", "x"]
