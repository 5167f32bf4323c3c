"""Transformations of functions: derivatives that nest, batching, modules as functions of their parameters. PyTorch's `torch.func`."""

from symgrad.func.derivatives import (
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacrev as jacrev,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from symgrad.func.forward import hvp as hvp, jacfwd as jacfwd, jvp as jvp
from symgrad.func.functional_call import functional_call as functional_call
from symgrad.func.taylor import laplacian as laplacian, taylor as taylor
from symgrad.func.vmap import vmap as vmap
