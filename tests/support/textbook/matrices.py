"""First derivatives in vectors and matrices."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.linalg import det, inv
from tests.support.textbook.entry import entries

tr = sg.trace


def _book(number: int | str) -> str:
    return f"Matrix Cookbook ({number})" if isinstance(number, int) else f"Matrix Cookbook, section {number}"


_SQUARES = "X[3,3]regular A[3,3] B[3,3]"

MATRICES = entries(
    False,
    (_book(49), lambda X: det(X), "X[3,3]regular", "X", "det(X) X⁻ᵀ"),
    (_book(51), lambda X, A, B: det(A @ X @ B), "X[3,3]regular A[3,3]regular B[3,3]regular", "X", "det(A X B) X⁻ᵀ"),
    (_book(52), lambda X, A: det(X.T @ A @ X), "X[3,3]regular A[3,3]regular", "X", "2 det(Xᵀ A X) X⁻ᵀ"),
    (_book(55), lambda X: sg.logdet(X.T @ X), "X[4,3]", "X", "2 X (Xᵀ X)⁻¹"),
    (_book(57), lambda X: det(X).abs().log(), "X[3,3]regular", "X", "X⁻ᵀ"),
    (_book(61), lambda X, a, b: a @ inv(X) @ b, "X[3,3]regular a[3] b[3]", "X", "-X⁻ᵀ a bᵀ X⁻ᵀ"),
    (_book(62), lambda X: det(inv(X)), "X[3,3]regular", "X", "-det(X⁻¹) X⁻ᵀ"),
    (_book(63), lambda X, A, B: tr(A @ inv(X) @ B), _SQUARES, "X", "-(X⁻¹ B A X⁻¹)ᵀ"),
    (_book(64), lambda X, A: tr(inv(X + A)), "X[3,3]regular A[3,3]spd", "X", "-((X + A)⁻¹ (X + A)⁻¹)ᵀ"),
    (_book(69), lambda x, a: x @ a, "x[3] a[3]", "x", "a"),
    (_book(70), lambda X, a, b: a @ X @ b, "X[3,4] a[3] b[4]", "X", "a bᵀ"),
    (_book(71), lambda X, a, b: a @ X.T @ b, "X[4,3] a[3] b[4]", "X", "b aᵀ"),
    (_book(72), lambda X, a: a @ X @ a, "X[3,3] a[3]", "X", "a aᵀ"),
    (_book(77), lambda X, b, c: b @ X.T @ X @ c, "X[4,3] b[3] c[3]", "X", "X (b cᵀ + c bᵀ)"),
    (
        _book(78), lambda x, B, b, C, D, d: (B @ x + b) @ C @ (D @ x + d), "x[3] B[4,3] b[4] C[4,5] D[5,3] d[5]", "x",
        "Bᵀ C (D x + d) + Dᵀ Cᵀ (B x + b)",
    ),
    (_book(81), lambda x, B: x @ B @ x, "x[3] B[3,3]", "x", "(B + Bᵀ) x"),
    (_book(82), lambda X, b, c, D: b @ X.T @ D @ X @ c, "X[4,3] b[3] c[3] D[4,4]", "X", "Dᵀ X b cᵀ + D X c bᵀ"),
    (_book(83), lambda X, b, c, D: (X @ b + c) @ D @ (X @ b + c), "X[4,3] b[3] c[4] D[4,4]", "X", "(D + Dᵀ) (X b + c) bᵀ"),
    (_book(97), lambda x, A, b: x @ A @ x + b @ x, "x[3] A[3,3] b[3]", "x", "(A + Aᵀ) x + b"),
    (_book(99), lambda X: tr(X), "X[3,3]", "X", "I"),
    (_book(100), lambda X, A: tr(X @ A), "X[3,4] A[4,3]", "X", "Aᵀ"),
    (_book(101), lambda X, A, B: tr(A @ X @ B), "X[3,4] A[5,3] B[4,5]", "X", "Aᵀ Bᵀ"),
    (_book(102), lambda X, A, B: tr(A @ X.T @ B), "X[3,4] A[5,4] B[3,5]", "X", "B A"),
    (_book(103), lambda X, A: tr(X.T @ A), "X[3,4] A[3,4]", "X", "A"),
    (_book(105), lambda X, A: tr(sg.kron(A, X)), "X[3,3] A[2,2]", "X", "tr(A) I"),
    (_book(106), lambda X: tr(X @ X), "X[3,3]", "X", "2 Xᵀ"),
    (_book(107), lambda X, B: tr(X @ X @ B), "X[3,3] B[3,3]", "X", "(X B + B X)ᵀ"),
    (_book(108), lambda X, B: tr(X.T @ B @ X), "X[3,4] B[3,3]", "X", "B X + Bᵀ X"),
    (_book(111), lambda X, B: tr(X @ B @ X.T), "X[3,4] B[4,4]", "X", "X Bᵀ + X B"),
    (_book(114), lambda X, A, B: tr(A @ X @ B @ X), _SQUARES, "X", "Aᵀ Xᵀ Bᵀ + Bᵀ Xᵀ Aᵀ"),
    (_book(115), lambda X: tr(X.T @ X), "X[3,4]", "X", "2 X"),
    (_book(116), lambda X, B, C: tr(B.T @ X.T @ C @ X @ B), "X[4,3] B[3,2] C[4,4]", "X", "Cᵀ X B Bᵀ + C X B Bᵀ"),
    (_book(117), lambda X, B, C: tr(X.T @ B @ X @ C), "X[4,3] B[4,4] C[3,3]", "X", "B X C + Bᵀ X Cᵀ"),
    (
        _book(119), lambda X, A, B, C: tr((A @ X @ B + C) @ (A @ X @ B + C).T), "X[3,4] A[2,3] B[4,5] C[2,5]", "X",
        "2 Aᵀ (A X B + C) Bᵀ",
    ),
    (_book(120), lambda X: tr(sg.kron(X, X)), "X[3,3]", "X", "2 tr(X) I"),
    (_book(121), lambda X: tr(X @ X @ X), "X[3,3]", "X", "3 (X X)ᵀ"),
    (_book(124), lambda X, A, B: tr(A @ inv(X) @ B), _SQUARES, "X", "-X⁻ᵀ Aᵀ Bᵀ X⁻ᵀ"),
    (_book(129), lambda x, a: (x - a).norm(), "x[3] a[3]", "x", "(x - a)/‖x - a‖"),
    (_book(131), lambda x: x @ x, "x[3]", "x", "2 x"),
    (_book(132), lambda X: X.norm() ** 2, "X[3,4]", "X", "2 X"),
    (_book("2.4.2"), lambda x, A, b: ((A @ x - b) ** 2).sum(), "x[3] A[4,3] b[4]", "x", "2 Aᵀ (A x - b)"),
    ("Boyd, Convex Optimization, section A.4.2", lambda x, A, b: (A @ x + b).exp().sum().log(), "x[3] A[4,3] b[4]", "x",
     "Aᵀ softmax(A x + b)"),
    ("Golub and Van Loan, Matrix Computations, section 8.2.3", lambda x, A: (x @ A @ x) / (x @ x), "x[3] A[3,3]sym", "x",
     "(A x + Aᵀ x - 2 r x)/(xᵀ x)", {"where": ("r = xᵀ A x/(xᵀ x)",)}),
    ("Magnus and Neudecker, Matrix Differential Calculus, section 9.9", lambda X, A: tr(inv(X.T @ X) @ A), "X[4,3] A[3,3]", "X",
     "-X (Xᵀ X)⁻¹ (A + Aᵀ) (Xᵀ X)⁻¹"),
    ("Boyd, Convex Optimization, section 4.7", lambda x, A, b: (A @ x - b).norm(), "x[3] A[4,3] b[4]", "x", "Aᵀ (A x - b)/‖A x - b‖"),
    ("Boyd, Convex Optimization, section A.4.1", lambda A: 2 * sg.linalg.cholesky(A).diagonal().log().sum(), "A[3,3]spd", "A", "A⁻¹"),
    ("Boyd, Convex Optimization, section 3.1.5", lambda x, A, B: (sg.diag(x) @ A).sum() + tr(sg.diag(x) @ B), "x[3] A[3,4] B[3,3]", "x",
     "A 𝟏 + diagonal(B)"),
    ("Watson, Characterization of the subdifferential of some matrix norms (1992)", lambda X: sg.linalg.svdvals(X).sum(), "X[4,3]", "X",
     "U V", {"given": {"U": lambda X: np.linalg.svd(X, False)[0], "V": lambda X: np.linalg.svd(X, False)[2]}}),
    ("Magnus, On differentiating eigenvalues and eigenvectors (1985)", lambda A: sg.linalg.eigvalsh(A)[2], "A[3,3]sym", "A", "v vᵀ",
     {"given": {"v": lambda A: np.linalg.eigh(A)[1][:, 2]}}),
)
