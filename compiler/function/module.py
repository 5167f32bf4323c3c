"""Compiled modules: compiled functions that are modules too, with all attributes of the original module."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.function.retrace import Retraced
from symgrad.compiler.options import Options
from symgrad.pytree import is_module


def compiled(function: Callable[..., Any], options: Options) -> Compiled:
    """Return a compiled function or a compiled module. Modules have classes of their own, because __getattr__ makes attribute access
    slower."""
    plain, module = (Retraced, RetracedModule) if options.retrace else (Compiled, CompiledModule)
    return (module if is_module(function) else plain)(function, options)


class _Module:
    """Mixin that forwards the module interface, such as parameters(), train() and state_dict(), to the original module."""

    @property
    def __class__(self) -> Any:
        """The class of the original module, so that other modules register a compiled module as a submodule with its parameters."""
        return self.__dict__["signature"].function.__class__

    @__class__.setter
    def __class__(self, cls: type) -> None:
        self.__dict__["signature"].function.__class__ = cls

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()  # else Python looks it up in __class__

    def __setattr__(self, name: str, value: Any) -> None:
        owner = self._owner(name)
        if owner is self:
            object.__setattr__(self, name, value)
        else:
            setattr(owner, name, value)

    def __delattr__(self, name: str) -> None:
        owner = self._owner(name)
        if owner is self:
            object.__delattr__(self, name)
        else:
            delattr(owner, name)

    def _owner(self, name: str) -> Any:
        """Return the object that holds an attribute: the module, unless it belongs to the compiled function. `__wrapped__` is the last
        attribute that __init__ sets on the latter."""
        own = self.__dict__
        mine = name in own or "__wrapped__" not in own or name.startswith("__") or hasattr(type(self), name)
        return self if mine else own["signature"].function

    def __getattr__(self, name: str) -> Any:
        signature = self.__dict__.get("signature")
        if signature is None or name.startswith("__"):  # a copy in the making has no attributes yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        module = signature.function
        found = getattr(module, name)
        if not isinstance(found, types.MethodType) or found.__self__ is not module:
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is module else result  # net.eval() and net.to() return the net

        return method


class CompiledModule(_Module, Compiled):
    """A compiled module."""


class RetracedModule(_Module, Retraced):
    """A compiled module that is traced at every call."""
