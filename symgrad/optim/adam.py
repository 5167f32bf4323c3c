"""Adam."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim import options
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, betas, check_betas, check_kind, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class Adam(Optimizer):
    """Steps of the gradient's running mean over the root of its running square, both corrected for their start at zero."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_rate(lr)
        check_positive(eps=eps)
        check_betas(betas)
        check_positive(weight_decay=weight_decay)
        _check_tensors(lr, betas, bool(foreach) and not capturable)
        check_kind(fused, foreach, differentiable)
        betas = (_flat(betas[0]), _flat(betas[1]))
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        state = {"step": counter(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        return {**state, "max_exp_avg_sq": zeros_like(p)} if group["amsgrad"] else state

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr, eps = advance(state, group, param), rate(group), group["eps"]
        beta1, beta2 = betas(group)
        size, root = options.once(group, "sizes", step, lambda: (lr / (1 - beta1**step), (1 - beta2**step) ** 0.5))
        largest = (state["max_exp_avg_sq"],) if group["amsgrad"] else ()
        for p, g, mean, square, *most in pieces(param, grad, state["exp_avg"], state["exp_avg_sq"], *largest):
            g = decayed(g, p, group, lr)
            mean.mul_(beta1).add_(g, alpha=1 - beta1)
            square.mul_(beta2).add_(g * g, alpha=1 - beta2)
            if most:
                square = most[0].clamp_(min=square)
            p.sub_(mean / (square.sqrt() + eps * root), alpha=size * root)


def _flat(beta: Any) -> Any:
    return beta.squeeze() if isinstance(beta, Tensor) else beta


def _check_tensors(lr: Any, betas: tuple[Any, Any], many: bool) -> None:
    """Options may be tensors with one element, but not where many parameters are moved at once."""
    if isinstance(lr, Tensor) and many:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    if not all(isinstance(beta, float) for beta in betas) and not all(isinstance(beta, Tensor) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor) and many:
            raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
