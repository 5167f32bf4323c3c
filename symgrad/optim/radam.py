"""Adam that starts as momentum alone."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.functional import where
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, betas, check_betas, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class RAdam(Optimizer):
    """Adam whose division by the root of the running square begins when that has seen enough, and is rectified for how little it saw."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        check_positive(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr = advance(state, group, param), rate(group)
        (beta1, beta2), eps = betas(group), group["eps"]
        size, seen = lr / (1 - beta1**step), 1 - beta2**step
        for p, g, mean, square in pieces(param, grad, state["exp_avg"], state["exp_avg_sq"]):
            g = decayed(g, p, group, lr)
            mean.mul_(beta1).add_(g, alpha=1 - beta1)
            square.mul_(beta2).add_(g * g, alpha=1 - beta2)
            p.sub_(mean * _rectified(square, step, seen, beta2, eps), alpha=size)


def _rectified(square: Any, step: Any, seen: Any, beta2: float, eps: float) -> Any:
    """What the step is multiplied with: one over the root of the square, once its variance is known to be finite."""
    limit = 2 / (1 - beta2) - 1
    rho = limit - 2 * step * beta2**step / seen
    if not isinstance(rho, Tensor) and rho <= 5.0:
        return 1.0
    rectifier = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
    if not isinstance(rho, Tensor):
        return (rectifier * seen) ** 0.5 / (square.sqrt() + eps)
    known = rho > 5.0
    return where(known, where(known, rectifier * seen, 1.0) ** 0.5 / (square.sqrt() + eps), 1.0)
