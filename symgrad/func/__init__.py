"""Transformations of functions: derivatives that nest, batching, modules as functions of their parameters. PyTorch's `torch.func`."""

from symgrad.func.derivatives import (
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from symgrad.func.functional_call import functional_call as functional_call
from symgrad.func.vmap import vmap as vmap
