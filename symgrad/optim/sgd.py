"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.optim.optimizer import Optimizer


class SGD(Optimizer):
    """p -= lr * v, where v is the gradient, or with momentum its running sum."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        for name, value in {"learning rate": lr, "momentum": momentum, "weight_decay": weight_decay}.items():
            if value < 0.0:
                raise ValueError(f"Invalid {name}{'' if name == 'learning rate' else ' value'}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            g = -p.grad if group["maximize"] else p.grad
            if group["weight_decay"]:
                g = g + p * group["weight_decay"]
            if group["momentum"]:
                g = self._with_momentum(p, g, group)
            p.sub_(g * group["lr"])

    def _with_momentum(self, p: Any, g: Any, group: dict[str, Any]) -> Any:
        state = self.state.setdefault(p, {})
        velocity = state.get("momentum_buffer")
        if velocity is None:
            velocity = state["momentum_buffer"] = g.clone().detach()
        else:
            velocity.mul_(group["momentum"]).add_(g * (1 - group["dampening"]))
        return g + velocity * group["momentum"] if group["nesterov"] else velocity
