"""Transformations of functions: derivatives that nest, and batching. PyTorch's `torch.func`."""

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
from symgrad.func.vmap import vmap as vmap
