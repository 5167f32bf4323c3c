"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim import options
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, check_kind, check_positive, check_rate, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * v, where v is the gradient, or with momentum its running sum."""

    _as_reals = False

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_positive(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_kind(fused, foreach, differentiable)
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {} if group["momentum"] == 0 else {"momentum_buffer": None}  # which starts with the first gradient

    def _init_equal_scalars(self, p: Any, group: Group) -> State:
        if group["momentum"] == 0 or group["dampening"] != 0:  # the first gradient is not dampened
            return self._begin(p, group)
        return {"momentum_buffer": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        if group["momentum"] != 0:
            return self._roll(param, grad, state, group)
        lr = rate(group)
        if group["weight_decay"].__class__ in (int, float) and group["weight_decay"] == 0:
            param.sub_(grad, alpha=lr)
            return None
        for p, g in pieces(param, grad):
            p.sub_(decayed(g, p, group, lr), alpha=lr)
        return None

    def _roll(self, param: Any, grad: Any, state: State, group: Group) -> None:
        lr = rate(group)
        momentum, keep = options.momentum(group), 1 - group["dampening"]
        first = state.get("momentum_buffer") is None
        if first:
            state["momentum_buffer"] = decayed(grad, param, group, lr).clone()
        for p, g, v in pieces(param, grad, state["momentum_buffer"]):
            g = decayed(g, p, group, lr)
            if not first:
                v.mul_(momentum).add_(g, alpha=keep)
            p.sub_(g + v * momentum if group["nesterov"] else v, alpha=lr)
