"""Compiled functions as Python objects: methods of classes, and copying and pickling."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symgrad.compiler.inputs.signature import Signature
    from symgrad.compiler.options import Options


class FunctionWrapper:
    """Base class that lets a compiled function be a method, and be copied and pickled."""

    signature: Signature
    options: Options
    _attribute: str | None = None
    """The name of the attribute in the class whose method it is."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the bound method: each object has a compiled function of its own, for which `self` is not an argument."""
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
        own[self._attribute] = bound  # the object is a copy, and holds the method of the original
        return bound

    def __set__(self, instance: Any, value: Any) -> None:
        """Store a value that hides the method, as for any method. Being a data descriptor also lets __get__ run first and replace the
        method that a copied object holds."""
        instance.__dict__[self._attribute] = value

    def __delete__(self, instance: Any) -> None:
        if self._attribute not in instance.__dict__:
            raise AttributeError(self._attribute)
        del instance.__dict__[self._attribute]

    @property
    def __self__(self) -> Any:
        """The object that the method is bound to; None for a plain function."""
        return getattr(self.signature.function, "__self__", None)

    def __reduce__(self) -> Any:
        """Copy and pickle by function and options, or by qualified name; programs are compiled again."""
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
