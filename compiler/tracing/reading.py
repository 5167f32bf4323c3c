"""What Python code reads besides its arguments: closure cells and globals, and what it finds there by name.

A function, and the functions that it calls by name, are looked through for the names that stand in their code. Of objects, classes and
modules of the user's that such names stand for, or that are arguments, the attributes with names in the code are looked at; of lists and
dictionaries, what is in them. What is found in other ways (getattr, an index that is computed into another list) is not.
"""

from __future__ import annotations

import dis
import enum
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from symgrad.compiler.tracing.watch import MISSING, VALUES, Contents, Name, now
from symgrad.tensor import Tensor

_PASSED_OVER = (types.ModuleType, type, types.BuiltinFunctionType)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_NAMESPACES = (("types", "SimpleNamespace"), ("argparse", "Namespace"))
_MOST = 200
"""Functions, and objects, that are looked through."""
_contained = operator.attrgetter("cell_contents")  # no function of ours: it is read before every run
_LONGEST = 64
"""Of longer lists and dictionaries only the identity counts: those are data."""


def names(function: Any, given: Iterable[tuple[str, Any]] = ()) -> list[Name | Contents]:
    """What a function, and the user's functions that it calls by name, read; of a method, the attributes of its object, too, and those of
    `given` objects."""
    return _Search().run(function, given)


class _Search:
    def __init__(self) -> None:
        self.found: dict[Any, Name] = {}
        self.seen: set[int] = set()
        self.waiting: list[Any] = []
        self.read: set[str] = set()
        """Names of attributes in the code."""
        self.objects: dict[int, tuple[str, Any]] = {}
        self.looked: set[tuple[int, str]] = set()

    def run(self, function: Any, given: Iterable[tuple[str, Any]]) -> list[Name | Contents]:
        self.waiting += _functions(function)
        for key, title, read in _attributes(function):
            self.found[key] = Name(title, read, attribute=True)
        owner = function.__self__ if isinstance(function, types.MethodType) else function
        for title, x in (*given, (type(owner).__name__, owner)):
            self._object(title, x)
        while self.waiting or self._look():
            self._function()
        contents = [c for name in self.found.values() if self._is_read(name) for c in _contents(name.title, name.value)]
        return [*self.found.values(), *contents]

    def _function(self) -> None:
        if not self.waiting:
            return
        f = self.waiting.pop()
        if id(f.__code__) in self.seen or len(self.seen) >= _MOST:
            return
        self.seen.add(id(f.__code__))
        self.read.update(_named(f.__code__, ("LOAD_ATTR", "LOAD_METHOD")))
        for key, title, read in _reads(f):
            self._value(key, title, read)

    def _value(self, key: Any, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        value = now(read)
        self._object(title, value)
        if key in self.found or value is MISSING or isinstance(value, _PASSED_OVER) or _is_ours(value):
            return
        if attribute and isinstance(value, _FUNCTIONS):
            self.waiting += _functions(value)
            return
        self.found[key] = Name(title, read, attribute)
        self.waiting += _functions(value)

    def _object(self, title: str, x: Any) -> None:
        if _is_module(x):
            for module in x.modules():
                if _is_the_users(type(module).__module__):
                    self.objects.setdefault(id(module), (type(module).__name__, module))
        elif len(self.objects) < _MOST and _is_looked_into(x):
            self.objects.setdefault(id(x), (title.rpartition(" ")[2], x))

    def _look(self) -> bool:
        """Look at attributes that the code names; whether there is more to do."""
        before = len(self.looked)
        for title, x in list(self.objects.values()):
            for name in self.read:
                if (id(x), name) not in self.looked:
                    self.looked.add((id(x), name))
                    self._attribute(title, x, name)
        return bool(self.waiting) or len(self.looked) > before

    def _attribute(self, title: str, x: Any, name: str) -> None:
        own = isinstance(x, (type, types.ModuleType)) or name in getattr(x, "__dict__", ()) or name in _slots(type(x))
        if own and _is_module(x) and type(x.__dict__[name]) in VALUES:
            return  # part of its makeup
        if own:
            self._value((id(x), name), f"{title}.{name}", functools.partial(getattr, x, name, MISSING), attribute=True)
            return
        there = getattr(type(x), name, MISSING)  # a method, or what a class has for all its objects
        if isinstance(there, property):
            self.waiting += _functions(there.fget)
        elif isinstance(there, types.FunctionType):
            self.waiting += _functions(there)
        elif type(there) in VALUES or isinstance(there, (Tensor, list, dict)):
            self._value((id(x), name), f"{title}.{name}", functools.partial(getattr, x, name, MISSING), attribute=True)

    def _is_read(self, name: Name) -> bool:
        return not name.attribute or name.title.rpartition(".")[2] in self.read


def _is_module(x: Any) -> bool:
    return not isinstance(x, type) and hasattr(x, "named_parameters")


def _is_looked_into(x: Any) -> bool:
    """An object, a class or a module of the user's own."""
    if isinstance(x, (*VALUES, *_FUNCTIONS, Tensor, list, dict, tuple, set, enum.Enum)) or hasattr(x, "__wrapped__"):
        return False
    if isinstance(x, types.ModuleType):
        return _is_the_users(x.__name__)
    cls = x if isinstance(x, type) else type(x)
    return (cls.__module__, cls.__name__) in _NAMESPACES or _is_the_users(str(cls.__module__))


@functools.cache
def _is_the_users(module: str) -> bool:
    """Not of Python, nor installed: libraries have no settings that a function would read by the way."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] in (*sys.stdlib_module_names, "symgrad") and module != "__main__":
        return False
    return module == "__main__" or file is None or "-packages" not in file


def _contents(title: str, value: Any, depth: int = 0) -> Iterator[Contents]:
    if type(value) not in (list, dict) or len(value) > _LONGEST:
        return
    yield Contents(title, value)
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if depth < 3:
            yield from _contents(f"{title}[{key!r}]", part, depth + 1)


def _attributes(function: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """Of the object whose method it is, or which is called like a function; a module is looked at as a whole."""
    owner = function.__self__ if isinstance(function, types.MethodType) else function
    if isinstance(owner, (types.FunctionType, type)) or hasattr(owner, "__wrapped__"):
        return
    if hasattr(owner, "named_parameters"):
        yield id(owner), "self", lambda: owner
    elif not _is_library(type(owner)):
        yield from _own(owner)


def _own(owner: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, value in getattr(owner, "__dict__", {}).items():
        if not isinstance(value, _PASSED_OVER):
            yield (id(owner), name), f"{type(owner).__name__}.{name}", functools.partial(owner.__dict__.get, name, MISSING)


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        given = base.__dict__.get("__slots__", ())
        found += [given] if isinstance(given, str) else given
    return found


def _is_ours(x: Any) -> bool:
    """A function of this package, or of NumPy and the like, which nobody replaces."""
    return isinstance(x, (types.FunctionType, types.MethodType)) and _is_library(x)


def _is_library(x: Any) -> bool:
    return str(x.__module__).partition(".")[0] in ("symgrad", "numpy", "jax", "functools", "builtins")


def _functions(x: Any) -> Iterator[Any]:
    """The Python functions behind something that is called."""
    x = getattr(x, "__wrapped__", x) if not isinstance(x, types.FunctionType) else x
    if isinstance(x, types.MethodType):
        x = x.__func__
    if isinstance(x, types.FunctionType) and not _is_ours(x):
        yield x
        if hasattr(x, "__wrapped__"):
            yield from _functions(x.__wrapped__)
    elif _is_module(x):
        for module in x.modules():
            forward = getattr(type(module).forward, "__wrapped__", type(module).forward)
            if isinstance(forward, types.FunctionType) and not _is_ours(forward):
                yield forward


def _reads(f: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
        yield id(cell), f"closure cell {name}", functools.partial(_contained, cell)
    space = f.__globals__
    for name in _named(f.__code__, ("LOAD_GLOBAL", "LOAD_NAME")):
        if name in space:
            yield (id(space), name), f"global {name}", functools.partial(space.get, name, MISSING)


def _named(code: Any, instructions: tuple[str, ...]) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in instructions:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant, instructions)
