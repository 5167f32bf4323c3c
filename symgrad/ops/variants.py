"""How a row is differentiated in complex numbers and in half precision: its rules are wrapped, once for all rows.

Rules are written for real numbers. For a function that is analytic, with real coefficients, the cotangent in PyTorch's convention is
    g · conj(f'(x)) = conj(conj(g) · f'(x)) = conj(rule(conj(g)))
so conjugating around the rule is all that complex numbers need; a row that is not analytic says so in its column `complex`.
Half precision is PyTorch's: computed in float32, rounded at the end (the engine casts what a rule returns).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from symgrad.ops.promotion import FLOAT32
from symgrad.ops.spec import Row, Rule

_variants: dict[tuple[Row, str], Row] = {}


def is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


_UNROUNDED = {"mul": (0, 1), "div": (0, 1), "floor_divide": (1,), "lerp": (0, 1, 2)}
"""Operands that half precision takes as they are if they are Python numbers."""


def rounds_number(row: Row, place: int) -> bool:
    """Whether a Python number as that operand is rounded to half precision before the row computes in float32, as PyTorch does it."""
    return place not in _UNROUNDED.get(row.name, ())


def is_complex(value: Any) -> bool:
    """Of an array, an edge, a recorded tensor or a Python number; in a rule, this may be tested."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, complex)
    return getattr(dtype, "kind", None) == "c" or getattr(dtype, "is_complex", False)


def variant(row: Row, arrays: Iterable[Any]) -> Row:
    """The row that a node records, given its operands."""
    for a in arrays:
        if a.__class__ is not np.ndarray:
            if a.__class__ is complex:
                return _in_complex(row)
            if not hasattr(a, "dtype"):  # else a graph value
                continue
        dtype = a.dtype
        if dtype.kind == "c":
            return _in_complex(row)
        if is_half(dtype) and not row.view and row.pullback is None:
            return _wrapped(row, "half", _lift)
    return row


def _in_complex(row: Row) -> Row:
    if row.complex == "refused":
        raise RuntimeError(f"{row.name} does not support automatic differentiation for outputs with complex dtype.")
    return row if row.complex == "own" or row.pullback is not None else _wrapped(row, "complex", _conjugate)


def _wrapped(row: Row, word: str, change: Callable[[Rule], Rule]) -> Row:
    made = _variants.get((row, word))
    if made is None:
        rules = tuple(None if rule is None else change(rule) for rule in row.vjp)
        prepare = None if row.prepare is None else change(row.prepare)
        made = _variants[row, word] = dataclasses.replace(row, vjp=rules, prepare=prepare)
    return made


def _conjugate(rule: Rule) -> Rule:
    def conjugated(xp: Any, g: Any, out: Any, *args: Any, **attrs: Any) -> Any:
        return xp.conj(rule(xp, _each(xp.conj, g), out, *args, **attrs))

    return conjugated


def _lift(rule: Rule) -> Rule:
    def lifted(xp: Any, g: Any, out: Any, *args: Any, **attrs: Any) -> Any:
        some = next(x for x in g if x is not None) if g.__class__ is tuple else g
        values = (np.ndarray, np.generic) if isinstance(some, (np.ndarray, np.generic)) else type(some)

        def lift(value: Any) -> Any:
            """An edge, which stands for what was not saved, has nothing to cast."""
            dtype = value.dtype if isinstance(value, values) else None
            return xp.cast(value, dtype=FLOAT32) if dtype is not None and is_half(getattr(dtype, "dtype", dtype)) else value

        return rule(xp, _each(lift, g), _each(lift, out), *(lift(a) for a in args), **attrs)

    return lifted


def _each(change: Callable[[Any], Any], values: Any) -> Any:
    if values.__class__ is tuple:
        return tuple(None if value is None else change(value) for value in values)
    return None if values is None else change(values)
