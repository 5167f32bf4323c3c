"""The textbook: gradients and Hessians of well-known matrix functions, as text and as LaTeX, each held against autograd as well."""

# ruff: noqa: E501  (a formula is one line)
from __future__ import annotations

import math

import pytest

import symgrad as sg
from symgrad.linalg import det, inv, matrix_power, norm

N, M, K = 5, 4, 3
V, B, SQUARE, WIDE = (N,), (M,), (N, N), (M, N)

CASES = {
    "quadratic form": (
        lambda x, A: x @ A @ x,
        [V, SQUARE], "x", 2,
        [
            "f(x, A) = xᵀ A x",
            "∂f/∂x = (A + Aᵀ) x",
            "∂²f/∂x∂x = A + Aᵀ",
        ],
        [
            r"f &= x^{\top} A x \\",
            r"\frac{\partial f}{\partial x} &= \left(A + A^{\top}\right) x \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= A + A^{\top}",
        ],
    ),
    "least squares": (
        lambda x, A, b: ((A @ x - b) ** 2).sum(),
        [V, WIDE, B], "x", 2,
        [
            "f(x, A, b) = ‖A x - b‖²",
            "∂f/∂x = 2 Aᵀ (A x - b)",
            "∂²f/∂x∂x = 2 Aᵀ A",
        ],
        [
            r"f &= \left\|A x - b\right\|^{2} \\",
            r"\frac{\partial f}{\partial x} &= 2 A^{\top} \left(A x - b\right) \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= 2 A^{\top} A",
        ],
    ),
    "trace of a product": (
        lambda X, A: sg.trace(X @ A),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(X A)",
            "∂f/∂X = Aᵀ",
        ],
        [
            r"f &= \operatorname{tr}\left(X A\right) \\",
            r"\frac{\partial f}{\partial X} &= A^{\top}",
        ],
    ),
    "trace of an inverse": (
        lambda X, A: sg.trace(inv(X) @ A),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(X⁻¹ A)",
            "∂f/∂X = -X⁻ᵀ Aᵀ X⁻ᵀ",
        ],
        [
            r"f &= \operatorname{tr}\left(X^{-1} A\right) \\",
            r"\frac{\partial f}{\partial X} &= -X^{-\top} A^{\top} X^{-\top}",
        ],
    ),
    "log det": (
        lambda X: sg.logdet(X),
        [SQUARE], "X", 1,
        [
            "f(X) = log(det(X))",
            "∂f/∂X = X⁻ᵀ",
            "for det(X) > 0",
        ],
        [
            r"f &= \log{\left(\det\left(X\right) \right)} \\",
            r"\frac{\partial f}{\partial X} &= X^{-\top} \\",
            r"&\text{for } \det\left(X\right) > 0",
        ],
    ),
    "det": (
        lambda X: det(X),
        [SQUARE], "X", 1,
        [
            "f(X) = det(X)",
            "∂f/∂X = det(X) X⁻ᵀ",
        ],
        [
            r"f &= \det\left(X\right) \\",
            r"\frac{\partial f}{\partial X} &= \det\left(X\right) X^{-\top}",
        ],
    ),
    "bilinear in an inverse": (
        lambda X, a, b: a @ inv(X) @ b,
        [SQUARE, V, V], "X", 1,
        [
            "f(X, a, b) = aᵀ X⁻¹ b",
            "∂f/∂X = -X⁻ᵀ a bᵀ X⁻ᵀ",
        ],
        [
            r"f &= a^{\top} X^{-1} b \\",
            r"\frac{\partial f}{\partial X} &= -X^{-\top} a b^{\top} X^{-\top}",
        ],
    ),
    "squared norms": (
        lambda X, A: sg.trace(X.T @ X) + sg.trace(A.T @ A),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(Xᵀ X) + tr(Aᵀ A)",
            "∂f/∂X = 2 X",
        ],
        [
            r"f &= \operatorname{tr}\left(X^{\top} X\right) + \operatorname{tr}\left(A^{\top} A\right) \\",
            r"\frac{\partial f}{\partial X} &= 2 X",
        ],
    ),
    "norm": (
        lambda x: norm(x),
        [V], "x", 2,
        [
            "f(x) = ‖x‖",
            "∂f/∂x = x/‖x‖",
            "∂²f/∂x∂x = (I - x xᵀ/‖x‖²)/‖x‖",
            "for ‖x‖ ≠ 0",
        ],
        [
            r"f &= \left\|x\right\| \\",
            r"\frac{\partial f}{\partial x} &= \frac{1}{\left\|x\right\|} x \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= \frac{1}{\left\|x\right\|} \left(I - \frac{1}{\left\|x\right\|^{2}} x x^{\top}\right) \\",
            r"&\text{for } \left\|x\right\| \neq 0",
        ],
    ),
    "sum of exponentials": (
        lambda x, A: (A @ x).exp().sum(),
        [V, WIDE], "x", 2,
        [
            "f(x, A) = sum(exp(A x))",
            "∂f/∂x = Aᵀ exp(A x)",
            "∂²f/∂x∂x = Aᵀ diag(exp(A x)) A",
        ],
        [
            r"f &= \operatorname{sum}\left(e^{A x}\right) \\",
            r"\frac{\partial f}{\partial x} &= A^{\top} e^{A x} \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= A^{\top} \operatorname{diag}\left(e^{A x}\right) A",
        ],
    ),
    "logistic loss": (
        lambda x, A: (1 + (A @ x).exp()).log().sum(),
        [V, WIDE], "x", 2,
        [
            "f(x, A) = sum(softplus(A x))",
            "∂f/∂x = Aᵀ sigmoid(A x)",
            "∂²f/∂x∂x = Aᵀ diag(sigmoid(A x) ∘ sigmoid(-A x)) A",
        ],
        [
            r"f &= \operatorname{sum}\left(\operatorname{softplus}\left(A x\right)\right) \\",
            r"\frac{\partial f}{\partial x} &= A^{\top} \operatorname{sigmoid}\left(A x\right) \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= A^{\top} \operatorname{diag}\left(\operatorname{sigmoid}\left(A x\right) \circ \operatorname{sigmoid}\left(-A x\right)\right) A",
        ],
    ),
    "exponential of a trace": (
        lambda X: sg.trace(X).exp(),
        [SQUARE], "X", 1,
        [
            "f(X) = exp(tr(X))",
            "∂f/∂X = exp(tr(X)) I",
        ],
        [
            r"f &= e^{\operatorname{tr}\left(X\right)} \\",
            r"\frac{\partial f}{\partial X} &= e^{\operatorname{tr}\left(X\right)} I",
        ],
    ),
    "trace of a Hadamard product": (
        lambda X, A: sg.trace(A * X),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(X ∘ A)",
            "∂f/∂X = A ∘ I",
        ],
        [
            r"f &= \operatorname{tr}\left(X \circ A\right) \\",
            r"\frac{\partial f}{\partial X} &= A \circ I",
        ],
    ),
    "trace of a cube": (
        lambda X: sg.trace(X @ X @ X),
        [SQUARE], "X", 1,
        [
            "f(X) = tr(X X X)",
            "∂f/∂X = 3 Xᵀ Xᵀ",
        ],
        [
            r"f &= \operatorname{tr}\left(X X X\right) \\",
            r"\frac{\partial f}{\partial X} &= 3 X^{\top} X^{\top}",
        ],
    ),
    "a matrix and its transpose": (
        lambda X, A: ((A @ X - X.T) ** 2).sum(),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = ‖A X - Xᵀ‖²",
            "∂f/∂X = 2 (Aᵀ (A X - Xᵀ) - (A X - Xᵀ)ᵀ)",
        ],
        [
            r"f &= \left\|A X - X^{\top}\right\|^{2} \\",
            r"\frac{\partial f}{\partial X} &= 2 \left(A^{\top} \left(A X - X^{\top}\right) - \left(A X - X^{\top}\right)^{\top}\right)",
        ],
    ),
    "trace of an inverse square": (
        lambda X, A: sg.trace(A @ matrix_power(X, -2)),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(A X⁻¹ X⁻¹)",
            "∂f/∂X = -X⁻ᵀ (Aᵀ X⁻ᵀ + X⁻ᵀ Aᵀ) X⁻ᵀ",
        ],
        [
            r"f &= \operatorname{tr}\left(A X^{-1} X^{-1}\right) \\",
            r"\frac{\partial f}{\partial X} &= -X^{-\top} \left(A^{\top} X^{-\top} + X^{-\top} A^{\top}\right) X^{-\top}",
        ],
    ),
    "quadratic in a matrix": (
        lambda X, A: sg.trace(X.T @ A @ X),
        [SQUARE, SQUARE], "X", 1,
        [
            "f(X, A) = tr(Xᵀ A X)",
            "∂f/∂X = (A + Aᵀ) X",
        ],
        [
            r"f &= \operatorname{tr}\left(X^{\top} A X\right) \\",
            r"\frac{\partial f}{\partial X} &= \left(A + A^{\top}\right) X",
        ],
    ),
    "bilinear form": (
        lambda X, a, b: a @ X @ b,
        [WIDE, B, V], "X", 1,
        [
            "f(X, a, b) = aᵀ X b",
            "∂f/∂X = a bᵀ",
        ],
        [
            r"f &= a^{\top} X b \\",
            r"\frac{\partial f}{\partial X} &= a b^{\top}",
        ],
    ),
    "bilinear in a square": (
        lambda X, a, b: a @ X @ X.T @ b,
        [WIDE, B, B], "X", 1,
        [
            "f(X, a, b) = aᵀ X Xᵀ b",
            "∂f/∂X = (b aᵀ + a bᵀ) X",
        ],
        [
            r"f &= a^{\top} X X^{\top} b \\",
            r"\frac{\partial f}{\partial X} &= \left(b a^{\top} + a b^{\top}\right) X",
        ],
    ),
    "weighted least squares": (
        lambda x, A, b, W: (A @ x - b) @ W @ (A @ x - b),
        [V, WIDE, B, (M, M)], "x", 2,
        [
            "f(x, A, b, W) = (A x - b)ᵀ W (A x - b)",
            "∂f/∂x = Aᵀ (W + Wᵀ) (A x - b)",
            "∂²f/∂x∂x = Aᵀ (W + Wᵀ) A",
        ],
        [
            r"f &= \left(A x - b\right)^{\top} W \left(A x - b\right) \\",
            r"\frac{\partial f}{\partial x} &= A^{\top} \left(W + W^{\top}\right) \left(A x - b\right) \\",
            r"\frac{\partial^{2} f}{\partial x \partial x} &= A^{\top} \left(W + W^{\top}\right) A",
        ],
    ),
    "factorisation": (
        lambda X, Y, T: ((X @ Y - T) ** 2).sum(),
        [(M, K), (K, N), WIDE], ("X", "Y"), 1,
        [
            "f(X, Y, T) = ‖X Y - T‖²",
            "∂f/∂X = 2 (X Y - T) Yᵀ",
            "∂f/∂Y = 2 Xᵀ (X Y - T)",
        ],
        [
            r"f &= \left\|X Y - T\right\|^{2} \\",
            r"\frac{\partial f}{\partial X} &= 2 \left(X Y - T\right) Y^{\top} \\",
            r"\frac{\partial f}{\partial Y} &= 2 X^{\top} \left(X Y - T\right)",
        ],
    ),
    "logistic regression": (
        lambda w, X, y: (1 + (-y * (X @ w)).exp()).log().sum(),
        [V, WIDE, B], "w", 2,
        [
            "f(w, X, y) = sum(softplus(-y ∘ (X w)))",
            "∂f/∂w = -Xᵀ (y ∘ sigmoid(-y ∘ (X w)))",
            "∂²f/∂w∂w = Xᵀ diag(y^∘2 ∘ sigmoid(y ∘ (X w)) ∘ sigmoid(-y ∘ (X w))) X",
        ],
        [
            r"f &= \operatorname{sum}\left(\operatorname{softplus}\left(-y \circ \left(X w\right)\right)\right) \\",
            r"\frac{\partial f}{\partial w} &= -X^{\top} \left(y \circ \operatorname{sigmoid}\left(-y \circ \left(X w\right)\right)\right) \\",
            r"\frac{\partial^{2} f}{\partial w \partial w} &= X^{\top} \operatorname{diag}\left(y^{\circ 2} \circ \operatorname{sigmoid}\left(y \circ \left(X w\right)\right) \circ \operatorname{sigmoid}\left(-y \circ \left(X w\right)\right)\right) X",
        ],
    ),
    "softmax regression": (
        lambda W, X, Y: -(Y * (X @ W).log_softmax(1)).sum(),
        [(N, K), WIDE, (M, K)], "W", 1,
        [
            "f(W, X, Y) = -sum(Y ∘ log_softmax(X W))",
            "∂f/∂W = Xᵀ (softmax(X W) ∘ (Y 𝟏 𝟏ᵀ) - Y)",
        ],
        [
            r"f &= - \operatorname{sum}\left(Y \circ \operatorname{log\_softmax}\left(X W\right)\right) \\",
            r"\frac{\partial f}{\partial W} &= X^{\top} \left(\operatorname{softmax}\left(X W\right) \circ \left(Y \mathbf{1} \mathbf{1}^{\top}\right) - Y\right)",
        ],
    ),
    "ridge": (
        lambda w, X, y, c: ((X @ w - y) ** 2).sum() + c * (w**2).sum(),
        [V, WIDE, B, ()], "w", 2,
        [
            "f(w, X, y, c) = c*‖w‖² + ‖X w - y‖²",
            "∂f/∂w = 2 (Xᵀ (X w - y) + c w)",
            "∂²f/∂w∂w = 2 (c I + Xᵀ X)",
        ],
        [
            r"f &= c \left\|w\right\|^{2} + \left\|X w - y\right\|^{2} \\",
            r"\frac{\partial f}{\partial w} &= 2 \left(X^{\top} \left(X w - y\right) + c w\right) \\",
            r"\frac{\partial^{2} f}{\partial w \partial w} &= 2 \left(c I + X^{\top} X\right)",
        ],
    ),
    "reconstruction error": (
        lambda W, X: ((X - X @ W @ W.T) ** 2).sum(),
        [(N, K), WIDE], "W", 1,
        [
            "f(W, X) = ‖X - X W Wᵀ‖²",
            "∂f/∂W = -2 (Xᵀ (X - X W Wᵀ) + (X - X W Wᵀ)ᵀ X) W",
        ],
        [
            r"f &= \left\|X - X W W^{\top}\right\|^{2} \\",
            r"\frac{\partial f}{\partial W} &= -2 \left(X^{\top} \left(X - X W W^{\top}\right) + \left(X - X W W^{\top}\right)^{\top} X\right) W",
        ],
    ),
    "Gaussian log-likelihood": (
        lambda x, mu, C: -((x - mu) @ inv(C) @ (x - mu)) / 2 - sg.logdet(C) / 2 - N / 2 * math.log(2 * math.pi),
        [V, V, SQUARE], ("mu", "C"), 1,
        [
            "f(x, mu, C) = -log(det(C))/2 - (x - mu)ᵀ C⁻¹ (x - mu)/2 - 4.594692666023363",
            "∂f/∂mu = (C⁻¹ + C⁻ᵀ) (x - mu)/2",
            "∂f/∂C = (C⁻ᵀ (x - mu) (x - mu)ᵀ C⁻ᵀ - C⁻ᵀ)/2",
            "for det(C) > 0",
        ],
        [
            r"f &= - \frac{\log{\left(\det\left(C\right) \right)}}{2} - \frac{\left(x - \mu\right)^{\top} C^{-1} \left(x - \mu\right)}{2} - 4.594692666023363 \\",
            r"\frac{\partial f}{\partial \mu} &= \frac{1}{2} \left(C^{-1} + C^{-\top}\right) \left(x - \mu\right) \\",
            r"\frac{\partial f}{\partial C} &= \frac{1}{2} \left(C^{-\top} \left(x - \mu\right) \left(x - \mu\right)^{\top} C^{-\top} - C^{-\top}\right) \\",
            r"&\text{for } \det\left(C\right) > 0",
        ],
    ),
    "two-layer net": (
        lambda x, w1, w2, y: ((x @ w1).relu() @ w2 - y).pow(2).sum(),
        [(M, N), (N, K), (K, 2), (M, 2)], ("w1", "w2"), 1,
        [
            "f(x, w1, w2, y) = ‖max(0, x w1) w2 - y‖²",
            "∂f/∂w1 = 2 xᵀ (((max(0, x w1) w2 - y) w2ᵀ) ∘ H(x w1))",
            "∂f/∂w2 = 2 max(0, x w1)ᵀ (max(0, x w1) w2 - y)",
            "(H(t) is 1 for t > 0, else 0)",
        ],
        [
            r"f &= \left\|\max\left(0, x w_{1}\right) w_{2} - y\right\|^{2} \\",
            r"\frac{\partial f}{\partial w_{1}} &= 2 x^{\top} \left(\left(\left(\max\left(0, x w_{1}\right) w_{2} - y\right) w_{2}^{\top}\right) \circ H\left(x w_{1}\right)\right) \\",
            r"\frac{\partial f}{\partial w_{2}} &= 2 \max\left(0, x w_{1}\right)^{\top} \left(\max\left(0, x w_{1}\right) w_{2} - y\right)",
        ],
    ),
}  # fmt: skip


def derived(name):
    f, shapes, wrt, order, _, _ = CASES[name]
    return sg.derive(f, wrt=wrt, order=order)(*(sg.spec(shape, sg.float64) for shape in shapes))


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    assert str(derived(name)).splitlines() == CASES[name][4]


@pytest.mark.parametrize("name", CASES)
def test_latex(name):
    assert derived(name).latex().splitlines()[1:-1] == CASES[name][5]


@pytest.mark.parametrize("name", CASES)
def test_numbers(name):
    """At random matrices that have what the function wants: a positive determinant, positive numbers."""
    f, shapes, wrt, order, _, _ = CASES[name]
    sg.manual_seed(1)
    args = [sg.eye(shape[0], dtype=sg.float64) * 3 if len(shape) == 2 and shape[0] == shape[1] else 0 for shape in shapes]
    args = [sg.rand(shape, dtype=sg.float64) + shift for shape, shift in zip(shapes, args, strict=True)]
    certificate = sg.derive(f, wrt=wrt, order=order)(*args).certify()
    assert certificate.ok, str(certificate)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3] == 1])
def test_second_derivatives_by_index(name):
    """What has no Hessian in matrices has one in index notation."""
    f, shapes, wrt, _, _, _ = CASES[name]
    sg.manual_seed(2)
    args = [sg.rand(shape, dtype=sg.float64) + (3 * sg.eye(*shape, dtype=sg.float64) if len(shape) == 2 else 0) for shape in shapes]
    certificate = sg.derive(f, wrt=wrt, order=2)(*args).certify()
    assert certificate.ok, str(certificate)
