"""The user's code: which functions and classes belong to it, and the names that a code object reads (globals, attributes, strings)."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any

from symgrad.pytree import has_attribute, is_module

_WRITES = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "subtract", "discard", "remove", "clear"))
"""Container methods that only write: all of them return None."""
_METADATA = frozenset(("shape", "dtype", "ndim", "size", "nbytes"))
"""Array attributes that do not depend on the elements."""
_ENDS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
"""Instructions after which the next one does not run."""
_BY_TEXT = frozenset(("getattr", "hasattr", "vars", "attrgetter", "__dict__"))
"""Names that code uses to read attributes whose names it has as strings."""

_ENVIRONMENT = frozenset(("environ", "getenv"))
_GLOBALS = frozenset(("globals",))
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_CONSTRUCTORS = frozenset(("__new__", "__init__", "__post_init__"))
_NOT_COMPUTING = frozenset((
    "__repr__", "__str__", "__del__", "__setattr__", "__delattr__", "__init_subclass__", "__class_getitem__", "__copy__", "__deepcopy__",
    "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__dir__", "__sizeof__", "__set_name__",
))  # fmt: skip
"""Special methods that take no part in the computation of results."""


def global_names(code: Any) -> list[str]:
    """The names that `code`, and the code nested in it, looks up in the globals, also by `globals()["name"]`."""
    names = _names_of_instructions(code, ("LOAD_GLOBAL", "LOAD_NAME"))
    return [*names, *_strings(code)] if _mentions(code, _GLOBALS) else names


def imported_modules(f: Any) -> list[str]:
    """The loaded modules that a function imports in its body."""
    names = _names_of_instructions(f.__code__, ("IMPORT_NAME",))
    package = f.__globals__.get("__package__")
    return [name for each in names for name in (each, f"{package}.{each}") if name in sys.modules]


def environment_names(code: Any) -> list[str]:
    """The strings in `code`, if it reads environment variables."""
    return list(_strings(code, identifiers=False)) if _mentions(code, _ENVIRONMENT) else []


def _mentions(code: Any, names: frozenset[str]) -> bool:
    """True if `code`, or code nested in it, has one of these names."""
    if not names.isdisjoint(code.co_names):
        return True
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return bool(nested) and any(_mentions(inner, names) for inner in nested)


def attribute_names(code: Any) -> list[str]:
    """The names of attributes that `code` reads, including those that it has as strings."""
    return [*_names_of_instructions(code, ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")), *text_names(code)]


def compares_identity(code: Any) -> bool:
    """True if `code` may observe which of its tensors are the same object: by `x is y`, `id(x)`, or deepcopy(), which keeps identity."""
    if not {"id", "deepcopy"}.isdisjoint(code.co_names):
        return True
    fixed = ("LOAD_CONST", "LOAD_GLOBAL")  # `x is None`, `cls is Tensor`: no comparison of two tensors
    for before, after in itertools.pairwise(dis.get_instructions(code)):
        if after.opname == "IS_OP" and before.opname not in fixed:
            return True
    return any(compares_identity(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))


def text_names(code: Any) -> list[str]:
    """The identifier strings in `code`, if it reads attributes by string: such an attribute may be missing now and exist later."""
    return list(_strings(code)) if _mentions(code, _BY_TEXT) else []


def used_names(code: Any) -> Iterator[str]:
    """The names that `code` loads, except in `log.append(...)`, which only writes, and `array.shape`, which reads no elements."""
    for load, after in itertools.pairwise(dis.get_instructions(code)):
        passed_over = after.opname in ("LOAD_ATTR", "LOAD_METHOD") and after.argval in _WRITES | _METADATA
        if load.opname.startswith("LOAD_") and isinstance(load.argval, str) and not passed_over:
            yield load.argval
    if not _BY_TEXT.isdisjoint(code.co_names):
        yield from _strings(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from used_names(constant)


def reread_attributes(code: Any) -> Iterator[str]:
    """The names of attributes that `code` may read before it assigns to them, except in `self.log.append(...)`, which only writes."""
    jumped: dict[int, frozenset[Any]] = {}
    assigned: frozenset[Any] | None = frozenset()
    """The attributes that are assigned on every way to an instruction; None after a jump or return."""
    instructions = [at for at in dis.get_instructions(code) if at.opname != "COPY"]  # self.x += 1 copies self before it reads x
    for before, at, after in zip([instructions[0], *instructions], instructions, [*instructions[1:], instructions[-1]], strict=False):
        arriving = [x for x in (assigned, jumped.get(at.offset)) if x is not None]
        assigned = frozenset.intersection(*arriving) if arriving else frozenset()
        attribute = before.argval, at.argval
        if at.opname == "STORE_ATTR":
            assigned |= {attribute}
        elif at.opname in ("LOAD_ATTR", "LOAD_METHOD") and attribute not in assigned and after.argval not in _WRITES:
            yield at.argval
        if at.opcode in dis.hasjrel or at.opcode in dis.hasjabs:
            jumped[at.argval] = jumped.get(at.argval, assigned) & assigned
        if at.opname in _ENDS:
            assigned = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from reread_attributes(constant)


def _strings(code: Any, identifiers: bool = True) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str) and (constant.isidentifier() or not identifiers):
            yield constant
        elif isinstance(constant, types.CodeType):
            yield from _strings(constant, identifiers)


def _names_of_instructions(code: Any, instructions: tuple[str, ...]) -> list[str]:
    found = [instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in instructions]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _names_of_instructions(constant, instructions)
    return found


@functools.cache
def is_user_code(module: str) -> bool:
    """True for a module that belongs neither to Python, nor to symgrad, nor to an installed package: functions are assumed not to depend on
    mutable settings of libraries."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] in (*sys.stdlib_module_names, "symgrad") and module != "__main__":
        return False
    return module == "__main__" or file is None or "-packages" not in file


def is_library(x: Any) -> bool:
    return str(x.__module__).partition(".")[0] in ("symgrad", "numpy", "jax", "functools", "builtins")


def is_library_function(x: Any) -> bool:
    """True for a function or class of symgrad, NumPy, JAX, functools or builtins."""
    return isinstance(x, (type, *FUNCTIONS)) and is_library(x)


def user_functions(x: Any) -> Iterator[Any]:
    """The user's Python functions that a call of `x` runs: inside partials, bound methods, wrappers, and the `forward` of modules."""
    x = x.__wrapped__ if not isinstance(x, types.FunctionType) and has_attribute(x, "__wrapped__") else x
    if isinstance(x, functools.partial):
        yield from user_functions(x.func)
        return
    if isinstance(x, types.MethodType):
        x = x.__func__
    if isinstance(x, types.FunctionType) and not is_library_function(x):
        yield x
        if hasattr(x, "__wrapped__"):
            yield from user_functions(x.__wrapped__)
    elif is_module(x):
        for module in x.modules():
            forward = getattr(type(module).forward, "__wrapped__", type(module).forward)
            if isinstance(forward, types.FunctionType) and not is_library_function(forward):
                yield forward


def special_methods(cls: type, made: bool) -> set[str]:
    """The special methods of the user's classes that Python calls without their name in the code: `__call__`, `__getitem__`, `__mul__`;
    and, if objects are `made`, `__init__`. Methods that a dataclass generated are left out, since they read every field."""
    passed_over = _NOT_COMPUTING if made else _NOT_COMPUTING | _CONSTRUCTORS
    bases = [base for base in cls.__mro__ if is_user_code(str(base.__module__))]
    found = {(name, x) for base in bases for name, x in base.__dict__.items() if isinstance(x, types.FunctionType)}
    return {
        name for name, x in found
        if name.startswith("__") and name.endswith("__") and name not in passed_over and x.__code__.co_filename != "<string>"
    }  # fmt: skip


def unwrapped(method: Any) -> Any:
    """The function inside a property, static method or class method; anything else is returned as it is."""
    if isinstance(method, property):
        return method.fget
    if isinstance(method, functools.cached_property):
        return method.func
    return method.__func__ if isinstance(method, (staticmethod, classmethod)) else method


def slots_of(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        given = base.__dict__.get("__slots__", ())
        found += [given] if isinstance(given, str) else given
    return found


def default_arguments(f: Any) -> dict[str, Any]:
    """The default arguments of `f` by name."""
    count, given = f.__code__.co_argcount, f.__defaults__ or ()
    return dict(zip(f.__code__.co_varnames[count - len(given) : count], given, strict=True)) | (f.__kwdefaults__ or {})
