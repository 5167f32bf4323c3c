"""Adagrad."""

from __future__ import annotations

from typing import Any

from symgrad.creation import full_like
from symgrad.optim.optimizer import Optimizer, Parameters
from symgrad.optim.options import Group, State, advance, check_kind, check_positive, check_rate, counter, decayed, rate
from symgrad.optim.pieces import pieces
from symgrad.tensor import Tensor


class Adagrad(Optimizer):
    """Steps of the gradient over the root of the sum of all its squares."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_positive(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps)
        check_kind(fused, foreach, differentiable)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._begin(p, group)

    def _begin(self, p: Any, group: Group) -> State:
        start = self.defaults["initial_accumulator_value"]
        return {"step": counter(), "sum": full_like(p, complex(start, start) if p.is_complex() else start)}

    def _move(self, param: Any, grad: Any, state: State, group: Group) -> None:
        step, lr = advance(state, group, param), rate(group)
        size = lr / (1 + (step - 1) * group["lr_decay"])
        for p, g, total in pieces(param, grad, state["sum"]):
            g = decayed(g, p, group, lr)
            total.add_(g * g)
            p.sub_(g / (total.sqrt() + group["eps"]), alpha=size)
