"""Derivatives of tensors, in index notation."""

from __future__ import annotations

import symgrad as sg
from symgrad.linalg import det, inv
from tests.support.textbook.entry import entries

KOLDA = "Kolda and Bader, Tensor Decompositions and Applications, section 3.4"
HOLZ = "Holzapfel, Nonlinear Solid Mechanics, section 1.6"
DL = "Goodfellow, Bengio and Courville, Deep Learning, section"
CALCULUS = "Laue, Mitterreiter and Giesen, Computing Higher Order Derivatives, section 3"


def _at(letters: str, **more: object) -> dict[str, object]:
    return {"at": " ".join(letters), **more}


INDICES = entries(
    False,
    ("Matrix Cookbook (73)", lambda X: X * 1.0, "X[3,4]", "X", "δ[i, k]*δ[j, l]", _at("ijkl")),
    ("Matrix Cookbook (74)", lambda X, A: X @ A, "X[2,3] A[3,4]", "X", "δ[i, k]*A[l, j]", _at("ijkl")),
    ("Matrix Cookbook (75)", lambda X, A: X.T @ A, "X[3,2] A[3,4]", "X", "δ[i, l]*A[k, j]", _at("ijkl")),
    ("Matrix Cookbook (76)", lambda X: X.sum() ** 2, "X[2,3]", "X", "2*Σ_{k, l} X[k, l]", _at("ij")),
    ("Matrix Cookbook (60)", lambda X: inv(X), "X[3,3]regular", "X", "-inv(X)[i, k]*inv(X)[l, j]", _at("ijkl")),
    ("Matrix Cookbook (79)", lambda X, B: X.T @ B @ X, "X[3,2] B[3,3]", "X", "δ[l, j]*Σ_m X[m, i]*B[m, k] + δ[l, i]*Σ_m B[k, m]*X[m, j]",
     _at("ijkl")),
    ("Matrix Cookbook (49)", lambda X: det(X), "X[3,3]regular", "X", "det(X)*inv(X)[j, i]", _at("ij")),
    (HOLZ, lambda x: x, "x[3]", "x", "δ[i, j]", _at("ij")),
    (HOLZ, lambda x: sg.outer(x, x), "x[3]", "x", "δ[i, k]*x[j] + δ[j, k]*x[i]", _at("ijk")),
    (HOLZ, lambda A: A @ A, "A[3,3]", "A", "δ[i, k]*A[l, j] + A[i, k]*δ[j, l]", _at("ijkl")),
    (HOLZ, lambda A: sg.trace(A) ** 2 / 2 - sg.trace(A @ A) / 2, "A[3,3]", "A", "δ[i, j]*Σ_k A[k, k] - A[j, i]", _at("ij")),
    (HOLZ, lambda E, L, m: L / 2 * sg.trace(E) ** 2 + m * (E * E).sum(), "E[3,3]sym L m", "E", "L*δ[i, j]*Σ_k E[k, k] + 2*m*E[i, j]",
     _at("ij")),
    (HOLZ, lambda x: x / x.norm(), "x[3]", "x", "(δ[i, j] - x[i]*x[j]/Σ_k x[k]**2)/sqrt(Σ_k x[k]**2)", _at("ij")),
    (KOLDA, lambda T, x, y, z: sg.einsum("ijk,i,j,k->", T, x, y, z), "T[2,3,4] x[2] y[3] z[4]", "T", "x[i]*y[j]*z[k]", _at("ijk")),
    (KOLDA, lambda x, T, y, z: sg.einsum("ijk,i,j,k->", T, x, y, z), "x[2] T[2,3,4] y[3] z[4]", "x", "Σ_{j, k} T[i, j, k]*y[j]*z[k]",
     _at("i")),
    (KOLDA, lambda T: (T**2).sum(), "T[2,3,4]", "T", "2*T[i, j, k]", _at("ijk")),
    (KOLDA, lambda A, B, C, T: (T * sg.einsum("ir,jr,kr->ijk", A, B, C)).sum(), "A[2,5] B[3,5] C[4,5] T[2,3,4]", "A",
     "Σ_{j, k} T[i, j, k]*B[j, l]*C[k, l]", _at("il")),
    (KOLDA, lambda A, T: sg.einsum("ijk,il->ljk", T, A), "A[2,5] T[2,3,4]", "A", "δ[i, m]*T[l, j, k]", _at("ijklm")),
    (CALCULUS, lambda x, T: sg.einsum("ijk,i,j,k->", T, x, x, x), "x[3] T[3,3,3]", "x",
     "Σ_{j, k} (T[i, j, k] + T[j, i, k] + T[j, k, i])*x[j]*x[k]", _at("i")),
    (CALCULUS, lambda x, A: sg.einsum("i,ijk,k->j", x, A, x), "x[3] A[3,4,3]", "x", "Σ_k (A[j, i, k] + A[k, i, j])*x[k]", _at("ij")),
    (CALCULUS, lambda x: x**2, "x[3]", "x", "2*x[i]*δ[i, j]", _at("ij")),
    (CALCULUS, lambda X, a: sg.einsum("bij,bj->bi", X, a), "X[2,3,4] a[2,4]", "a", "δ[b, k]*X[b, i, l]", _at("bikl")),
    (CALCULUS, lambda X: X.mean(0), "X[4,3]", "X", "δ[i, k]/4", _at("ijk")),
    (CALCULUS, lambda x: x.cumsum(0), "x[4]", "x", "[j ≤ i]", _at("ij")),
    (CALCULUS, lambda x: x.diag(), "x[3]", "x", "δ[i, j]*δ[i, k]", _at("ijk")),
    (CALCULUS, lambda x: x.prod(), "x[4]+", "x", "Π_{j ≠ i} x[j]", _at("i")),
    (f"{DL} 6.5.6", lambda x, W: (W @ x).tanh(), "x[3] W[4,3]", "x", "(1 - tanh(Σ_k W[i, k]*x[k])**2)*W[i, j]", _at("ij")),
    (f"{DL} 6.2.2.3", lambda x: x.softmax(0), "x[4]", "x", "p[i]*(δ[i, j] - p[j])", _at("ij", where=("p = softmax(x)",))),
    ("Bishop, PRML (4.106)", lambda X: X.softmax(1), "X[2,4]", "X", "δ[i, k]*p[i, j]*(δ[j, l] - p[i, l])",
     _at("ijkl", where=("p = softmax(X)",))),
    (f"{DL} 9.1", lambda w, x, g: (g * sg.nn.functional.conv1d(x.reshape(1, 1, 6), w.reshape(1, 1, 3)).reshape(4)).sum(),
     "w[3] x[6] g[4]", "w", "Σ_j g[j]*x[i + j]", _at("i")),
    (f"{DL} 12.4.2", lambda E: E[sg.tensor([2, 0])].sum(), "E[3,4]", "E", "[i = 2] + [i = 0]", _at("ij")),
    ("Magnus and Neudecker, Matrix Differential Calculus, section 3.2", lambda X, A: sg.kron(X, A).sum(), "X[2,3] A[3,2]", "X",
     "Σ_{k, l} A[k, l]", _at("ij")),
)
