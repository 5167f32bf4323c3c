"""The names that Python code reads: globals, attributes, and strings where those may be names of attributes."""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Iterator
from typing import Any

_WRITES = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "subtract", "discard", "remove", "clear"))
"""Methods of containers that only write: none returns anything."""
_METADATA = frozenset(("shape", "dtype", "ndim", "size", "nbytes"))
"""Attributes of an array that do not depend on its numbers."""
_BY_TEXT = frozenset(("getattr", "hasattr", "vars", "attrgetter", "__dict__"))
"""Names by which code reads attributes whose names are strings in it."""


def global_names(code: Any) -> Iterator[str]:
    """Names that code looks up among the globals."""
    return _names_of_instructions(code, ("LOAD_GLOBAL", "LOAD_NAME"))


def attribute_names(code: Any) -> Iterator[str]:
    """Names of attributes that code reads, also as strings."""
    yield from _names_of_instructions(code, ("LOAD_ATTR", "LOAD_METHOD"))
    yield from text_names(code)


def compares_identity(code: Any) -> bool:
    """Whether code may find out which of its tensors are the same object: by `x is y`, `id(x)`, or what deepcopy() makes of both."""
    pairs = itertools.pairwise(dis.get_instructions(code))
    fixed = ("LOAD_CONST", "LOAD_GLOBAL")  # None, a class
    compares = any(after.opname == "IS_OP" and before.opname not in fixed for before, after in pairs)
    if compares or not {"id", "deepcopy"}.isdisjoint(code.co_names):
        return True
    return any(compares_identity(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))


def text_names(code: Any) -> Iterator[str]:
    """Strings in code that reads attributes by strings: one may be missing, and there later."""
    if not _BY_TEXT.isdisjoint((*_names_of_instructions(code, ("LOAD_ATTR", "LOAD_METHOD")), *global_names(code))):
        yield from _strings(code)


def used_names(code: Any) -> Iterator[str]:
    """Names that code loads, but for `log.append(...)`, which only writes, and `array.shape`, which reads no numbers."""
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
