"""Find the Python state that a function reads besides its arguments: closure cells, globals, and the attributes that it reads by name.

The search goes through the code of the function and of the functions that it calls by name, and collects the names there. For the user's
objects, classes and modules that such a name is bound to, or that are arguments, it guards the attributes that the code names; for lists,
dictionaries, sets and similar containers, and for small arrays, their contents. Default arguments and the arguments of a
`functools.partial` count as names. State that is reached in other ways (an attribute whose name is computed, files, the environment) is
not found.
"""

from __future__ import annotations

import array
import enum
import functools
import inspect
import io
import operator
import re
import sys
import types
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from symgrad.compiler.guards.code_names import attribute_names, compares_identity, global_names, text_names, used_names
from symgrad.compiler.guards.state import (
    COMPARED_BY_VALUE,
    MISSING,
    ArrayGuard,
    BufferGuard,
    ContainerGuard,
    IteratorGuard,
    LargeArrayGuard,
    LargeContainerGuard,
    NameGuard,
    ObjectArrayGuard,
    StateGuard,
    read_or_missing,
)
from symgrad.compiler.inputs.pytree import has_attribute
from symgrad.tensor import Tensor

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_NAMESPACES = (("types", "SimpleNamespace"), ("argparse", "Namespace"))
_MAX_FUNCTIONS = 200
"""At most this many functions, and as many objects, are searched."""
_contained = operator.attrgetter("cell_contents")  # runs before every call, and is faster than a Python function
_MAX_ITEMS = 64
"""The entries of longer containers are compared before each run only if they are at most _MAX_ENTRIES, with those of containers in them."""
_MAX_ENTRIES = 1024
"""Comparing this many entries takes about 15 microseconds. The trace warns of containers with more."""
_MAX_DEPTH = 3
"""Nesting depth to which containers are searched."""
_MAX_ITEMS_COMPARED = 10_000
"""The entries of longer containers are not compared after the trace either."""
_MAX_BYTES = 65536
"""Larger arrays are not compared before each run; comparing this many bytes takes 1.2 microseconds."""
_BUFFERS = (bytearray, array.array, memoryview)
_CONTAINERS = (list, dict, set, deque, ChainMap, types.MappingProxyType, UserDict, UserList, *_BUFFERS[:2])
_MAPPINGS = (dict, ChainMap, types.MappingProxyType, UserDict)
_CONSTRUCTORS = frozenset(("__new__", "__init__", "__post_init__"))
_NOT_COMPUTING = frozenset((
    "__repr__", "__str__", "__del__", "__setattr__", "__delattr__", "__init_subclass__", "__class_getitem__", "__copy__", "__deepcopy__",
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__dir__", "__sizeof__", "__set_name__",
))  # fmt: skip
"""Special methods that take no part in the computation of results."""

def find_state_guards(function: Any, given: Iterable[tuple[str, Any]] = ()) -> list[StateGuard]:
    """Guards of the state that `function`, and the user's functions that it calls by name, read. This includes the attributes of the object
    if `function` is a method, and those of the `given` (title, object) pairs."""
    return _Search().run(function, given)


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
        self.seen: set[int] = set()
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
        self.waiting += _functions(function)
        for key, title, read in _attributes(function):
            self.found[key] = NameGuard(title, read, attribute=True)
        owner = function.__self__ if isinstance(function, types.MethodType) else function
        for title, x in (*given, (getattr(owner, "__name__", owner.__class__.__name__), owner)):
            self._into(title, x)
        for key, title, read in _partial_arguments(function) if isinstance(function, functools.partial) else ():
            self._value(key, title, read)
        while self.waiting or self._look():
            self._function()
        contents = [c for name in self.found.values() if self._is_read(name) for c in self._contents(name)]
        return [*self.found.values(), *contents]

    def _contents(self, name: NameGuard) -> Iterator[StateGuard]:
        used = name.title.endswith((" of a partial", ".__self__")) or re.split(r"[ .]", name.title)[-1] in self.used
        for found in _container_guards(name.title, name.value):
            if isinstance(found, (LargeArrayGuard, BufferGuard)) and not used:
                continue
            if isinstance(found, ContainerGuard) and not used:
                found.guarded, found.decides = False, False
            yield found

    def _function(self) -> None:
        if not self.waiting:
            return
        f = self.waiting.pop()
        if id(f.__code__) in self.seen or len(self.seen) >= _MAX_FUNCTIONS:
            return
        self.seen.add(id(f.__code__))
        self.compares_identity = self.compares_identity or compares_identity(f.__code__)
        self.read.update(attribute_names(f.__code__))
        self.text.update(text_names(f.__code__))
        self.used.update(used_names(f.__code__))
        for key, title, read in _reads(f):
            self._value(key, title, read)

    def _value(self, key: Any, title: str, read: Callable[[], Any], attribute: bool = False) -> None:
        if key in self.keys:
            return
        self.keys.add(key)
        value = read_or_missing(read)
        self._into(title, value)
        if key in self.found or value is MISSING or _is_conventional(title, value):
            return
        self.found[key] = NameGuard(title, read, attribute)
        self.waiting += _functions(value)

    def _missing(self, title: str, x: Any, name: str) -> None:
        """Guard an attribute that `x` does not have in its own `__dict__`, and may get later."""
        own = getattr(x, "__dict__", None)
        if own is not None and name not in own and ("missing", id(x), name) not in self.found:
            self.found["missing", id(x), name] = NameGuard(f"{title}.{name}", functools.partial(own.get, name, MISSING), attribute=True)

    def _into(self, title: str, x: Any, depth: int = 0) -> None:
        """Search an object; also the elements of a container, the object of a bound method, and the arguments of a partial."""
        self._object(title, x)
        if isinstance(x, (list, tuple, frozenset, *_CONTAINERS)) and not isinstance(x, _BUFFERS) and _is_small(x) and depth < _MAX_DEPTH:
            for key, part in _items(x):
                self._into(f"{title}[{key!r}]", part, depth + 1)
            return
        if depth:
            self.waiting += _functions(x)
        owner = getattr(x, "__self__", None) if isinstance(x, _FUNCTIONS) else None
        if owner is not None and not isinstance(owner, types.ModuleType):
            self._value((id(x), "__self__"), f"{title}.__self__", functools.partial(getattr, x, "__self__"))
        for key, label, read in _partial_arguments(x) if isinstance(x, functools.partial) else ():
            self._value(key, label, read)

    def _object(self, title: str, x: Any) -> None:
        if _is_module(x):
            for module in x.modules():
                if _is_user_code(type(module).__module__):
                    self.objects.setdefault(id(module), (module.__class__.__name__, module))
                    self._method(type(module), "forward")
        elif len(self.objects) < _MAX_FUNCTIONS and id(x) not in self.objects and _is_searched(x):
            self.objects[id(x)] = re.sub(r"^(global|closure cell|default argument) ", "", title), x
            cls = x if isinstance(x, type) else type(x)
            for name in _special_methods(cls, made=isinstance(x, type)) if not has_attribute(x, "__wrapped__") else ():
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
        if name in own:
            if not (_is_module(x) and type(own[name]) in COMPARED_BY_VALUE):  # which its ModuleGuard compares
                self._value((id(x), name), f"{title}.{name}", functools.partial(own.get, name, MISSING), attribute=True)
        elif isinstance(x, (type, types.ModuleType)) or name in _slots(type(x)):
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
        is_the_users = there is not MISSING and _is_user_code(str(type(x).__module__)) and not isinstance(there, functools.cached_property)
        if is_the_users or (there is MISSING and name in self.text):
            self._missing(title, x, name)

    def _methods(self, cls: type, name: str) -> None:
        """Guard and search a method of a class, and search the methods of its bases that `super()` may call."""
        self._method(cls, name)
        for base in cls.__mro__:
            self.waiting += _functions(_unwrapped(base.__dict__.get(name)))

    def _method(self, cls: type, name: str) -> None:
        """Guard a user's method in the class that defines it, where it may be replaced."""
        base = next((base for base in cls.__mro__ if name in base.__dict__), None)
        if base is not None and _is_user_code(str(base.__module__)):
            read: Any = base.__dict__.get
            self._value((base, name), f"{base.__name__}.{name}", functools.partial(read, name, MISSING), attribute=True)

    def _is_read(self, name: NameGuard) -> bool:
        return not name.attribute or name.title.rpartition(".")[2] in self.read


def _is_module(x: Any) -> bool:
    return not isinstance(x, type) and has_attribute(x, "named_parameters")


def _is_searched(x: Any) -> bool:
    """True for an object, class or module of the user's code, a namespace object, or a user's function that has attributes."""
    if isinstance(x, types.FunctionType) or has_attribute(x, "__wrapped__"):
        return bool(getattr(x, "__dict__", None)) and _is_user_code(str(x.__module__))
    if isinstance(x, (*COMPARED_BY_VALUE, *_FUNCTIONS, Tensor, list, dict, tuple, set, enum.Enum)):
        return False
    if isinstance(x, types.ModuleType):
        return _is_user_code(x.__name__)
    cls = x if isinstance(x, type) else type(x)
    return (cls.__module__, cls.__name__) in _NAMESPACES or _is_user_code(str(cls.__module__))


def _special_methods(cls: type, made: bool) -> set[str]:
    """The special methods of the user's classes that Python calls without their name in the code: `__call__`, `__getitem__`, `__mul__`;
    and, if objects are `made`, `__init__`. Methods that a dataclass generated are left out, since they read every field."""
    passed_over = _NOT_COMPUTING if made else _NOT_COMPUTING | _CONSTRUCTORS
    bases = [base for base in cls.__mro__ if _is_user_code(str(base.__module__))]
    found = {(name, x) for base in bases for name, x in base.__dict__.items() if isinstance(x, types.FunctionType)}
    return {
        name for name, x in found
        if name.startswith("__") and name.endswith("__") and name not in passed_over and x.__code__.co_filename != "<string>"
    }  # fmt: skip


def _unwrapped(method: Any) -> Any:
    """The function inside a property, static method or class method; anything else is returned as it is."""
    if isinstance(method, property):
        return method.fget
    if isinstance(method, functools.cached_property):
        return method.func
    return method.__func__ if isinstance(method, (staticmethod, classmethod)) else method


@functools.cache
def _is_user_code(module: str) -> bool:
    """True for a module that belongs neither to Python, nor to symgrad, nor to an installed package: functions are assumed not to depend on
    mutable settings of libraries."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] in (*sys.stdlib_module_names, "symgrad") and module != "__main__":
        return False
    return module == "__main__" or file is None or "-packages" not in file


def _container_guards(title: str, value: Any, depth: int = 0) -> Iterator[StateGuard]:
    if isinstance(value, np.ndarray):
        yield _array_guard(title, value)
        return
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase) and not _is_user_code(type(value).__module__):
        yield IteratorGuard(title, value)
    if isinstance(value, _BUFFERS) and (isinstance(value, memoryview) or len(value) > _MAX_ITEMS):
        yield BufferGuard(title, value) if memoryview(value).nbytes <= _MAX_BYTES else LargeArrayGuard(title, value)
        return
    if not isinstance(value, (*_CONTAINERS, tuple)):
        return
    small = _is_small(value)
    if not isinstance(value, tuple):
        yield ContainerGuard(title, value) if small else LargeContainerGuard(title, value, len(value) <= _MAX_ITEMS_COMPARED)
    for key, part in _items(value) if small and depth < _MAX_DEPTH else ():
        yield from _container_guards(f"{title}[{key!r}]", part, depth + 1)


def _is_small(container: Any) -> bool:
    return len(container) <= _MAX_ITEMS or _count(container) <= _MAX_ENTRIES


def _array_guard(title: str, value: Any) -> StateGuard:
    if value.dtype == object:
        return ObjectArrayGuard(title, value) if value.size <= _MAX_ENTRIES else LargeContainerGuard(title, value, False)
    return ArrayGuard(title, value) if value.nbytes <= _MAX_BYTES else LargeArrayGuard(title, value)


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    return container.items() if isinstance(container, _MAPPINGS) else enumerate(container)


def _count(container: Any, depth: int = 0) -> int:
    """The number of entries of a container, and of containers in it; any number above _MAX_ENTRIES if there are more."""
    count = len(container)
    for _, part in _items(container) if depth < _MAX_DEPTH and count <= _MAX_ENTRIES else ():
        if isinstance(part, (*_CONTAINERS, tuple)) and not isinstance(part, _BUFFERS):
            count += _count(part, depth + 1)
        if count > _MAX_ENTRIES:
            break
    return count


def _attributes(function: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """(key, title, reader) of each attribute of the object whose method `function` is, or of `function` itself if it is a callable object;
    a module is one entry, guarded as a whole."""
    owner = function.__self__ if isinstance(function, types.MethodType) else function
    if isinstance(owner, (types.FunctionType, type)) or has_attribute(owner, "__wrapped__"):
        return
    if has_attribute(owner, "named_parameters"):
        yield id(owner), "self", lambda: owner
    elif not _is_library(type(owner)):
        yield from _own_attributes(owner)


def _own_attributes(owner: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for name, value in getattr(owner, "__dict__", {}).items():
        if not isinstance(value, types.ModuleType):
            yield (id(owner), name), f"{owner.__class__.__name__}.{name}", functools.partial(owner.__dict__.get, name, MISSING)


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        given = base.__dict__.get("__slots__", ())
        found += [given] if isinstance(given, str) else given
    return found


def _is_conventional(title: str, value: Any) -> bool:
    """True if a name has its conventional meaning and needs no guard: a global bound to a module, or a function or class of a library under
    its own name."""
    if isinstance(value, types.ModuleType):
        return title.startswith("global ")
    return _is_ours(value) and re.split(r"[ .]", title)[-1] == getattr(value, "__name__", None)


def _is_ours(x: Any) -> bool:
    """True for a function or class of symgrad, NumPy, JAX, functools or builtins."""
    return isinstance(x, (type, *_FUNCTIONS)) and _is_library(x)


def _is_library(x: Any) -> bool:
    return str(x.__module__).partition(".")[0] in ("symgrad", "numpy", "jax", "functools", "builtins")


def _functions(x: Any) -> Iterator[Any]:
    """The user's Python functions that a call of `x` runs: inside partials, bound methods, wrappers, and the `forward` of modules."""
    x = x.__wrapped__ if not isinstance(x, types.FunctionType) and has_attribute(x, "__wrapped__") else x
    if isinstance(x, functools.partial):
        yield from _functions(x.func)
        return
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
    for name, value in _defaults(f).items():
        if isinstance(value, Tensor):
            continue  # an input already: an argument that was left out, or a captured tensor
        yield (id(f), name), f"default argument {name}", functools.partial(_default, f, name)
    space = f.__globals__
    for name in global_names(f.__code__):
        if name in space:
            yield (id(space), name), f"global {name}", functools.partial(space.get, name, MISSING)


def _defaults(f: Any) -> dict[str, Any]:
    """The default arguments of `f` by name."""
    count, given = f.__code__.co_argcount, f.__defaults__ or ()
    return dict(zip(f.__code__.co_varnames[count - len(given) : count], given, strict=True)) | (f.__kwdefaults__ or {})


def _default(f: Any, name: str) -> Any:
    return _defaults(f).get(name, MISSING)


def _partial_arguments(x: Any) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    for i in range(len(x.args)):
        yield (id(x), i), f"argument {i} of a partial", functools.partial(x.args.__getitem__, i)
    for name in x.keywords:
        yield (id(x), name), f"argument {name} of a partial", functools.partial(x.keywords.get, name, MISSING)
