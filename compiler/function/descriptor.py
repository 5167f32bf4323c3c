"""What a compiled function is besides something that is called: a method of a class, and something that can be copied."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symgrad.compiler.inputs.signature import Signature
    from symgrad.compiler.options import Options


class FunctionWrapper:
    """What Python asks of functions."""

    signature: Signature
    options: Options
    _attribute: str | None = None
    """Its name in the class that it is a method of."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As an attribute of a class it is a method; each object has one of its own, for which `self` is no argument."""
        function, own = self.signature.function, getattr(instance, "__dict__", None)
        if instance is None or not isinstance(function, types.FunctionType):
            return self
        if self._attribute is None or not isinstance(own, dict):
            return types.MethodType(self, instance)  # type: ignore[arg-type]
        known = own.get(self._attribute)
        if known is not None and (not isinstance(known, FunctionWrapper) or known.__self__ is instance):
            return known
        bound = type(self)(types.MethodType(function, instance), self.options)  # type: ignore[call-arg]
        if known is None:
            return own.setdefault(self._attribute, bound)
        own[self._attribute] = bound  # the object is a copy, with the method of the one that it was copied from
        return bound

    def __set__(self, instance: Any, value: Any) -> None:
        """What is set on an object hides the method, as with any other. Without this, __get__ would not see what copies bring along."""
        instance.__dict__[self._attribute] = value

    def __delete__(self, instance: Any) -> None:
        if self._attribute not in instance.__dict__:
            raise AttributeError(self._attribute)
        del instance.__dict__[self._attribute]

    @property
    def __self__(self) -> Any:
        """The object whose method it is."""
        return getattr(self.signature.function, "__self__", None)

    def __reduce__(self) -> Any:
        """Copied and pickled by its function and options, or by its name; programs are made anew."""
        function, name = self.signature.function, str(getattr(self, "__qualname__", ""))
        if _named(sys.modules.get(getattr(self, "__module__", "")), name) is self:
            return name
        if isinstance(function, types.MethodType) and isinstance(_named(type(function.__self__), function.__name__), FunctionWrapper):
            return getattr, (function.__self__, function.__name__)
        return type(self), (function, self.options)


def _named(place: Any, path: str) -> Any:
    for name in path.split("."):
        place = getattr(place, name, None)
    return place
