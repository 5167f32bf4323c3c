"""Find the Python state that a function reads besides its arguments: closure cells, globals, and the attributes that it reads by name.

The search goes through the code of the function and of the functions that it calls by name, and collects the names there. For the user's
objects, classes and modules that such a name is bound to, or that are arguments, it guards the attributes that the code names; for lists,
dictionaries, sets and similar containers, and for small arrays, their contents. Default arguments and the arguments of a
`functools.partial` count as names, and so do context variables and the environment variables that the code names. State that is reached in
other ways (an attribute whose name is computed, files) is not found.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import inspect
import operator
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from symgrad.compiler.guards.array_uses import is_only_operand
from symgrad.compiler.guards.code_names import (
    FUNCTIONS,
    attribute_names,
    compares_identity,
    default_arguments,
    environment_names,
    global_names,
    imported_modules,
    is_library,
    is_library_function,
    is_user_code,
    reread_attributes,
    slots_of,
    special_methods,
    text_names,
    unwrapped,
    used_names,
    user_functions,
)
from symgrad.compiler.guards.compare import (
    COMPARED_BY_VALUE,
    MISSING,
    SMALL_CONTAINERS,
    Content,
    StateGuard,
    content_of,
    describe_change,
    is_same_content,
    is_unchanged,
)
from symgrad.compiler.guards.containers import (
    BUFFERS,
    CONTAINERS,
    CONTENTS,
    MAX_DEPTH,
    ArrayGuard,
    BufferGuard,
    ContainerGuard,
    LargeArrayGuard,
    container_guards,
    is_small,
    items_of,
)
from symgrad.compiler.guards.module import ModuleGuard
from symgrad.pytree import has_attribute, is_module
from symgrad.tensor import Tensor, added_attributes

_NAMESPACES = (("types", "SimpleNamespace"), ("argparse", "Namespace"), ("_thread", "_local"))
_MAX_FUNCTIONS = 200
"""At most this many functions, and as many objects, are searched."""
_contained = operator.attrgetter("cell_contents")  # runs before every call, and is faster than a Python function


def read_or_missing(read: Callable[[], Any]) -> Any:
    """The result of `read()`, the object bound to a name; MISSING for an empty closure cell."""
    try:
        return read()
    except ValueError:  # a closure cell is empty
        return MISSING


class NameGuard(StateGuard):
    """Guard of a closure cell, a global or an attribute: True when called if it still holds the same object, or an equal plain value or
    small container."""

    def __init__(self, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        self.title, self.read, self.attribute = title, read, attribute
        self.value = read_or_missing(read)
        self.plain = type(self.value) in COMPARED_BY_VALUE
        self.content = content_of(self.value) if type(self.value) in SMALL_CONTAINERS else None
        self.codes: Mapping[int, Any] = {}
        """By id, the code objects that may use the name."""
        self.module_guard = ModuleGuard(self.value) if is_module(self.value) else None

    def __call__(self) -> bool:
        now = read_or_missing(self.read)
        if now is self.value or is_unchanged(now, self.value):
            return True
        return type(self.content) is Content and is_same_content(content_of(now), self.content)

    def describe(self, *_: Any) -> str:
        return f"{self.title}: {describe_change(self.value, read_or_missing(self.read))}"

    def current_values(self) -> list[Any]:
        """The object that the name is bound to now, as a list."""
        return [read_or_missing(self.read)]

    def warn(self) -> None:
        """Warn that the traced code itself rebound the name, if results may depend on it: an object in an attribute may be read before."""
        name = self.title.rpartition(".")[2]
        if not self.attribute or self.plain or any(name in reread_attributes(code) for code in self.codes.values()):
            super().warn()


def find_state_guards(function: Any, given: Iterable[tuple[str, Any]] = ()) -> list[StateGuard]:
    """Guards of the state that `function`, and the user's functions that it calls by name, read. This includes the attributes of the object
    if `function` is a method, and those of the `given` (title, object) pairs."""
    return _Search().run(function, given)


def named_arrays(guards: Iterable[StateGuard]) -> frozenset[int]:
    """The ids of the NumPy arrays among the guarded state."""
    return frozenset(id(guard.value) for guard in guards if isinstance(guard, ArrayGuard))


def compares_argument_identity(function: Any) -> bool:
    """True if `function`, or a user's function that it calls by name, may observe which of its arguments are the same object."""
    search = _Search()
    search.run(function, ())
    return search.compares_identity


class _Search:
    def __init__(self) -> None:
        self.compares_identity = False
        self.found: dict[Any, NameGuard] = {}
        self.keys: set[Any] = set()
        self.seen: dict[int, Any] = {}
        """By id, the code objects that were searched."""
        self.waiting: list[Any] = []
        self.read: set[str] = set()
        """Names of attributes that the code reads."""
        self.text: set[str] = set()
        """Names that the code has as strings, for getattr() and hasattr()."""
        self.used: set[str] = set()
        """Names whose objects the code reads; a name that it only writes into, as by `log.append(...)`, is not among them."""
        self.objects: dict[int, tuple[str, Any]] = {}
        self.looked: set[tuple[int, str]] = set()

    def run(self, function: Any, given: Iterable[tuple[str, Any]]) -> list[StateGuard]:
        self.waiting += user_functions(function)
        for key, title, read in _attributes(function):
            self.found[key] = NameGuard(title, read, attribute=True)
        owner = function.__self__ if isinstance(function, types.MethodType) else function
        for title, x in (*given, (getattr(owner, "__name__", owner.__class__.__name__), owner)):
            self._into(title, x)
        for key, title, read in _partial_arguments(function) if isinstance(function, functools.partial) else ():
            self._value(key, title, read)
        while self.waiting or self._look():
            self._function()
        for name in self.found.values():
            name.codes = self.seen
        contents = [c for name in self.found.values() if self._is_read(name) for c in self._contents(name)]
        return [*self.found.values(), *contents]

    def _contents(self, name: NameGuard) -> Iterator[StateGuard]:
        if not isinstance(name.value, CONTENTS):
            return
        used = name.title.endswith((" of a partial", ".__self__")) or re.split(r"[ .]", name.title)[-1] in self.used
        for found in container_guards(name.title, name.value):
            if isinstance(found, (LargeArrayGuard, BufferGuard)) and not used:
                continue
            if isinstance(found, ArrayGuard):
                found.is_only_operand = functools.partial(self._is_only_operand, name.title.partition("[")[0])
            if isinstance(found, ContainerGuard) and not used:
                found.guarded, found.decides = False, False
            yield found

    def _is_only_operand(self, title: str, sites: Any) -> bool | None:
        """True if the code uses an array by this name, or in a container of this name, as an operand only; None if that is not known."""
        name = re.split(r"[ .]", title)[-1]
        return None if name in self.text or title.endswith(" of a partial") else is_only_operand(name, self.seen.values(), sites)

    def _function(self) -> None:
        if not self.waiting:
            return
        f = self.waiting.pop()
        if id(f.__code__) in self.seen or len(self.seen) >= _MAX_FUNCTIONS:
            return
        self.seen[id(f.__code__)] = f.__code__
        self.compares_identity = self.compares_identity or compares_identity(f.__code__)
        self.read.update(attribute_names(f.__code__))
        self.text.update(text_names(f.__code__))
        self.used.update(used_names(f.__code__))
        for key, title, read in _reads(f):
            self._value(key, title, read)
        for title in imported_modules(f):
            self._into(title, sys.modules[title])

    def _value(self, key: Any, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        if key in self.keys:
            return
        self.keys.add(key)
        value = read_or_missing(read)
        self._into(title, value)
        if key in self.found or value is MISSING or _is_conventional(title, value):
            return
        self.found[key] = NameGuard(title, read, attribute)
        self.waiting += user_functions(value)

    def _missing(self, title: str, x: Any, name: str) -> None:
        """Guard an attribute that `x` does not have in its own `__dict__`, and may get later."""
        own = getattr(x, "__dict__", None)
        if own is not None and name not in own and ("missing", id(x), name) not in self.found:
            self.found["missing", id(x), name] = NameGuard(f"{title}.{name}", functools.partial(own.get, name, MISSING), attribute=True)

    def _into(self, title: str, x: Any, depth: int = 0) -> None:
        """Search an object; also the elements of a container, the object of a bound method, and the arguments of a partial."""
        self._object(title, x)
        if isinstance(x, (list, tuple, frozenset, *CONTAINERS)) and not isinstance(x, BUFFERS) and is_small(x) and depth < MAX_DEPTH:
            for key, part in items_of(x):
                self._into(f"{title}[{key!r}]", part, depth + 1)
            return
        if depth:
            self.waiting += user_functions(x)
        if isinstance(x, contextvars.ContextVar):
            self._value((id(x), "get"), f"{title}.get", functools.partial(_context_value, x))
        owner = getattr(x, "__self__", None) if isinstance(x, FUNCTIONS) else None
        if owner is not None and not isinstance(owner, types.ModuleType):
            self._value((id(x), "__self__"), f"{title}.__self__", functools.partial(getattr, x, "__self__"))
        if isinstance(x, (operator.attrgetter, operator.methodcaller)):
            self.read.update(_names_of_getter(x))
        for key, label, read in _partial_arguments(x) if isinstance(x, functools.partial) else ():
            self._value(key, label, read)

    def _object(self, title: str, x: Any) -> None:
        if is_module(x):
            for module in x.modules():
                if is_user_code(type(module).__module__):
                    self.objects.setdefault(id(module), (module.__class__.__name__, module))
                    self._method(type(module), "forward")
            for name, t in x.named_parameters():
                if added_attributes(t):
                    self._object(f"{title}.{name}", t)
        elif isinstance(x, Tensor):
            self.objects.setdefault(id(x), (re.sub(r"^(global|closure cell) ", "", title), x))
        elif len(self.objects) < _MAX_FUNCTIONS and id(x) not in self.objects and _is_searched(x):
            self.objects[id(x)] = re.sub(r"^(global|closure cell|default argument) ", "", title), x
            cls = x if isinstance(x, type) else type(x)
            for name in special_methods(cls, made=isinstance(x, type)) if not has_attribute(x, "__wrapped__") else ():
                self._methods(cls, name)

    def _look(self) -> bool:
        """Guard the attributes of known objects that the code names. Return True if the search must go on."""
        before = len(self.looked)
        for title, x in list(self.objects.values()):
            for name in self.read:
                if (id(x), name) not in self.looked:
                    self.looked.add((id(x), name))
                    self._attribute(title, x, name)
        return bool(self.waiting) or len(self.looked) > before

    def _attribute(self, title: str, x: Any, name: str) -> None:
        own = getattr(x, "__dict__", {})
        if isinstance(x, Tensor) and name not in own:
            if name in self.text and not hasattr(x, name):
                self._missing(title, x, name)
        elif isinstance(x, threading.local):  # has another dictionary in each thread
            self._value((id(x), name), f"{title}.{name}", functools.partial(getattr, x, name, MISSING), attribute=True)
        elif name in own:
            if not (is_module(x) and type(own[name]) in COMPARED_BY_VALUE):  # which its ModuleGuard compares
                self._value((id(x), name), f"{title}.{name}", functools.partial(own.get, name, MISSING), attribute=True)
        elif isinstance(x, (type, types.ModuleType)) or name in slots_of(type(x)):
            self._value((id(x), name), f"{title}.{name}", functools.partial(getattr, x, name, MISSING), attribute=True)
        else:
            self._of_class(title, x, name)

    def _of_class(self, title: str, x: Any, name: str) -> None:
        """Guard a method or class attribute of `x`, and that `x` gets no attribute of its own by that name."""
        there = inspect.getattr_static(type(x), name, MISSING)
        if isinstance(there, (types.FunctionType, staticmethod, classmethod, property, functools.cached_property)):
            self._methods(type(x), name)
            self.found.setdefault(("class", id(x)), NameGuard(f"{title}.__class__", functools.partial(type, x), attribute=True))
        elif there is not MISSING and not hasattr(type(there), "__get__"):
            self._value((id(x), name), f"{title}.{name}", functools.partial(getattr, x, name, MISSING), attribute=True)
        elif there is not MISSING:
            self._methods(type(there), "__get__")
        elif hasattr(type(x), "__getattr__"):
            self._value((id(x), name), f"{title}.{name}", functools.partial(_made_up, x, name), attribute=True)
        is_the_users = there is not MISSING and is_user_code(str(type(x).__module__)) and not isinstance(there, functools.cached_property)
        if is_the_users or (there is MISSING and name in self.text):
            self._missing(title, x, name)

    def _methods(self, cls: type, name: str) -> None:
        """Guard and search a method of a class, and the methods of its bases that `super()` may call."""
        for base in cls.__mro__:
            if name in base.__dict__:
                self._method(base, name)
                self.waiting += user_functions(unwrapped(base.__dict__[name]))

    def _method(self, cls: type, name: str) -> None:
        """Guard a user's method in the class that defines it, where it may be replaced."""
        base = next((base for base in cls.__mro__ if name in base.__dict__), None)
        if base is not None and is_user_code(str(base.__module__)):
            read: Any = base.__dict__.get
            self._value((base, name), f"{base.__name__}.{name}", functools.partial(read, name, MISSING), attribute=True)

    def _is_read(self, name: NameGuard) -> bool:
        return not name.attribute or name.title.rpartition(".")[2] in self.read


def _is_searched(x: Any) -> bool:
    """True for an object, class or module of the user's code, a namespace object, or a user's function that has attributes."""
    if isinstance(x, types.FunctionType) or has_attribute(x, "__wrapped__"):
        return bool(getattr(x, "__dict__", None)) and is_user_code(str(x.__module__))
    if isinstance(x, (*COMPARED_BY_VALUE, *FUNCTIONS, Tensor, list, dict, tuple, set, enum.Enum)):
        return False
    if isinstance(x, types.ModuleType):
        return is_user_code(x.__name__)
    cls = x if isinstance(x, type) else type(x)
    return (cls.__module__, cls.__name__) in _NAMESPACES or is_user_code(str(cls.__module__))


def _attributes(function: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """(key, title, reader) of each attribute of the object whose method `function` is, or of `function` itself if it is a callable object;
    a module is one entry, guarded as a whole."""
    owner = function.__self__ if isinstance(function, types.MethodType) else function
    if isinstance(owner, (types.FunctionType, type)) or has_attribute(owner, "__wrapped__"):
        return
    if is_module(owner):
        yield id(owner), "self", lambda: owner
    elif not is_library(type(owner)):
        yield from _own_attributes(owner)


def _own_attributes(owner: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, value in getattr(owner, "__dict__", {}).items():
        if not isinstance(value, types.ModuleType):
            yield (id(owner), name), f"{owner.__class__.__name__}.{name}", functools.partial(owner.__dict__.get, name, MISSING)


def _is_conventional(title: str, value: Any) -> bool:
    """True if a name has its conventional meaning and needs no guard: a global bound to a module, or a function or class of a library under
    its own name."""
    if isinstance(value, types.ModuleType):
        return title.startswith("global ")
    return is_library_function(value) and re.split(r"[ .]", title)[-1] == getattr(value, "__name__", None)


def _reads(f: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
        yield id(cell), f"closure cell {name}", functools.partial(_contained, cell)
    for name, value in default_arguments(f).items():
        if isinstance(value, Tensor):
            continue  # an input already: an argument that was left out, or a captured tensor
        yield (id(f), name), f"default argument {name}", functools.partial(_default, f, name)
    space = f.__globals__
    for name in global_names(f.__code__):
        if name in space:
            yield (id(space), name), f"global {name}", functools.partial(space.get, name, MISSING)
    for name in environment_names(f.__code__):
        yield ("environment", name), f"environment variable {name}", functools.partial(os.environ.get, name)


def _made_up(x: Any, name: str) -> Any:
    """The attribute that the `__getattr__` of a user's class returns, or MISSING; it may raise any exception."""
    try:
        return getattr(x, name)
    except Exception:
        return MISSING


def _context_value(variable: contextvars.ContextVar[Any]) -> Any:
    """The value of a context variable, its default, or MISSING."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


def _default(f: Any, name: str) -> Any:
    return default_arguments(f).get(name, MISSING)


def _names_of_getter(x: Any) -> list[str]:
    """The attributes that `attrgetter("a.b")` or `methodcaller("a")` reads; only what copies it is told."""
    make, names = x.__reduce__()[:2]
    if isinstance(x, operator.attrgetter):
        return [part for name in names for part in name.split(".")]
    return [make.args[0] if isinstance(make, functools.partial) else names[0]]


def _partial_arguments(x: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for i in range(len(x.args)):
        yield (id(x), i), f"argument {i} of a partial", functools.partial(x.args.__getitem__, i)
    for name in x.keywords:
        yield (id(x), name), f"argument {name} of a partial", functools.partial(x.keywords.get, name, MISSING)
