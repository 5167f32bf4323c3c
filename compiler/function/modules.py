"""Compiled modules: they have what the module has."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.function.retraced import Retraced
from symgrad.compiler.options import Options


def compiled(function: Callable[..., Any], options: Options) -> Compiled:
    """A compiled function, or a compiled module. These are classes of their own: a class with __getattr__ has slower attributes."""
    plain, module = (Retraced, RetracedModule) if options.retrace else (Compiled, CompiledModule)
    return (module if hasattr(function, "named_parameters") else plain)(function, options)


class _Module:
    """What people ask of modules: parameters(), train(), state_dict()."""

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
