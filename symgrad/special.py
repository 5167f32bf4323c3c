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
