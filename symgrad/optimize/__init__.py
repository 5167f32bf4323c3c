"""SciPy's optimizers on functions of tensors: values, gradients, Hessians and Jacobians come from compiled kernels."""

from symgrad.optimize.equations import least_squares as least_squares, root as root
from symgrad.optimize.minimization import minimize as minimize

__all__ = ["least_squares", "minimize", "root"]
