"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from symgrad.creation import zeros_like
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, check_positive, check_rate, counter, decayed, number, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class ASGD(Optimizer):
    """Gradient descent with a falling step size; `ax` in the state is the average of the parameters from step t0 on."""

    _numbers = ("step", "eta", "mu")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_positive(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _begin(self, p: Any, group: Group) -> State:
        return {"step": counter(), "eta": counter(float(group["lr"])), "mu": counter(1.0), "ax": zeros_like(p)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr, lambd = advance(state, group, param), rate(group), group["lambd"]
        eta, mu = (number(state[name].clone(), group) for name in ("eta", "mu"))  # which are written to below
        for p, g, average in pieces(param, grad, state["ax"]):
            g = decayed(g, p, group, lr)
            p.mul_(1 - lambd * eta).sub_(g, alpha=eta)
            average.add_(p - average, alpha=mu)
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / _at_least_one(step - group["t0"]))


def _at_least_one(value: Any) -> Any:
    return value.clamp(min=1) if isinstance(value, Tensor) else max(1, value)
