"""RMSprop."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim import options
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class RMSprop(Optimizer):
    """Steps of the gradient over the root of its running square, or if `centered` over its running deviation."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_positive(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
            "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        state = {"step": counter(), "square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        lr, alpha, eps, momentum = rate(group), group["alpha"], group["eps"], options.momentum(group)
        state["step"].add_(1)
        names = ["square_avg"] + ["grad_avg"] * bool(group["centered"]) + ["momentum_buffer"] * (group["momentum"] > 0)
        for p, g, square, *more in pieces(param, grad, *(state[name] for name in names)):
            g = decayed(g, p, group, lr)
            square.mul_(alpha).add_(g * g, alpha=1 - alpha)
            if group["centered"]:
                mean = more.pop(0).mul_(alpha).add_(g, alpha=1 - alpha)
                square = square - mean * mean
            g = g / (square.sqrt() + eps)
            p.sub_(more[0].mul_(momentum).add_(g) if group["momentum"] > 0 else g, alpha=lr)
