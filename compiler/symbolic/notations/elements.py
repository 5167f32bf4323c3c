"""Elements notation: small tensors spelled out as arrays of scalar expressions.

Elementwise rows apply their meaning to each element; the rows that move, add or multiply elements run their own NumPy kernels on arrays of
expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.ir.graph import LITERAL, OUTPUT, Value, row_of, type_text
from symgrad.compiler.symbolic import to_sympy
from symgrad.compiler.symbolic.notations.base import Lowering
from symgrad.compiler.symbolic.program import FormulaProgram, LoweringRequest
from symgrad.errors import FormulaError

_MAX_ELEMENTS, _MAX_ELEMENTS_AUTO = 512, 16
"""Largest number of elements of a value: in this notation at all, and for `auto` to choose it."""
_KERNELS: dict[str, Any] = {
    "expand": lambda x, shape: np.broadcast_to(x, shape),
    "nansum": lambda x, axis, keepdims: np.sum(np.frompyfunc(to_sympy.unless_nan, 1, 1)(x), axis, keepdims=keepdims),
}


def fits(job: LoweringRequest) -> bool:
    """True if the graph is small enough to be spelled out."""
    if any(v.dtype.__class__ is tuple or v.size > _MAX_ELEMENTS_AUTO for v in job.graph.values):
        return False
    return not any(len(shape) > 2 or np.prod(shape) > _MAX_ELEMENTS_AUTO for shape in job.shapes)


def lower(job: LoweringRequest) -> FormulaProgram:
    """Return a program in which every tensor is an array of expressions."""
    return _Elements(job).program()


class _Elements(Lowering):
    notation = "elements"

    def __init__(self, job: LoweringRequest) -> None:
        super().__init__(job)
        self.arrays: dict[Value, Any] = {}
        """The symbols of inputs and of named values, as arrays."""

    def add_input(self, i: int, x: Value, label: str) -> Any:
        if x.size > _MAX_ELEMENTS:
            raise FormulaError(f"elements notation is for small tensors: {label} is {type_text(x)}; use notation='index'")
        self.name(x, f"x{i}")
        self.set_label(x, label)
        self.labels[sp.Symbol(f"x{i}")] = label
        return self.arrays[x]

    def name(self, v: Value, name: str) -> list[Any]:
        array, known = np.empty(v.shape, object), np.empty(v.shape, object)
        for index in np.ndindex(v.shape):
            array[index] = to_sympy.symbol("_".join(map(str, (name, *index))), v.dtype)
            known[index] = to_sympy.truth(array[index], v.dtype)
        self.arrays[v], self.known[v], self.symbols[v] = array, known, tuple(array.ravel())
        return list(array.ravel())

    def set_label(self, v: Value, label: str) -> None:
        for symbol, index in zip(self.symbols[v], np.ndindex(v.shape), strict=True):
            self.labels[symbol] = f"{label}[{', '.join(map(str, index))}]" if index else label

    def line_expression(self, v: Value, e: Any) -> Any:
        return e if e.shape else e[()]

    def parts(self, whole: Any) -> list[Any]:
        return list(whole.ravel()) if isinstance(whole, np.ndarray) else [whole]

    def lower(self, v: Value) -> Any:
        return _array(v, self.known)

    def finish(self, n: int, v: Value, directions: tuple[Value, ...]) -> Any:
        return _sliced(self.known[v], [self.known[d] for d in directions])


def _sliced(array: Any, directions: list[Any]) -> Any:
    """Return a linear form as an array: set each direction to each unit vector in turn."""
    if not directions:
        return array
    first, *rest = directions
    result = np.empty((*first.shape, *(n for d in rest for n in d.shape), *array.shape), object)
    for place in np.ndindex(first.shape):
        values = {symbol: sp.Integer(symbol == first[place]) for symbol in first.ravel()}
        fixed = np.empty(array.shape, object)
        for index in np.ndindex(array.shape):
            fixed[index] = array[index].xreplace(values)
        result[(*place, ...)] = _sliced(fixed, rest)
    return result


def _array(v: Value, known: dict[Value, Any]) -> Any:
    if isinstance(v.dtype, tuple) or v.op == OUTPUT:
        raise _no_form(v.args[0] if v.op == OUTPUT else v)
    if v.size > _MAX_ELEMENTS:
        raise FormulaError(f"elements notation is for small tensors: {v.op} gives {type_text(v)}; use notation='index'")
    if v.op == LITERAL:
        return _as_object_array(to_sympy.literal(v))
    args = [None if a is None else known[a] for a in v.args]
    row = row_of(v)
    if not row.elementwise:
        return _by_kernel(v, args)
    shape = v.shape
    spread = [np.broadcast_to(a, shape) for a in args if a is not None]
    result = np.empty(shape, object)
    for index in np.ndindex(shape):
        result[index] = to_sympy.elementwise(v, [a[index] for a in spread])
    return result


def _by_kernel(v: Value, args: list[Any]) -> Any:
    """Run the kernel of a row on expressions. Rows that only move, add or multiply elements accept them like numbers; conditions count as
    0 or 1."""
    if v.dtype.kind != "b":
        args = [_counted(e) if a is not None and a.dtype.kind == "b" else e for a, e in zip(v.args, args, strict=True)]
    try:
        result = np.array(_KERNELS.get(v.op, row_of(v).numpy)(*args, **v.attrs), object)
    except (TypeError, ValueError, AttributeError, LookupError, NotImplementedError) as error:
        raise _no_form(v) from error
    if result.shape != v.shape:
        raise _no_form(v)
    for index in np.ndindex(result.shape):
        result[index] = to_sympy.number(_unwrapped(result[index]))  # the kernel may have inserted Python numbers
    return result


def _no_form(v: Value) -> FormulaError:
    """Return the error for a row that selects by value, or computes with numbers only."""
    return FormulaError(f"{v.op} has no form in elements notation: use notation='index'")


def _unwrapped(e: Any) -> Any:
    """Unwrap 0-d arrays, which kernels that join arrays insert as elements."""
    return e[()] if isinstance(e, np.ndarray) else e


def _counted(conditions: Any) -> Any:
    result = np.empty(conditions.shape, object)
    for index in np.ndindex(conditions.shape):
        result[index] = to_sympy.indicator(conditions[index])
    return result


def _as_object_array(e: Any) -> Any:
    array = np.empty((), object)
    array[()] = e
    return array
