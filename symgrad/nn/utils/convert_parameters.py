"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.functional import cat
from symgrad.nn.tree import typename
from symgrad.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other; the result is recorded."""
    return cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of consecutive pieces of a vector. A vector that is too short changes nothing."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    pieces, start = [], 0
    for p in parameters:
        pieces.append((p, vec[start : start + p.numel()].view_as(p)))
        start += p.numel()
    for p, piece in pieces:
        p.data = piece.data
