"""Compiled modules: they are modules, and have what the module has."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.function.retrace import Retraced
from symgrad.compiler.inputs.pytree import has_attribute
from symgrad.compiler.options import Options


def compiled(function: Callable[..., Any], options: Options) -> Compiled:
    """A compiled function, or a compiled module. These are classes of their own: a class with __getattr__ has slower attributes."""
    plain, module = (Retraced, RetracedModule) if options.retrace else (Compiled, CompiledModule)
    return (module if has_attribute(function, "named_parameters") else plain)(function, options)


class _Module:
    """What people ask of modules: parameters(), train(), state_dict()."""

    @property
    def __class__(self) -> Any:
        """What it is for everybody else: other modules have it as a part of them, with its parameters."""
        return self.__dict__["signature"].function.__class__

    @__class__.setter
    def __class__(self, cls: type) -> None:
        self.__dict__["signature"].function.__class__ = cls

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()  # Python would look for it in __class__

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
        """Who has an attribute: the module, unless compiled functions have it. The last that these get is `__wrapped__`."""
        own = self.__dict__
        mine = name in own or "__wrapped__" not in own or name.startswith("__") or hasattr(type(self), name)
        return self if mine else own["signature"].function

    def __getattr__(self, name: str) -> Any:
        signature = self.__dict__.get("signature")
        if signature is None or name.startswith("__"):  # while it is copied it has nothing yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        module = signature.function
        found = getattr(module, name)
        if not isinstance(found, types.MethodType) or found.__self__ is not module:
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is module else result  # net.eval() and net.to() give the net

        return method


class CompiledModule(_Module, Compiled):
    """A compiled function that is a module, too."""


class RetracedModule(_Module, Retraced):
    """The same for one that is traced at every call."""
