"""The older form of spectral normalization, by a hook before forward: `weight_orig` is the parameter."""

from __future__ import annotations

from typing import Any

from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.nn.utils.parametrizations import as_matrix, divided, first_vectors, improve, outputs_of
from symgrad.nn.utils.weight_norm import find_hook


class SpectralNorm:
    """The hook: it computes the weight before every forward."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The original weight over its largest singular value."""
        weight, u, v = (getattr(module, f"{self.name}_{suffix}") for suffix in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            improve(matrix.mH, v, u, self.n_power_iterations, self.eps)  # v first, as in PyTorch
        return divided(weight, matrix, u, v)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value; `parametrizations.spectral_norm` is the newer form."""
    if find_hook(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, outputs_of(module) if dim is None else dim, eps)
    weight = getattr(module, name)
    u, v = first_vectors(as_matrix(weight.detach(), hook.dim), eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())  # until the first forward
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a plain parameter again, divided as it is now."""
    id = find_hook(module, SpectralNorm, name)
    if id is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(id).compute_weight(module, do_power_iteration=False).detach()
    for attribute in (name, f"{name}_orig", f"{name}_u", f"{name}_v"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module
