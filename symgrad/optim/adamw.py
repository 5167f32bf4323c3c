"""Adam with a weight decay that bypasses the running means."""

from __future__ import annotations

from typing import Any

from symgrad.optim.adam import Adam
from symgrad.optim.optimizer import Parameters
from symgrad.optim.options import Group
from symgrad.tensor import Tensor


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def _loaded_group(self, saved: Group, group: Group) -> dict[str, Any]:
        return {**super()._loaded_group(saved, group), "decoupled_weight_decay": True}
