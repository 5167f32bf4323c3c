"""minimize(): SciPy's minimizers with compiled value, gradient, Hessian and Hessian-vector products."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.optimize.constraints import compiled_constraints
from symgrad.optimize.objective import Kernels, check_start, scalar
from symgrad.optimize.packing import Packing

_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_BY_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov"}
_BY_HESSIAN = {"dogleg", "trust-exact"}
_MOST_DENSE = 100
"""Up to so many numbers trust-constr, which takes both, gets the whole Hessian."""


def minimize(
    f: Callable[..., Any],
    x0: Any,
    method: str | None = None,
    *,
    args: Any = (),
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    callback: Callable[..., Any] | None = None,
    backend: str = "xla",
    sparse: bool = False,
) -> Any:
    """The minimum of `f(x, *args)`, a function of tensors that gives one number, from `x0` on: a tensor, an array, or nested containers
    of them. `f` gets tensors in the form of x0, and in its types.

    Methods, bounds, constraints, tol and options are those of scipy.optimize.minimize; all derivatives that a method asks for are
    compiled from `f`. Bounds may have the form of x0, with (lower, upper) or None in place of each tensor. `args` that are
    no tuple are one argument. With `sparse`, the Hessian and the Jacobians of constraints are sparse matrices, for the method
    "trust-constr". Constraints are functions of tensors, too. The callback is given x in the form of x0, or with a parameter
    named `intermediate_result` a result; StopIteration ends.

    The result is SciPy's, with `x` and the gradient `grad` in the form of x0."""
    from scipy.optimize import minimize as run

    packing = Packing(x0)
    name = getattr(f, "__name__", "f")
    word = (method or "").lower()
    if sparse and word != "trust-constr":
        raise ValueError(f"only method='trust-constr' takes sparse derivatives, got method={method!r}")
    kernels = Kernels(f, packing, args, backend, scalar(name), sparse)
    check_start(packing, name)
    free = word in _WITHOUT_GRADIENT
    if not free:
        _check_first(kernels, packing, name)
    result = run(
        kernels.value if free else kernels.value_and_grad, packing.start, method=method, jac=None if free else True,
        bounds=packing.bounds(bounds),
        constraints=compiled_constraints(constraints, packing, backend, word == "trust-constr", sparse), tol=tol, options=options,
        callback=_callback(callback, packing, kernels), **_second(word, kernels, packing.size),
    )  # fmt: skip
    return _formed(result, packing, None if free else kernels)


def _second(method: str, kernels: Kernels, size: int) -> dict[str, Any]:
    """The second derivatives that a method uses."""
    if method in _BY_PRODUCTS or (method == "trust-constr" and size > _MOST_DENSE and not kernels.sparse):
        return {"hessp": kernels.hessian_times}
    return {"hess": kernels.hessian} if method in _BY_HESSIAN or method == "trust-constr" else {}


def _check_first(kernels: Kernels, packing: Packing, name: str) -> None:
    """What no method can start from is told by name. SciPy's own first evaluation is this one."""
    value, gradient = kernels.value_and_grad(packing.start)
    if not np.isfinite(value):
        raise ValueError(f"{name} is {float(value)} at x0: start where it is finite")
    wrong = ~np.isfinite(gradient)
    if wrong.any():
        found = float(gradient[np.argmax(wrong)])
        raise ValueError(f"the derivative of {name} in {packing.first(wrong)} is {found} at x0: start where it is finite")


def _callback(callback: Any, packing: Packing, kernels: Kernels) -> Any:
    if callback is None:
        return None
    from scipy.optimize import OptimizeResult

    whole = set(inspect.signature(callback).parameters) == {"intermediate_result"}

    def call(x: Any, *state: Any) -> Any:
        if not whole:
            return callback(packing.form(x))
        return callback(intermediate_result=OptimizeResult(x=packing.form(x), fun=float(kernels.value(x))))

    return call


def _formed(result: Any, packing: Packing, kernels: Kernels | None) -> Any:
    """SciPy's result, with x and the gradient in the form of x0."""
    vector = result.x
    result.vector, result.x = vector, packing.form(vector)
    result.fun = float(np.asarray(result.fun).reshape(()))
    result.grad = None if kernels is None else packing.form(kernels.value_and_grad(vector)[1])
    return result
