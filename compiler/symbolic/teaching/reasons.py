"""Short proofs of the rules of rows that are not elementary, for `steps(explain=True)`."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "sigmoid": "sigmoid(u) = 1/(1 + exp(-u)), so sigmoid′ = exp(-u)/(1 + exp(-u))² = sigmoid(u) (1 - sigmoid(u))",
    "softplus": "softplus(u) = log(1 + exp(u)), so softplus′ = exp(u)/(1 + exp(u)) = sigmoid(u)",
    "log_sigmoid": "log_sigmoid(u) = -log(1 + exp(-u)), so its derivative is exp(-u)/(1 + exp(-u)) = sigmoid(-u)",
    "silu": "silu(u) = u sigmoid(u): the product rule",
    "tanh": "tanh = sinh/cosh, so tanh′ = (cosh² - sinh²)/cosh² = 1 - tanh²",
    "tan": "tan = sin/cos, so tan′ = (cos² + sin²)/cos² = 1/cos²",
    "erf": "erf(u) = 2/√π ∫ exp(-t²) dt from 0 to u: the fundamental theorem of calculus",
    "softmax": "log p = z - logsumexp(z), so dp = p ∘ d log p = p ∘ (dz - pᵀ dz): row i of the Jacobian is p_i (e_i - p)ᵀ",
    "log_softmax": "log_softmax(z) = z - logsumexp(z), and d logsumexp(z) = softmax(z)ᵀ dz",
    "logsumexp": "d log Σ exp(z_i) = Σ exp(z_i) dz_i / Σ exp(z_j) = softmax(z)ᵀ dz",
    "inv": "A A⁻¹ = I, so dA A⁻¹ + A dA⁻¹ = 0, and dA⁻¹ = -A⁻¹ dA A⁻¹",
    "det": "det(A + dA) = det A det(I + A⁻¹ dA) = det A (1 + tr(A⁻¹ dA) + ...) (Jacobi)",
    "slogdet": "d log |det A| = d det A / det A = tr(A⁻¹ dA)",
    "vector_norm": "‖x‖² = xᵀ x, so 2 ‖x‖ d‖x‖ = 2 xᵀ dx, and d‖x‖ = xᵀ dx/‖x‖ for x ≠ 0",
    "normalize_by": "y = x/‖x‖: the quotient rule, with d‖x‖ = xᵀ dx/‖x‖, so dy = (dx - y yᵀ dx)/‖x‖",
    "solve": "A X = B, so dA X + A dX = dB, and dX = A⁻¹ (dB - dA X)",
    "cholesky": "A = L Lᵀ, so L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ; L⁻¹ dL is lower triangular, so it is the lower half of the left side, with"
                " half of its diagonal",
    "eigh": "A v = λ v and vᵀ v = 1: multiply dA v + A dv = dλ v + λ dv by vᵀ to get dλ = vᵀ dA v, and by w_jᵀ to get the part of dv along"
            " the eigenvector w_j: w_jᵀ dA v/(λ - λ_j)",
    "eig": "A v = λ v and wᵀ A = λ wᵀ: multiply dA v + A dv = dλ v + λ dv by wᵀ to get dλ = wᵀ dA v/(wᵀ v)",
    "solve_triangular": "A X = B, so dA X + A dX = dB, and dX = A⁻¹ (dB - dA X), with the triangle of dA",
    "pinv": "A⁺ solves least squares: differentiate A A⁺ A = A, A⁺ A A⁺ = A⁺, and the symmetry of A A⁺ and A⁺ A",
    "svd": "σ = uᵀ A v with unit vectors u, v; du and dv are orthogonal to u and v, so dσ = uᵀ dA v",
    "qr": "A = Q R: Qᵀ dA R⁻¹ = Qᵀ dQ + dR R⁻¹, where Qᵀ dQ is antisymmetric and dR R⁻¹ is upper triangular",
    "prod": "log |Π x_i| = Σ log |x_i|: the derivative in x_i is the product of the others",
    "cumprod": "y_k = Π x_i for i ≤ k, so dy_k = y_k Σ dx_i/x_i for i ≤ k",
    "cumsum": "y_k = Σ x_i for i ≤ k: x_i is in every y_k with k ≥ i",
    **dict.fromkeys(("amax", "max_all"), "the largest element alone decides, so the others have slope 0; ties share it"),
    **dict.fromkeys(("amin", "min_all"), "the smallest element alone decides, so the others have slope 0; ties share it"),
    "sort": "sorting permutes the elements, and the derivative of a permutation is the same permutation",
}  # fmt: skip


def reason_of(row: str) -> str:
    """Return a short proof of the rule of a row; empty if the rule is elementary."""
    return REASONS.get(row, "")
