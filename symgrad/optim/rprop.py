"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

from symgrad.creation import full_like, zeros_like
from symgrad.functional import where
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, check_rate, counter
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class Rprop(Optimizer):
    """Steps against the sign of the gradient, longer while it stays the same, shorter when it changes; for full batches."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        lr = float(group["lr"])
        return {"step": counter(), "prev": zeros_like(p), "step_size": full_like(p, complex(lr, lr) if p.is_complex() else lr)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        (shorter, longer), (smallest, largest) = group["etas"], group["step_sizes"]
        state["step"].add_(1)
        for p, g, before, size in pieces(param, grad, state["prev"], state["step_size"]):
            turned = (g * before).sign()
            size.copy_(where(turned > 0, size * longer, where(turned < 0, size * shorter, size)).clamp(smallest, largest))
            g = where(turned < 0, 0.0, g)
            p.sub_(g.sign() * size)
            before.copy_(g)
