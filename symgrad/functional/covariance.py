"""Covariances and correlations of variables, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from symgrad.dispatch import tensors as ops
from symgrad.dtypes import type_word
from symgrad.functional.choosing import clamp
from symgrad.functional.complexes import view_as_complex, view_as_real
from symgrad.functional.names import method
from symgrad.functional.reduction import sum
from symgrad.functional.shaping import reshape, squeeze
from symgrad.lines import warn
from symgrad.tensor import Tensor

__all__ = ["corrcoef", "cov"]

_NO_FREEDOM = "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."


@method
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariances of the rows of a matrix, whose columns are observations; of a vector, its variance.

    `fweights` says how often each observation was made, `aweights` how much it counts.
    """
    _check_input("cov", input)
    if input._array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x: Any = input if input.ndim == 2 else reshape(input, (1, -1))
    count = x.shape[1]
    weights = _weights(count, fweights, aweights)
    total: Any = count if weights is None else sum(weights)
    if weights is not None and count and total == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    freedom = total - correction
    if aweights is not None and correction:
        freedom = total - correction * sum(weights * aweights) / total
    if freedom <= 0:
        warn(_NO_FREEDOM)
        freedom = 0
    centred = x - sum(x if weights is None else x * weights, 1, keepdim=True) / total
    weighted = centred if weights is None else centred * weights
    return squeeze(centred @ weighted.T.conj() / freedom)


@method
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of a matrix: their covariances by their standard deviations. Of a vector it is 1."""
    _check_input("corrcoef", input)
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance  # NaN where there is no spread
    deviation = ops.sqrt(covariance.diagonal())
    result = covariance / deviation.unsqueeze(1) / deviation
    if result._array.dtype.kind == "c":
        return view_as_complex(clamp(view_as_real(result), -1, 1))
    return clamp(result, -1, 1)


def _check_input(name: str, input: Tensor) -> None:
    if input.ndim > 2:
        raise RuntimeError(f"{name}(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")


def _weights(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Any:
    """What each observation weighs, or None if all weigh the same."""
    for name, kinds, wanted, given in (("fweights", "iu", "integral", fweights), ("aweights", "f", "floating point", aweights)):
        if given is None:
            continue
        if given.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {given.ndim} dimensions")
        if given._array.dtype.kind not in kinds:
            raise RuntimeError(f"cov(): expected {name} to have {wanted} dtype but got {name} with {type_word(given._array.dtype)} dtype")
        if given._array.size != count:
            numel = f"the same numel as there are observations in the input but got {given._array.size} != {count}"
            raise RuntimeError(f"cov(): expected {name} to have {numel}")
        if (given._array < 0).any():
            raise RuntimeError(f"cov(): {name} cannot be negative")
    return aweights if fweights is None else fweights if aweights is None else ops.mul(fweights, aweights)
