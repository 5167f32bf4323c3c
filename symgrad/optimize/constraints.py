"""Bounds and constraints in the forms that SciPy has, on functions of tensors: their Jacobians and Hessians are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import describe
from symgrad.optimize.objective import Kernels, several
from symgrad.optimize.packing import Packing


def compiled_constraints(given: Any, packing: Packing, backend: str, second: bool, sparse: bool = False) -> Any:
    """SciPy's constraints with `fun` on vectors, and with derivatives of ours; second ones for the method that asks for them."""
    many = given if isinstance(given, (list, tuple)) else (given,)
    return [_compiled(c, packing, backend, second, sparse) for c in many]


def _compiled(c: Any, packing: Packing, backend: str, second: bool, sparse: bool) -> Any:
    from scipy.optimize import LinearConstraint, NonlinearConstraint

    if isinstance(c, LinearConstraint):
        return c
    if isinstance(c, NonlinearConstraint):
        kernels = _kernels(c.fun, packing, (), backend, sparse)
        hess = {"hess": Weighted(c.fun, packing, backend, sparse).hessian} if second else {}
        return NonlinearConstraint(kernels.value, c.lb, c.ub, jac=kernels.jacobian, keep_feasible=c.keep_feasible, **hess)
    if isinstance(c, dict) and {"type", "fun"} <= c.keys():
        kernels = _kernels(c["fun"], packing, tuple(c.get("args", ())), backend, sparse)
        return {"type": c["type"], "fun": kernels.value, "jac": kernels.jacobian}
    raise TypeError(
        'a constraint is a scipy.optimize.LinearConstraint, a NonlinearConstraint, or {"type": "eq" or "ineq", "fun": f} with f on what has'
        f" the form of x0; got {describe(c)}"
    )


def _kernels(function: Any, packing: Packing, args: tuple[Any, ...], backend: str, sparse: bool) -> Kernels:
    if not callable(function):
        raise TypeError(f"the fun of a constraint must be a function of tensors, got {describe(function)}")
    return Kernels(function, packing, args, backend, several(getattr(function, "__name__", "the constraint")), sparse)


class Weighted:
    """The Hessian of v·c(x), which is what SciPy asks for: v is an argument of the kernel."""

    def __init__(self, function: Any, packing: Packing, backend: str, sparse: bool = False) -> None:
        flat = several(getattr(function, "__name__", "the constraint"))

        def weighted(x: Any, v: Any) -> Any:
            return (flat(function(x)) * v).sum()

        self.function, self.packing, self.backend, self.sparse = weighted, packing, backend, sparse

    def hessian(self, x: Any, v: Any) -> Any:
        if not hasattr(self, "kernels"):
            self.kernels = Kernels(self.function, self.packing, (), self.backend, lambda result: result, self.sparse)
        self.kernels.args, self.kernels.at = (np.array(v, np.float64),), None  # another v
        return self.kernels.hessian(x)
