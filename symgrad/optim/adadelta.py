"""Adadelta."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class Adadelta(Optimizer):
    """Steps of the gradient, scaled by the root of the running square of past steps over that of past gradients."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_positive(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
            "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {"step": counter(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        lr, rho, eps = rate(group), group["rho"], group["eps"]
        state["step"].add_(1)
        for p, g, square, moved in pieces(param, grad, state["square_avg"], state["acc_delta"]):
            g = decayed(g, p, group, lr)
            square.mul_(rho).add_(g * g, alpha=1 - rho)
            delta = (moved + eps).sqrt() / (square + eps).sqrt() * g
            moved.mul_(rho).add_(delta * delta, alpha=1 - rho)
            p.sub_(delta, alpha=lr)
