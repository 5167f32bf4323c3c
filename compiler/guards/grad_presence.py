"""Guard of the presence of a gradient that a traced function reads."""

from __future__ import annotations

from symgrad.device_tensor import has_grad
from symgrad.tensor import Tensor


class GradPresenceGuard:
    """Guard of the `.grad` of a captured tensor: True when called if there is a gradient, or with `same`, if it is still the same one,
    which the program contains."""

    def __init__(self, tensor: Tensor, name: str | None, same: bool) -> None:
        self.tensor, self.name = tensor, tensor.name or name or "a tensor that the function captures"
        self.grad = tensor._grad if same else None

    def __call__(self) -> bool:
        return has_grad(self.tensor) if self.grad is None else self.tensor._grad is self.grad

    def describe(self, before: bool, now: bool) -> str:
        changed = "a gradient -> none" if not has_grad(self.tensor) else "another gradient" if before else "none -> a gradient"
        return f".grad of {self.name}: {changed}"
