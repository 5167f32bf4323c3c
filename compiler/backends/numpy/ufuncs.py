"""How rows are emitted for NumPy: as ufuncs that write their result into existing memory, or as the row's own kernel.

A form is a tuple of steps. A step is (ufunc, operand, operand...), with operands "x", "y", "z" for the row's arguments, "o" for the result
of the previous step, and numbers; each step but the first may overwrite "o".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir.control_flow import SCAN
from symgrad.compiler.ir.graph import LITERAL, OUTPUT, Value, row_of
from symgrad.ops.kernels import select
from symgrad.ops.table import TABLE

Step = tuple[Any, ...]
Form = tuple[Step, ...]
LETTERS = ("x", "y", "z")
_WIDE = frozenset(("float32", "float64"))

_FLOAT: dict[str, Form] = {
    "relu": (("maximum", "x", 0),),
    "rdiv": (("divide", "y", "x"),),
    "pow": (("power", "x", "y"),),
    "rsqrt": (("sqrt", "x"), ("reciprocal", "o")),
    "sigmoid": (("negative", "x"), ("exp", "o"), ("add", "o", 1), ("reciprocal", "o")),
    "tanh_backward": (("multiply", "y", "y"), ("subtract", 1, "o"), ("multiply", "o", "x")),
    "clamp_between": (("maximum", "x", "y"), ("minimum", "o", "z")),
}
"""Forms of floating-point rows, each equivalent to the row's own kernel."""
_POWERS: dict[Any, Form] = {
    0.5: (("sqrt", "x"),),
    -0.5: _FLOAT["rsqrt"],
    -1: (("reciprocal", "x"),),
    2: (("square", "x"),),
    3: (("multiply", "x", "x"), ("multiply", "o", "x")),
    4: (("square", "x"), ("square", "o")),
    -2: (("square", "x"), ("reciprocal", "o")),
}


def form_of(v: Value) -> Form:
    """Return the steps of an elementwise value; empty if the row's own kernel is needed."""
    row = row_of(v)
    if isinstance(row.numpy, np.ufunc):
        name = row.numpy.__name__
        return ((name, *LETTERS[: len(v.args)]),) if getattr(np, name, None) is row.numpy and not v.attrs else ()
    if v.dtype.kind not in "fc" or any(a.dtype != v.dtype for a in v.args if a is not None):
        return ()
    return _with_attributes(v) if v.attrs else _FLOAT.get(v.op, ())


def _with_attributes(v: Value) -> Form:
    attrs = v.attrs
    if v.op == "power":
        return _POWERS.get(attrs["exponent"], ())
    if v.op == "clamp":
        low, high = attrs["min"], attrs["max"]
        if low is None or high is None:
            return (("minimum", "x", high),) if low is None else (("maximum", "x", low),)
        return ("maximum", "x", low), ("minimum", "o", high)
    if v.op == "leaky_relu" and 0 < attrs["negative_slope"] <= 1:
        return ("multiply", "x", attrs["negative_slope"]), ("maximum", "x", "o")
    if v.op == "addcmul":
        return ("multiply", "y", "z"), *_times(attrs["value"]), ("add", "x", "o")
    if v.op == "addcdiv":
        return ("divide", "y", "z"), *_times(attrs["value"]), ("add", "x", "o")
    return ()


def _times(value: Any) -> Form:
    return () if value == 1 else (("multiply", "o", value),)


def writes_out(v: Value) -> bool:
    """True if a value without steps can be written into existing memory: matrix products, and some `where` values."""
    return v.op == "matmul" or (v.op == "where" and _chosen_by_bits(v))


def _chosen_by_bits(v: Value) -> bool:
    condition, x, y = v.args
    return v.dtype.name in _WIDE and condition.shape == v.shape and {x.shape, y.shape} <= {(), v.shape}


def is_zero(v: Value) -> bool:
    return v.op == LITERAL and v.value.__class__ is int and v.value == 0


def is_masked(condition: Value, x: Value) -> bool:
    """True if a choice between `x` and 0 is computed by multiplying bits with the condition."""
    return x.dtype.name in _WIDE and condition.shape == x.shape and x.size >= select.LARGE


def overwritable(v: Value, form: Form) -> list[Value]:
    """Return the arguments whose memory the result may overwrite, if nothing else reads them: those that only the first step reads."""
    if not form:
        return [a for a in v.args[1:] if a.op != LITERAL] if v.op == "where" and _has_zero(v) else []
    read_later = {name for step in form[1:] for name in step[1:]}
    kept = {id(a) for name, a in zip(LETTERS, v.args, strict=False) if name in read_later}
    return [a for a in dict.fromkeys(v.args) if id(a) not in kept]


def _has_zero(v: Value) -> bool:
    """True if one side of a choice is the number 0: then each element is read once, before it is written."""
    return any(map(is_zero, v.args[1:]))


def is_plain_sum(v: Value) -> bool:
    """True if NumPy's sum is as accurate as the row's kernel, which preserves the digits of long sums along leading dimensions."""
    (x,), axis = v.args, v.attrs["axis"]
    if x.dtype != v.dtype or x.dtype.kind not in "fc":
        return False
    return x.size <= 1024 or (x.ndim - 1 in axis) or (axis == (0,) and x.shape[0] < 256)


def is_column_sum(v: Value) -> bool:
    """True if a sum is computed as a vector of ones times the matrix. BLAS is several times as fast as NumPy along the first dimension, and
    adds into several accumulators, which preserves more digits. For few rows this does not pay off, and for very many rows the row's kernel
    is more accurate."""
    (x,) = v.args
    columns = v.dtype.name in _WIDE and x.dtype == v.dtype and x.ndim == 2 and v.attrs == {"axis": (0,), "keepdims": False}
    return columns and 16 <= x.shape[0] <= 4096


def is_fresh(v: Value) -> bool:
    """True if the value is an array of its own: a result of a kernel of a row that is not a view (a test runs them all), or stacked by a
    loop. A carry may be the initial value of the loop."""
    if v.op == OUTPUT:
        whole = v.args[0]
        return is_fresh(whole) or (whole.row is SCAN and v.attrs["index"] >= whole.attrs["carries"])
    return v.row is not None and not v.row.view and TABLE.get(v.op) is v.row
