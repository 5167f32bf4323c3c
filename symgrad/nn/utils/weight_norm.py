"""The older form of weight normalization, by a hook before forward: `weight_g` and `weight_v` are the parameters."""

from __future__ import annotations

from typing import Any

from symgrad.lines import warn
from symgrad.nn.module import Module
from symgrad.nn.parameter import Parameter
from symgrad.nn.utils.parametrizations import norm_except_dim, normalized


class WeightNorm:
    """The hook: it computes the weight before every forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The directions in `weight_v` with the lengths in `weight_g`."""
        return normalized(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def find_hook(module: Module, kind: type[Any], name: str) -> int | None:
    """The id of a hook of this kind for the tensor of this name."""
    for id, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return id  # type: ignore[no-any-return]
    return None


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths and the directions of a weight; `parametrizations.weight_norm` is the newer form."""
    words = "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`."
    warn(words, FutureWarning)
    if find_hook(module, WeightNorm, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook, weight = WeightNorm(name, dim), getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, hook.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight a plain parameter again."""
    id = find_hook(module, WeightNorm, name)
    if id is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(id).compute_weight(module).detach()
    for attribute in (name, f"{name}_g", f"{name}_v"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module
