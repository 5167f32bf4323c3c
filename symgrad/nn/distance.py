"""Distances and similarities as modules."""

from __future__ import annotations

from dataclasses import dataclass, field

from symgrad.nn import functional as F
from symgrad.nn.options import Options
from symgrad.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


@dataclass(eq=False, repr=False)
class PairwiseDistance(Options):
    """The p-norm of x1 - x2 along the last dimension."""

    p: float = field(default=2.0, repr=False)
    eps: float = field(default=1e-6, repr=False)
    keepdim: bool = field(default=False, repr=False)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


@dataclass(eq=False, repr=False)
class CosineSimilarity(Options):
    """The cosine of the angle between vectors along `dim`."""

    dim: int = field(default=1, repr=False)
    eps: float = field(default=1e-8, repr=False)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
