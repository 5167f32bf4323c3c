"""Special functions, under the names that PyTorch gives them in torch.special."""

from __future__ import annotations

import math

from symgrad.dispatch import tensors as ops
from symgrad.functional.elementwise import (
    digamma as digamma,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    exp2 as exp2,
    expm1 as expm1,
    lgamma,
    log1p as log1p,
    logit as logit,
    polygamma as polygamma,
    round as round,
    sigmoid,
    sinc as sinc,
    xlogy as xlogy,
)
from symgrad.functional.names import public
from symgrad.functional.neural import log_softmax as log_softmax, softmax as softmax
from symgrad.functional.reduction import logsumexp as logsumexp
from symgrad.tensor import Tensor
from symgrad.typing import Operand

expit, gammaln, psi = sigmoid, lgamma, digamma


@public
def xlog1py(input: Operand, other: Operand) -> Tensor:
    """input · log(1 + other), 0 where input is 0."""
    return ops.xlog1py(input, other)


@public
def ndtr(input: Tensor) -> Tensor:
    """The area under the standard normal density up to the input."""
    return ops.mul(ops.erfc(ops.mul(input, -math.sqrt(0.5))), 0.5)


@public
def ndtri(input: Tensor) -> Tensor:
    """The inverse of ndtr."""
    return ops.ndtri(input)


@public
def entr(input: Tensor) -> Tensor:
    """-input · log(input): 0 at 0, -inf below."""
    return ops.entr(input)


@public
def gamma(input: Tensor) -> Tensor:
    """The gamma function."""
    return ops.gamma(input)


@public
def erfi(input: Tensor) -> Tensor:
    """The imaginary error function, -i erf(i · input)."""
    return ops.erfi(input)


@public
def sine_integral(input: Tensor) -> Tensor:
    """Si, the integral of sin(t) / t from 0 to the input."""
    return ops.sine_integral(input)


@public
def cosine_integral(input: Tensor) -> Tensor:
    """Ci, minus the integral of cos(t) / t from the input to infinity."""
    return ops.cosine_integral(input)


@public
def exp_integral(input: Tensor) -> Tensor:
    """Ei, the principal value of the integral of exp(t) / t from minus infinity to the input."""
    return ops.exp_integral(input)


@public
def fresnel_s(input: Tensor) -> Tensor:
    """The integral of sin(π t² / 2) from 0 to the input."""
    return ops.fresnel_s(input)


@public
def fresnel_c(input: Tensor) -> Tensor:
    """The integral of cos(π t² / 2) from 0 to the input."""
    return ops.fresnel_c(input)


@public
def lambertw(input: Tensor, branch: int = 0) -> Tensor:
    """The real w with w · exp(w) = input, on branch 0 or -1; NaN where there is none."""
    if branch not in (0, -1):
        raise ValueError(f"lambertw: branch must be 0 or -1, the two with real values, got {branch!r}")
    return ops.lambertw(input, branch=int(branch))


@public
def riemann_zeta(input: Tensor, order: int = 0) -> Tensor:
    """Riemann's zeta function, or its derivative of this order, which is computed from -1 on and NaN below."""
    return ops.riemann_zeta(input, order=order)


@public
def bessel_j(input: Tensor, order: float) -> Tensor:
    """The Bessel function of the first kind."""
    return ops.bessel_j(input, order=order)


@public
def bessel_y(input: Tensor, order: float) -> Tensor:
    """The Bessel function of the second kind."""
    return ops.bessel_y(input, order=order)


@public
def bessel_i(input: Tensor, order: float) -> Tensor:
    """The modified Bessel function of the first kind."""
    return ops.bessel_i(input, order=order)


@public
def bessel_k(input: Tensor, order: float) -> Tensor:
    """The modified Bessel function of the second kind."""
    return ops.bessel_k(input, order=order)
