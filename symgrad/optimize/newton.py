"""Newton's method for large systems of equations: a sparse Jacobian, its LU factorization, and a line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_MAX_HALVINGS = 30
_SUFFICIENT = 1e-4
"""The share of the predicted decrease of the norm that a step has to reach."""


def newton(
    value: Callable[[Any], Any], jacobian: Callable[[Any], Any], start: Any, tol: float | None, options: dict[str, Any] | None, watch: Any
) -> Any:
    """Return SciPy's result of a search for a zero of `value` from `start` on. `jacobian` returns sparse matrices."""
    from scipy.optimize import OptimizeResult

    given: dict[str, Any] = {"maxiter": 50, "ftol": 1e-10 if tol is None else tol}
    unknown = set(options or ()) - set(given)
    if unknown:
        raise ValueError(f"method='newton' has the options {', '.join(map(repr, given))}, got {', '.join(map(repr, sorted(unknown)))}")
    given |= options or {}
    x = np.array(start, np.float64)
    residual = value(x)
    norm = np.linalg.norm(residual)
    wanted = given["ftol"] * max(1.0, float(norm))
    calls, steps, message = 1, 0, ""
    while norm > wanted and not message:
        if steps == given["maxiter"]:
            message = f"{steps} steps did not reach the tolerance"
            break
        direction = _solved(jacobian(x), -residual)
        steps += 1
        if direction is None:
            message = f"the Jacobian is singular after {steps - 1} steps"
            break
        found, tried = _searched(value, x, direction, norm)
        calls += tried
        if found is None:
            message = f"no step along Newton's direction makes the residual smaller, after {steps - 1} steps"
            break
        x, residual = found
        norm = np.linalg.norm(residual)
        if watch is not None:
            watch(x, residual)
    success = not message
    return OptimizeResult(
        x=x, fun=residual, success=success, status=1 if success else 0, message=message or "the residual is below the tolerance",
        nit=steps, nfev=calls, njev=steps, method="newton",
    )  # fmt: skip


def _solved(matrix: Any, right: Any) -> Any:
    """Return the solution of a sparse system, or None if there is no single one."""
    from scipy.sparse.linalg import splu

    try:
        found = splu(matrix.tocsc()).solve(right)
    except RuntimeError:  # SuperLU: the factor is exactly singular
        return None
    return found if np.isfinite(found).all() else None


def _searched(value: Callable[[Any], Any], x: Any, direction: Any, norm: Any) -> tuple[Any, int]:
    """Return the next point with its residual (None if there is none), and the number of points that were tried."""
    step = 1.0
    for tried in range(1, _MAX_HALVINGS + 1):
        residual = value(x + step * direction)
        if np.linalg.norm(residual) <= (1 - _SUFFICIENT * step) * norm:  # false for NaN
            return (x + step * direction, residual), tried
        step /= 2
    return None, _MAX_HALVINGS
