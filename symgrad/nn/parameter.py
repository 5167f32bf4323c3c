"""Parameter: a leaf tensor that a module owns and an optimizer moves."""

from __future__ import annotations

from typing import Any

from symgrad.creation import empty
from symgrad.dtypes import of
from symgrad.tensor import Tensor, wrap


class Parameter(Tensor):
    """A tensor that a Module registers when it is assigned as an attribute; requires grad unless told otherwise."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        source = empty(0) if data is None else data
        if not isinstance(source, Tensor):
            raise TypeError(f"Parameter data must be a Tensor, got {type(data).__name__}")
        if requires_grad and not (of(source._array.dtype).is_floating_point or of(source._array.dtype).is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        self = object.__new__(cls)
        self._array = source._array
        self._base = None
        self._cell = []
        self._node = None
        self._requires_grad = requires_grad
        return self

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copy = type(self)(wrap(self._array.copy()), self._requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (wrap(self._array), self._requires_grad)
