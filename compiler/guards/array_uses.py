"""Decide whether a NumPy array that a function reads by name is used as an operand of ops only.

Such an array is an input of the program, which every run reads. An array that Python reads as well, as in `x * a * float(a[0])`, also needs
a guard of its contents. The capture records the expression at which an array becomes an operand; an array is only an operand if this holds
for the expression around every place of the code that loads its name. What cannot be decided counts as read.
"""

from __future__ import annotations

import dis
import itertools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from symgrad.lines import is_ours

Site = tuple[Any, Any]
"""A code object, with the span of source (first line, last line, first column, last column) of an expression in it, or with the name of a
local variable that is bound to the array."""
_BUILDS = frozenset(("BUILD_LIST", "BUILD_TUPLE"))
_FOLLOWED = _BUILDS | {"BINARY_SUBSCR", "BINARY_SLICE"}
"""Instructions whose result is a view of the array, or a container with it: the expression around it uses the array."""
_VIEWS = frozenset(("T", "mT", "reshape", "ravel", "view", "transpose", "squeeze", "swapaxes"))
_METADATA = frozenset(("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides"))


def operand_sites(array: Any) -> set[Site]:
    """The expression of the user's code that is being evaluated, and the variables of this code that are bound to `array`; and the calls
    that led there, from functions that got the array as an argument."""
    frame: Any = sys._getframe()
    sites: set[Site] = set()
    while frame is not None:
        if not is_ours(frame):
            code, names = frame.f_code, [name for name, x in frame.f_locals.items() if x is array]
            sites.add((code, next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))))
            sites.update((code, name) for name in names)
            if not set(names) & {*code.co_varnames, *code.co_cellvars}:
                break
        frame = frame.f_back
    return sites


def is_only_operand(name: str, codes: Iterable[Any], sites: set[Site]) -> bool | None:
    """True if each place of `codes` that loads `name` is in an expression of `sites`, at which the array became an operand. False if the
    code certainly reads it in another way, as by `a[0]` or `a.sum()`; None if that is not known."""
    uses = [use for code in codes for use in _uses(code, name, sites)]
    aliases = [site for site in sites if isinstance(site[1], str) and site[1] in site[0].co_varnames]
    uses += [use for code, alias in aliases if alias != name for use in _uses(code, alias, sites)]
    read = [use for use in uses if use is not _HARMLESS]
    if _READ in read:
        return False
    unknown = not uses or None in read or len(set(read)) < len(read)  # one of two arrays in an expression may be read: f(a, a[0])
    return None if unknown else True


_HARMLESS: Any = object()
"""A use that reads no elements: `a.shape`."""
_READ: Any = object()
"""A use that is no operand, but an element or the result of a method of the array."""


def _uses(code: Any, name: str, sites: set[Site]) -> Iterator[Any]:
    """For each place of `code` that loads `name`, the expression of `sites` that uses the array, or _HARMLESS or _READ; None if it is
    not known."""
    for load in dis.get_instructions(code):
        if load.opname.startswith("LOAD_") and load.argval == name and load.opname != "LOAD_CLOSURE":
            yield _use(code, load, sites)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _uses(constant, name, sites)


def _iterated(code: Any, instruction: Any) -> set[Site]:
    """The variable of a for loop, if the instruction starts one."""
    if instruction.opname != "FOR_ITER":
        return set()
    after = next((i for i in dis.get_instructions(code) if i.offset > instruction.offset), instruction)
    return {(code, after.argval)} if after.opname == "STORE_FAST" else set()


def _use(code: Any, load: Any, sites: set[Site]) -> Any:
    """The use of the array at the place of `load`: see `_uses`."""
    stored = next((i for i in dis.get_instructions(code) if i.offset > load.offset), load)
    if stored.opname == "STORE_FAST" and (code, stored.argval) in sites:
        return code, _span(load)  # `b = a`, and `b` is an operand only
    instruction, is_method = load, False
    while True:
        inner, instruction = instruction, _expression_around(code, instruction)
        if instruction is None:
            return None
        span = _span(instruction)
        if (code, span) in sites or (inner is load and _iterated(code, instruction) & sites):
            return code, span
        attribute = instruction.argval if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") else None
        if attribute in _METADATA:
            return _HARMLESS
        followed = instruction.opname in _FOLLOWED or attribute in _VIEWS or is_method
        if not followed or not _holds_array(instruction, inner):
            return None if inner is load and attribute is None else _READ
        is_method = attribute in _VIEWS and instruction.opname == "LOAD_METHOD"


def _holds_array(instruction: Any, inner: Any) -> bool:
    """True if the result of an expression is made of that of `inner`: it starts with it, or is a container. False for the index in
    `table[a]`."""
    span, start = _span(instruction), _span(inner)
    return instruction.opname in _BUILDS or (span[0] == start[0] and span[2] == start[2])


def _expression_around(code: Any, inner: Any) -> Any:
    """The last instruction of the smallest expression that contains the one of `inner`; None if another instruction, such as a jump, uses
    the value of `inner` itself."""
    span, found = _span(inner), None
    if None in span:
        return None
    for instruction in dis.get_instructions(code):
        other = _span(instruction)
        if other == span and instruction.offset > inner.offset and instruction.opname != "CALL":
            return None
        if None not in other and other != span and _contains(other, span) and (found is None or _contains(_span(found), other)):
            found = instruction
    return found


def _span(instruction: Any) -> tuple[Any, ...]:
    return tuple(instruction.positions or (None,))


def _contains(outer: Any, inner: Any) -> bool:
    return bool((outer[0], outer[2]) <= (inner[0], inner[2]) and (inner[1], inner[3]) <= (outer[1], outer[3]))
