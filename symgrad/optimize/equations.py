"""root() and least_squares(): SciPy's solvers of systems of equations, with compiled Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.optimize.newton import newton
from symgrad.optimize.objective import Kernels, check_start, several
from symgrad.optimize.packing import Packing

_WITH_JACOBIAN = {"hybr", "lm"}


def root(
    f: Callable[..., Any],
    x0: Any,
    method: str = "hybr",
    *,
    args: Any = (),
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    callback: Callable[..., Any] | None = None,
    backend: str = "xla",
) -> Any:
    """Where `f(x, *args)` is 0: a function of tensors in the form of `x0`, which gives as many numbers, in a tensor or containers
    of them. As scipy.optimize.root, with a compiled Jacobian; `x` of the result has the form of x0. method="newton" is for large
    systems: Newton's method with a sparse Jacobian, an LU factorization of it, and a line search (options: maxiter, ftol)."""
    from scipy.optimize import root as run

    packing, kernels = _prepared(f, x0, args, backend, sparse=method == "newton")
    found = kernels.value(packing.start)
    if found.size != packing.size:
        raise ValueError(f"{_name(f)} gives {found.size} numbers for the {packing.size} of x0: a root needs as many equations as unknowns")
    watch = None if callback is None else lambda x, fx: callback(packing.form(x), fx)
    if method == "newton":
        result = newton(kernels.value, kernels.jacobian, packing.start, tol, options, watch)
    else:
        jacobian = kernels.jacobian if method.lower() in _WITH_JACOBIAN else None
        result = run(kernels.value, packing.start, method=method, jac=jacobian, tol=tol, options=options, callback=watch)
    result.vector, result.x = result.x, packing.form(result.x)
    return result


def least_squares(
    f: Callable[..., Any],
    x0: Any,
    method: str = "trf",
    *,
    args: Any = (),
    bounds: Any = None,
    backend: str = "xla",
    sparse: bool = False,
    **options: Any,
) -> Any:
    """The `x` for which the sum of the squares of `f(x, *args)` is least: residuals, in a tensor or containers of them. As
    scipy.optimize.least_squares, whose further options it takes (loss, ftol, x_scale, ...), with a compiled Jacobian, which may be
    `sparse` for the methods "trf" and "dogbox". Bounds are SciPy's
    (lower, upper), or have the form of x0, with (lower, upper) or None in place of each tensor. `x` of the result has the form of x0."""
    from scipy.optimize import least_squares as run

    packing, kernels = _prepared(f, x0, args, backend, sparse)
    limits = (-float("inf"), float("inf")) if bounds is None else bounds
    if packing.is_tree and bounds is not None:
        limits = tuple(zip(*packing.pairs(bounds), strict=True))
    result = run(kernels.value, packing.start, jac=kernels.jacobian, method=method, bounds=limits, **options)
    result.vector, result.x = result.x, packing.form(result.x)
    result.grad = packing.form(result.grad)
    return result


def _prepared(f: Callable[..., Any], x0: Any, args: Any, backend: str, sparse: bool) -> tuple[Packing, Kernels]:
    packing = Packing(x0)
    check_start(packing, _name(f))
    return packing, Kernels(f, packing, args, backend, several(_name(f)), sparse)


def _name(f: Any) -> str:
    return getattr(f, "__name__", "f")
