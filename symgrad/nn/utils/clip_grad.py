"""Gradients that are too large are scaled down, or cut off."""

from __future__ import annotations

from collections.abc import Iterable
from types import GeneratorType
from typing import Any, TypeAlias

from symgrad.autograd import no_grad
from symgrad.computed_options import fixed, is_computed
from symgrad.from_data import tensor
from symgrad.functional import stack
from symgrad.linalg import vector_norm
from symgrad.lines import warn
from symgrad.tensor import Tensor

Tensors: TypeAlias = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def _limit(limit: float | Tensor) -> Any:
    """A number that a traced function computes stays one of the program."""
    return fixed(limit) if is_computed(limit) else float(limit)


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as if they were one vector. `foreach` is accepted and changes nothing."""
    order = float(norm_type)
    norms = [vector_norm(t, order) for t in _listed(tensors)]
    if not norms:
        return tensor(0.0)
    total = vector_norm(stack(norms), order)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this"
            " error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters: Tensors, max_norm: float | Tensor, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients by max_norm / total_norm, in place; never up."""
    scale = (_limit(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for g in _gradients(parameters):
        g.mul_(scale)


def clip_grad_norm_(
    parameters: Tensors, max_norm: float | Tensor, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scale the gradients, in place, so that the norm of all together is at most `max_norm`; the norm that they had."""
    listed = _listed(parameters)
    if not listed and isinstance(parameters, GeneratorType):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float | Tensor, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    words = "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`."
    warn(words, FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float | Tensor, foreach: bool | None = None) -> None:
    """Cut every element of the gradients off at -clip_value and clip_value, in place."""
    limit = _limit(clip_value)
    for g in _gradients(parameters):
        g.clamp_(-limit, limit)
