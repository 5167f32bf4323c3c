"""The names that a Python code object reads: globals, attributes, and strings that may be names of attributes."""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Iterator
from typing import Any

_WRITES = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "subtract", "discard", "remove", "clear"))
"""Container methods that only write: all of them return None."""
_METADATA = frozenset(("shape", "dtype", "ndim", "size", "nbytes"))
"""Array attributes that do not depend on the elements."""
_BY_TEXT = frozenset(("getattr", "hasattr", "vars", "attrgetter", "__dict__"))
"""Names that code uses to read attributes whose names it has as strings."""


def global_names(code: Any) -> Iterator[str]:
    """The names that `code`, and the code nested in it, looks up in the globals."""
    return _names_of_instructions(code, ("LOAD_GLOBAL", "LOAD_NAME"))


def attribute_names(code: Any) -> Iterator[str]:
    """The names of attributes that `code` reads, including those that it has as strings."""
    yield from _names_of_instructions(code, ("LOAD_ATTR", "LOAD_METHOD"))
    yield from text_names(code)


def compares_identity(code: Any) -> bool:
    """True if `code` may observe which of its tensors are the same object: by `x is y`, `id(x)`, or deepcopy(), which keeps identity."""
    pairs = itertools.pairwise(dis.get_instructions(code))
    fixed = ("LOAD_CONST", "LOAD_GLOBAL")  # `x is None`, `cls is Tensor`: no comparison of two tensors
    compares = any(after.opname == "IS_OP" and before.opname not in fixed for before, after in pairs)
    if compares or not {"id", "deepcopy"}.isdisjoint(code.co_names):
        return True
    return any(compares_identity(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))


def text_names(code: Any) -> Iterator[str]:
    """The identifier strings in `code`, if it reads attributes by string: such an attribute may be missing now and exist later."""
    if not _BY_TEXT.isdisjoint((*_names_of_instructions(code, ("LOAD_ATTR", "LOAD_METHOD")), *global_names(code))):
        yield from _strings(code)


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


def _strings(code: Any) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, types.CodeType):
            yield from _strings(constant)


def _names_of_instructions(code: Any, instructions: tuple[str, ...]) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in instructions:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_of_instructions(constant, instructions)
