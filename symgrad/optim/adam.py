"""Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from symgrad.from_data import tensor
from symgrad.optim.optimizer import Optimizer


class Adam(Optimizer):
    """Steps of the gradient's running mean over the root of its running square, both corrected for their start at zero."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is not None:
                self._move(p, -p.grad if group["maximize"] else p.grad, group)

    def _move(self, p: Any, g: Any, group: dict[str, Any]) -> None:
        state = self.state.setdefault(p, {})
        if not state:
            state.update(step=tensor(0.0), exp_avg=p.new_zeros(p.shape), exp_avg_sq=p.new_zeros(p.shape))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = p.new_zeros(p.shape)
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        beta1, beta2 = group["betas"]
        state["step"] += 1
        step, mean, square = state["step"].item(), state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(g, 1 - beta1)
        square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(state["max_exp_avg_sq"].maximum(square))
        scale = square.sqrt().div_((1 - beta2**step) ** 0.5).add_(group["eps"])
        p.addcdiv_(mean, scale, value=-group["lr"] / (1 - beta1**step))
