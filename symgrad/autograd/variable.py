"""Variable: what wrapped a tensor before tensors recorded themselves. Kept for old code."""

from __future__ import annotations

from typing import Any

from symgrad.errors import describe
from symgrad.lines import warn
from symgrad.tensor import Tensor
from symgrad.views import detach


class _IsTensor(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_IsTensor):
    """`Variable(data, requires_grad=True)` is a tensor that shares `data`'s memory; every tensor is an instance of it."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if volatile is not None:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {describe(data)}")
        result = detach(data)
        if requires_grad:
            result.requires_grad_()
        return result
