"""Second derivatives."""

from __future__ import annotations

from symgrad.nn import functional as F
from tests.support.textbook.entry import entries

BOYD = "Boyd, Convex Optimization, section"
PRML = "Bishop, PRML, section"
TWICE = {"order": 2}

HESSIANS = entries(
    False,
    ("Matrix Cookbook (98)", lambda x, A, b: x @ A @ x + b @ x, "x[3] A[3,3] b[3]", "x", "A + Aᵀ", TWICE),
    ("Matrix Cookbook, section 2.6", lambda x, a: (x - a).norm(), "x[3] a[3]", "x", "I/‖x - a‖ - (x - a) (x - a)ᵀ/‖x - a‖³", TWICE),
    ("Matrix Cookbook, section 2.4.3", lambda x, A, b: b @ x, "x[3] A[3,3] b[3]", "x", "0", TWICE),
    (f"{BOYD} 3.1.4", lambda x, A, b: ((A @ x - b) ** 2).sum(), "x[3] A[4,3] b[4]", "x", "2 Aᵀ A", TWICE),
    (f"{BOYD} 3.1.4", lambda x, P, q, r: x @ P @ x / 2 + q @ x + r, "x[3] P[3,3] q[3] r", "x", "(P + Pᵀ)/2", TWICE),
    (f"{BOYD} 3.1.5", lambda x: x.logsumexp(0), "x[3]", "x", "diag(p) - p pᵀ", {"order": 2, "where": ("p = softmax(x)",)}),
    (f"{BOYD} 3.1.5", lambda x: x.exp().sum().log(), "x[3]", "x", "diag(p) - p pᵀ", {"order": 2, "where": ("p = softmax(x)",)}),
    (f"{BOYD} 3.1.5", lambda x: x.prod() ** (1 / 3), "x[3]+", "x", "-g/9 (3 diag(q ∘ q) - q qᵀ)",
     {"order": 2, "where": ("g = exp(sum(log(x))/3)", "q = 1 ⊘ x")}),
    (f"{BOYD} 3.1.5", lambda x, t: (x @ x) / t, "x[3] t+", "x", "2/t I", TWICE),
    (f"{BOYD} 3.2.1", lambda x: (x * x.log()).sum(), "x[3]+", "x", "diag(1 ⊘ x)", TWICE),
    (f"{BOYD} 9.6.1", lambda x, A, b: -(b - A @ x).log().sum(), "x[3]<1 A[4,3]<1 b[4]>1", "x", "Aᵀ diag(1 ⊘ (b - A x)^∘2) A", TWICE),
    (f"{BOYD} 11.2", lambda x: -x.log().sum(), "x[3]+", "x", "diag(1 ⊘ x^∘2)", TWICE),
    (f"{BOYD} A.4.4", lambda x, A, b: (A @ x + b).exp().sum(), "x[3] A[4,3] b[4]", "x", "Aᵀ diag(exp(A x + b)) A", TWICE),
    (f"{BOYD} A.4.4", lambda x, a: (a @ x) ** 2, "x[3] a[3]", "x", "2 a aᵀ", TWICE),
    (f"{BOYD} A.4.4", lambda x, a: (a @ x).log(), "x[3]+ a[3]+", "x", "-1/(aᵀ x)**2 a aᵀ", TWICE),
    (f"{BOYD} A.4.4", lambda x, a: (a @ x).exp(), "x[3] a[3]", "x", "exp(aᵀ x) a aᵀ", TWICE),
    (f"{BOYD} A.4.4", lambda x, a: (1 + (a @ x).exp()).log(), "x[3] a[3]", "x", "s*(1 - s) a aᵀ",
     {"order": 2, "where": ("s = sigmoid(aᵀ x)",)}),
    (f"{BOYD} 4.4.1", lambda x, A, b, w: (w * (A @ x - b) ** 2).sum(), "x[3] A[4,3] b[4] w[4]+", "x", "2 Aᵀ diag(w) A", TWICE),
    (f"{BOYD} 6.3.2", lambda x, A, b, m: ((A @ x - b) ** 2).sum() + m * (x @ x), "x[3] A[4,3] b[4] m", "x", "2 Aᵀ A + 2 m I", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (x @ x) ** 2, "x[3]", "x", "4 ‖x‖² I + 8 x xᵀ", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: 1 / (x @ x), "x[3]", "x", "8/‖x‖⁶ x xᵀ - 2/‖x‖⁴ I", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (x @ x).log(), "x[3]", "x", "2/‖x‖² I - 4/‖x‖⁴ x xᵀ", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (-(x @ x) / 2).exp(), "x[3]", "x", "exp(-‖x‖²/2) (x xᵀ - I)", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (1 + x @ x).sqrt(), "x[3]", "x",
     "1/sqrt(1 + ‖x‖²) I - 1/(1 + ‖x‖²)**(3/2) x xᵀ", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: x.sin().sum(), "x[3]", "x", "-diag(sin(x))", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (x**4).sum(), "x[3]", "x", "12 diag(x^∘2)", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x: (x @ x) / 2, "x[3]", "x", "I", TWICE),
    ("Marsden and Tromba, Vector Calculus, section 3.2", lambda x, A, y: x @ A @ y, "x[3] A[3,4] y[4]", ("x", "y"), "A", TWICE),
    ("Bishop, PRML (4.97)", lambda w, X, t: (F.softplus(X @ w) - t * (X @ w)).sum(), "w[3] X[4,3] t[4]", "w",
     "Xᵀ diag(y ∘ (1 - y)) X", {"order": 2, "where": ("y = sigmoid(X w)",)}),
    ("McCullagh and Nelder, Generalized Linear Models, section 2.5", lambda w, X, y: ((X @ w).exp() - y * (X @ w)).sum(),
     "w[3] X[4,3] y[4]", "w", "Xᵀ diag(exp(X w)) X", TWICE),
    (f"{PRML} 4.3.4", lambda a, t: -(t * a.log_softmax(0)).sum(), "a[3] t[3]simplex", "a", "sum(t) (diag(p) - p pᵀ)",
     {"order": 2, "where": ("p = softmax(a)",)}),
    ("Rosenbrock, The Computer Journal 3 (1960)", lambda x, y: (1 - x) ** 2 + 100 * (y - x**2) ** 2, "x y", "x",
     "2 - 400*(y - 3*x**2)", TWICE),
)
