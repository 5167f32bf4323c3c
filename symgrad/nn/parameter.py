"""Parameter, a leaf tensor that a module owns and an optimizer moves; Buffer, a tensor that a module owns and nobody moves."""

from __future__ import annotations

from typing import Any

from symgrad.coercion import stands_for_tensor, tensor_of
from symgrad.creation import empty
from symgrad.escapes import PICKLE, before_escape
from symgrad.mode import local
from symgrad.ops.foreign import class_name, hint
from symgrad.tensor import Tensor, fill, wrap
from symgrad.views import count_together


class _Marked(type):
    """Tensors of other classes count as instances once they are marked: a Parameter made from a subclass of Tensor keeps its class."""

    mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (isinstance(instance, Tensor) and getattr(instance, cls.mark, False))


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that a Module registers when it is assigned as an attribute; requires grad unless told otherwise."""

    __slots__ = ()
    mark = "_is_param"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        source = empty(0) if data is None else data
        if not isinstance(source, Tensor):
            if not stands_for_tensor(source):
                raise TypeError(f"Parameter data must be a Tensor, got {class_name(data)}{hint(data)}")
            source = tensor_of(source).clone()  # a parameter is written to: not in memory of NumPy's
        if requires_grad and not (source.is_floating_point() or source.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if source.__class__ in (Tensor, Parameter):
            return count_together(fill(object.__new__(cls), source._array, requires_grad), source)
        marked = count_together(Tensor._make_subclass(source.__class__, source, requires_grad), source)
        marked._is_param = True  # type: ignore[attr-defined]
        return marked

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        traced = local.mode.capture is not None  # a program copies at every run
        copied = self.detach().clone() if traced else wrap(self._array.copy(order="K"))
        copy: Parameter = type(self)(copied, self._requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        before_escape(self, PICKLE)
        return type(self), (wrap(self._array), self._requires_grad)


class Buffer(Tensor, metaclass=_Marked):
    """Marks a tensor, so that a Module registers it as a buffer when it is assigned as an attribute."""

    mark = "_is_buffer"
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = empty(0) if data is None else data
        buffer: Any = source.detach().requires_grad_(source.requires_grad)
        buffer._is_buffer, buffer.persistent = True, persistent
        return buffer
