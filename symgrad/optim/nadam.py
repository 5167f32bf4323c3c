"""Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, betas, check_betas, check_positive, check_rate, counter, decayed, number, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class NAdam(Optimizer):
    """Adam that looks one step of its momentum ahead; the momentum grows towards beta1 at the rate of `momentum_decay`."""

    _numbers = ("step", "mu_product")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_positive(eps=eps)
        check_betas(betas)
        check_positive(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {"step": counter(), "mu_product": counter(1.0), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr = advance(state, group, param), rate(group)
        (beta1, beta2), decay = betas(group), group["momentum_decay"]
        momentum, later = (beta1 * (1.0 - 0.5 * 0.96 ** (n * decay)) for n in (step, step + 1))
        product = state["mu_product"]
        product = number(product.mul_(momentum.to(product.dtype) if isinstance(momentum, Tensor) else momentum), group)
        of_gradient, of_mean = lr * (1.0 - momentum) / (1.0 - product), lr * later / (1.0 - product * later)
        root = (1 - beta2**step) ** 0.5
        for p, g, mean, square in pieces(param, grad, state["exp_avg"], state["exp_avg_sq"]):
            g = decayed(g, p, group, lr)
            mean.mul_(beta1).add_(g, alpha=1 - beta1)
            square.mul_(beta2).add_(g * g, alpha=1 - beta2)
            p.sub_((g * of_gradient).add_(mean, alpha=of_mean) / (square.sqrt() + group["eps"] * root), alpha=root)
