"""Parametrizations to use: a weight split into lengths and directions, a weight divided by its largest singular value."""

from __future__ import annotations

from typing import Any

from symgrad.autograd import no_grad
from symgrad.linalg import vector_norm
from symgrad.nn import functional as F
from symgrad.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from symgrad.nn.module import Module
from symgrad.nn.utils.parametrize import register_parametrization
from symgrad.tensor import Tensor

__all__ = ["spectral_norm", "weight_norm"]


def norm_except_dim(weight: Tensor, dim: int) -> Tensor:
    """The lengths of the slices along a dimension; with -1 the length of the whole."""
    if dim == -1:
        return vector_norm(weight)
    return vector_norm(weight, dim=tuple(d for d in range(weight.ndim) if d != dim), keepdim=True)


def normalized(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The directions of v with the lengths g."""
    return v * (g / norm_except_dim(v, dim))


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalized(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths (`original0`) and the directions (`original1`) of the slices of a weight along `dim`, or of the whole."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(module: Module, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """The state of the older `nn.utils.weight_norm` can be loaded."""
        for i, suffix in enumerate("gv"):
            if f"{prefix}{name}_{suffix}" in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(f"{prefix}{name}_{suffix}")

    module.register_load_state_dict_pre_hook(rename)
    return module


@no_grad()
def improve(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> None:
    """Steps of power iteration, in place: u and v come nearer to the singular vectors of the largest singular value."""
    for _ in range(times):
        u.copy_(F.normalize(matrix.mv(v), dim=0, eps=eps))
        v.copy_(F.normalize(matrix.mH.mv(u), dim=0, eps=eps))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight with one row for each output."""
    return weight.movedim(dim, 0).flatten(1)


def first_vectors(matrix: Tensor, eps: float) -> list[Tensor]:
    """Where power iteration starts: two random directions."""
    return [F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in matrix.shape]


def divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """A weight over its largest singular value. The vectors are copied, since the next forward changes them in place."""
    return weight / u.clone().vdot(matrix.mv(v.clone()))


def outputs_of(module: Module) -> int:
    """The dimension of the outputs in the weight of a module."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


class _SpectralNorm(Module):
    """The two singular vectors are buffers, improved by some steps of power iteration at every forward of training."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps = dim % weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            u, v = first_vectors(matrix, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            improve(matrix, u, v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            improve(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return divided(weight, matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value. `dim` is the dimension of the outputs, 1 for transposed convolutions."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, outputs_of(module) if dim is None else dim, eps)
    )
