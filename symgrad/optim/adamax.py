"""Adamax."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, betas, check_betas, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class Adamax(Optimizer):
    """Steps of the gradient's running mean over its largest entry so far, which fades."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_positive(eps=eps)
        check_betas(betas)
        check_positive(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr, (beta1, beta2) = advance(state, group, param), rate(group), betas(group)
        size = lr / (1 - beta1**step)
        for p, g, mean, largest in pieces(param, grad, state["exp_avg"], state["exp_inf"]):
            g = decayed(g, p, group, lr)
            mean.mul_(beta1).add_(g, alpha=1 - beta1)
            largest.mul_(beta2).clamp_(min=g.abs() + group["eps"])
            p.sub_(mean / largest, alpha=size)
