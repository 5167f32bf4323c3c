"""Derivatives of probability and of machine learning: likelihoods, losses, layers."""

from __future__ import annotations

import math

import numpy as np

import symgrad as sg
from symgrad.linalg import inv
from symgrad.nn import functional as F
from tests.support.textbook.entry import entries

PRML = "Bishop, PRML"
CASELLA = "Casella and Berger, Statistical Inference, section 7.2"
DL = "Goodfellow, Bengio and Courville, Deep Learning, section"
ESL = "Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section"
MURPHY = "Murphy, Machine Learning, section"

PROBABILITIES = entries(
    False,
    (f"{PRML} (3.13)", lambda w, X, t, b: -b / 2 * ((t - X @ w) ** 2).sum(), "w[3] X[4,3] t[4] b+", "w", "b Xᵀ (t - X w)"),
    (f"{ESL} 3.2", lambda w, X, y: ((X @ w - y) ** 2).mean(), "w[3] X[4,3] y[4]", "w", "2/4 Xᵀ (X w - y)"),
    (f"{ESL} 3.4.1", lambda w, X, y, c: ((X @ w - y) ** 2).sum() + c * (w @ w), "w[3] X[4,3] y[4] c", "w", "2 (Xᵀ (X w - y) + c w)"),
    (f"{ESL} 3.4.2", lambda w, X, y, c: ((X @ w - y) ** 2).sum() / 2 + c * w.abs().sum(), "w[3] X[4,3] y[4] c", "w",
     "Xᵀ (X w - y) + c sign(w)"),
    (f"{ESL} 12.3.2", lambda w, X, y: (1 - y * (X @ w)).relu().sum(), "w[3] X[4,3] y[4]sign", "w", "-Xᵀ (y ∘ H(1 - y ∘ (X w)))"),
    (f"{ESL} 10.6", lambda w, X, y: (-y * (X @ w)).exp().sum(), "w[3] X[4,3] y[4]sign", "w", "-Xᵀ (y ∘ exp(-y ∘ (X w)))"),
    (f"{ESL} 10.6", lambda r: F.huber_loss(r, sg.zeros(4, dtype=sg.float64), reduction="sum"), "r[4]", "r", "max(-1, min(r, 1))"),
    (f"{PRML} (4.91)", lambda w, X, t: F.binary_cross_entropy_with_logits(X @ w, t, reduction="sum"), "w[3] X[4,3] t[4]<1", "w",
     "Xᵀ (sigmoid(X w) - t)"),
    (f"{PRML} (4.88)", lambda a: a.sigmoid().sum(), "a[3]", "a", "s ∘ (1 - s)", {"where": ("s = sigmoid(a)",)}),
    (f"{PRML} (4.109)", lambda W, X, T: -(T * (X @ W).log_softmax(1)).sum(), "W[3,2] X[4,3] T[4,2]onehot", "W", "Xᵀ (softmax(X W) - T)"),
    (f"{DL} 6.2.2.3", lambda z, y: F.cross_entropy(z, y), "z[3] y[3]simplex", "z", "softmax(z) - y"),
    (f"{DL} 6.2.2.3", lambda Z: F.cross_entropy(Z, sg.tensor([2, 0, 1, 1])), "Z[4,3]", "Z", "(softmax(Z) - Y)/4",
     {"given": {"Y": lambda Z: np.eye(3)[[2, 0, 1, 1]]}}),
    (f"{DL} 6.2.2.3", lambda z: -z.log_softmax(0)[1], "z[3]", "z", "softmax(z) - e", {"given": {"e": lambda z: np.eye(3)[1]}}),
    (f"{PRML} section 2.3.4", lambda m, x, S: (x - m) @ inv(S) @ (x - m) / 2, "m[3] x[3] S[3,3]spd", "m", "-(S⁻¹ + S⁻ᵀ) (x - m)/2"),
    (f"{PRML} section 2.3.4", lambda S, x, m: sg.logdet(S) / 2 + (x - m) @ inv(S) @ (x - m) / 2, "S[3,3]spd x[3] m[3]", "S",
     "(S⁻ᵀ - S⁻ᵀ (x - m) (x - m)ᵀ S⁻ᵀ)/2"),
    (f"{PRML} section 1.2.4", lambda m, x, s: -((x - m) ** 2).sum() / (2 * s) - 2 * (2 * math.pi * s).log(), "m x[4] s+", "m",
     "sum(x - m)/s"),
    (f"{PRML} section 1.2.4", lambda s, x, m: -((x - m) ** 2).sum() / (2 * s) - 2 * (2 * math.pi * s).log(), "s+ x[4] m", "s",
     "‖x - m‖²/(2*s**2) - 2/s"),
    (f"{CASELLA}.2", lambda p, x: (x * p.log() + (1 - x) * (1 - p).log()).sum(), "p<1 x[4]<1", "p", "(sum(x) - 4*p)/(p*(1 - p))"),
    (f"{CASELLA}.2", lambda m, x: (x * m.log() - m - sg.lgamma(x + 1)).sum(), "m+ x[4]+", "m", "sum(x)/m - 4"),
    (f"{CASELLA}.2", lambda r, x: (r.log() - r * x).sum(), "r+ x[4]+", "r", "4/r - sum(x)"),
    (f"{CASELLA}.2", lambda a, b, x: ((a - 1) * x.log() - b * x + a * b.log() - sg.lgamma(a)).sum(), "a+ b+ x[4]+", "a",
     "sum(log(x)) + 4*log(b) - 4*digamma(a)"),
    ("Minka, Estimating a Dirichlet distribution (2000)",
     lambda a, x: sg.lgamma(a.sum()) - sg.lgamma(a).sum() + ((a - 1) * x.log()).sum(), "a[3]+ x[3]simplex", "a",
     "digamma(sum(a)) - digamma(a) + log(x)"),
    ("Kingma and Welling, Auto-Encoding Variational Bayes, appendix B", lambda m, v: (m**2 + v.exp() - v - 1).sum() / 2, "m[3] v[3]", "v",
     "(exp(v) - 1)/2"),
    (f"{MURPHY} 2.8", lambda p, q: (p * (p / q).log()).sum(), "p[3]simplex q[3]simplex", "p", "log(p ⊘ q) + 1"),
    (f"{MURPHY} 2.8", lambda q, p: (p * (p / q).log()).sum(), "q[3]simplex p[3]simplex", "q", "-p ⊘ q"),
    (f"{PRML} section 9.2.2", lambda a: a.logsumexp(0), "a[3]", "a", "softmax(a)"),
    (f"{PRML} (5.53), section 5.3.1", lambda W, V, x, t: ((V @ (W @ x).tanh() - t) ** 2).sum() / 2, "W[4,3] V[2,4] x[3] t[2]", "W",
     "((1 - z^∘2) ∘ (Vᵀ (V z - t))) xᵀ", {"where": ("z = tanh(W x)",)}),
    (f"{PRML} section 5.3.1", lambda V, z, t: ((V @ z - t) ** 2).sum() / 2, "V[2,4] z[4] t[2]", "V", "(V z - t) zᵀ"),
    (f"{PRML} section 12.1.2", lambda W, X: ((X - X @ W @ W.T) ** 2).sum(), "W[3,2] X[4,3]", "W",
     "-2 (Rᵀ X + Xᵀ R) W", {"where": ("R = X - X W Wᵀ",)}),
    ("Lee and Seung, Algorithms for Non-negative Matrix Factorization (2001)", lambda W, H, V: ((V - W @ H) ** 2).sum() / 2,
     "W[4,2] H[2,3] V[4,3]", "W", "(W H - V) Hᵀ"),
    ("Koren, Bell and Volinsky, Matrix Factorization Techniques (2009)", lambda p, q, r, c: (r - q @ p) ** 2 + c * (q @ q + p @ p),
     "p[3] q[3] r c", "p", "2*(qᵀ p - r) q + 2*c p"),
    (f"{DL} 6.3.3", lambda x: F.silu(x).sum(), "x[3]", "x", "s + x ∘ s ∘ (1 - s)", {"where": ("s = sigmoid(x)",)}),
    (f"{DL} 6.3.3", lambda x: F.softplus(x).sum(), "x[3]", "x", "sigmoid(x)"),
    ("Hendrycks and Gimpel, Gaussian Error Linear Units (2016)", lambda x: F.gelu(x).sum(), "x[3]", "x",
     "normal_cdf(x) + x ∘ exp(-x^∘2/2)/sqrt(2*pi)"),
    (f"{DL} 8.7.1", lambda x, g: (g * (x - x.mean())).sum(), "x[4] g[4]", "x", "g - sum(g)/4"),
    ("Ba, Kiros and Hinton, Layer Normalization (2016)", lambda x, g: (g * F.layer_norm(x, (4,), eps=0.0)).sum(), "x[4] g[4]", "x",
     "(g - sum(g)/4 - sum(g ∘ z)/4 z)/s", {"where": ("s = sqrt(‖x - sum(x)/4‖²/4)", "z = (x - sum(x)/4)/s")}),
    (f"{CASELLA}.3", lambda x: x.var(), "x[4]", "x", "2/3 (x - sum(x)/4)"),
    (f"{CASELLA}.3", lambda x: x.std(), "x[4]", "x", "(x - sum(x)/4)/(3*s)", {"where": ("s = sqrt(‖x - sum(x)/4‖²/3)",)}),
    (f"{PRML} section 12.1", lambda X: ((X - X.mean(0)) ** 2).sum(), "X[4,3]", "X", "2 (X - 𝟏 𝟏ᵀ X/4)"),
    (f"{PRML} section 4.2.2", lambda w, A, B: (w @ A @ w) / (w @ B @ w), "w[3] A[3,3]spd B[3,3]spd", "w",
     "((A + Aᵀ) w - r (B + Bᵀ) w)/(wᵀ B w)", {"where": ("r = wᵀ A w/(wᵀ B w)",)}),
    ("Manning, Raghavan and Schütze, Introduction to Information Retrieval, section 6.3.1",
     lambda x, y: (x @ y) / (x.norm() * y.norm()), "x[3] y[3]", "x", "(y/‖y‖ - c x/‖x‖)/‖x‖", {"where": ("c = xᵀ y/(‖x‖*‖y‖)",)}),
)
