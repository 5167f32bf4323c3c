"""The third `xp`: a namespace whose ops add values to a frozen graph, so that one rule differentiates arrays and programs alike.

Operands are promoted by the dispatcher's own policy. What the dispatcher does implicitly is explicit here: a `cast` where an operand
changes type, and a literal in the compute type where an operand is a Python number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.fold import FOLDS, fold, normal_attrs
from symgrad.compiler.ir.graph import Value, application, intern, literal, outputs_of
from symgrad.errors import GraphError, describe
from symgrad.ops.exact import Exact, exact, is_exact
from symgrad.ops.infix import install
from symgrad.ops.namespace import namespace
from symgrad.ops.promotion import FLOAT32, compute_type, kind
from symgrad.ops.spec import Row
from symgrad.ops.symbolic_scalar import ScalarForm, SymbolicScalar, is_symbolic_scalar, walk_form
from symgrad.ops.table import TABLE
from symgrad.ops.variants import is_half, rounds_number

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace

_WIDE = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}
"""The type in which a program computes with Python numbers that are its inputs."""
_SEVERAL = frozenset(("lerp", "addcmul", "addcdiv", "power"))
_WIDENED = frozenset(("mul", "div", "floor_divide")) | _SEVERAL
"""Rows that compute in float32 for half-precision operands: those of several steps always, the others if half precision would round a
Python number."""
_NUMBERS = (bool, int, float, complex)
_HOLDERS = {"f": ("f", "c"), "c": ("c",)}
"""Tensor kinds that store a float or a complex number without conversion; integers keep their own type."""


def apply(row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Return the value of a row applied to values and Python numbers; a tuple of values for a row with several outputs."""
    args = tuple([arg if arg.__class__ is Value else _operand(row, arg) for arg in args])
    if row.name in _WIDENED and _loses_digits(row, args):
        return _widened(row, args, attrs)
    args = _meet(row, args)
    meta = row.type(*args, **attrs)
    if row.compose is not None and row.elementwise and row.name not in TABLE:  # a user-defined op: the graph holds its composition
        return xp.expand(xp.cast(row.compose(xp, *args, **attrs), dtype=meta.dtype), shape=meta.shape)
    if row.elementwise and row.policy != "each":  # those have the shape of an operand, others that of all together
        args = _unspread(args, meta.shape)
    attrs = normal_attrs(row.name, args, attrs, meta)
    if isinstance(meta, tuple):
        return outputs_of(application(row, args, attrs, meta))
    simpler = fold(xp, row.name, args, attrs, meta) if row.name in FOLDS.by_op else None
    return application(row, args, attrs, meta) if simpler is None else simpler


def _loses_digits(row: Row, args: tuple[Any, ...]) -> bool:
    """True if half precision would round a Python number that eager code uses in float32."""
    numbers = [(i, a) for i, a in enumerate(args) if a is not None and not isinstance(a, Value)]
    if row.policy == "same" or (not numbers and row.name not in _SEVERAL):
        return False
    dtype = compute_type(row.policy, args)
    if dtype is None or not is_half(dtype):
        return False
    return row.name in _SEVERAL or any(not rounds_number(row, i) and not _fits(a, dtype) for i, a in numbers)


def _fits(number: Any, dtype: Any) -> bool:
    if is_symbolic_scalar(number) or isinstance(number, (Exact, complex)):
        return False
    with np.errstate(all="ignore"):
        return bool(float(np.asarray(number, dtype)) == number)


def _widened(row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Apply the row in float32 to half-precision operands, and cast the result back. Python numbers stay exact, except those that eager
    code rounds first."""
    dtype = compute_type(row.policy, args)
    wide = [
        xp.cast(a if isinstance(a, Value) else _number(a, dtype), dtype=FLOAT32) if isinstance(a, Value) or rounds_number(row, i) else a
        for i, a in enumerate(args)
    ]
    return xp.cast(apply(row, tuple(wide), attrs), dtype=dtype)


def again(v: Value, args: tuple[Any, ...]) -> Any:
    """Apply the row of `v` to other arguments of the same types; skips promotion and type inference."""
    if v.row is not None and v.row.elementwise and v.row.policy != "each":
        args = _unspread(args, v.shape)
    if isinstance(v.dtype, tuple):
        return outputs_of(intern(v.op, v.row, args, v.attrs, v.shape, v.dtype))
    simpler = fold(xp, v.op, args, v.attrs, v) if v.op in FOLDS.by_op else None
    return intern(v.op, v.row, args, v.attrs, v.shape, v.dtype) if simpler is None else simpler


def with_args(v: Value, args: tuple[Any, ...]) -> Any:
    """Return `again(v, args)`, or the application unchanged if its arguments are."""
    return outputs_of(v) if all(map(operator.is_, args, v.args)) else again(v, args)


def detached(v: Value) -> Value:
    """Return detach(v) without type inference: it has the type of v."""
    simpler = fold(xp, "detach", (v,), {}, v)
    return intern("detach", TABLE["detach"], (v,), {}, v.shape, v.dtype) if simpler is None else simpler


def _operand(row: Row, arg: Any) -> Any:
    if arg is None or isinstance(arg, Value):
        return arg
    if isinstance(arg, np.generic):
        return arg.item()
    if isinstance(arg, _NUMBERS):
        return arg
    if is_exact(arg):
        return exact(arg)
    raise GraphError(f"{row.name}: a graph is built from values and numbers, got {describe(arg)}")


def _meet(row: Row, args: tuple[Any, ...]) -> tuple[Any, ...]:
    given = tuple([a for a in args if a is not None])
    dtype = compute_type(row.policy, given) if given else None
    keep_first = row.policy == "where"
    return tuple([_typed(arg, None if keep_first and i == 0 else dtype, args[0]) for i, arg in enumerate(args)])


def _typed(arg: Any, dtype: Any, first: Any) -> Any:
    if arg is None:
        return None
    if isinstance(arg, Value):
        return arg if dtype is None or arg.dtype == dtype else apply(TABLE["cast"], (arg,), {"dtype": dtype})
    return _number(arg, _number_type(arg, first) if dtype is None else dtype)


def _number_type(x: Any, first: Any) -> Any:
    """Return the type of a Python number whose row states none: it is written into the first operand, and must not lose digits before."""
    wide = _WIDE[next(cls for cls in _NUMBERS if isinstance(x, cls))]
    return first.dtype if isinstance(first, Value) and kind(first.dtype) in _HOLDERS.get(wide.kind, ()) else wide


def _number(x: Any, dtype: Any) -> Value:
    """Return a number as a value of type `dtype`: a symbolic scalar as a cast, an exact number as the application that it records, any
    other as a literal."""
    if is_symbolic_scalar(x):
        return apply(TABLE["cast"], (symbolic_scalar_value(x),), {"dtype": dtype})  # type: ignore[no-any-return]
    if not isinstance(x, Exact):
        return literal(x, dtype)
    name, *args = x.form
    return apply(TABLE[name], tuple(_number(a, dtype) for a in args), {})  # type: ignore[no-any-return]


def symbolic_scalar_value(x: SymbolicScalar) -> Value:
    """Return the value of a symbolic scalar, an input or computed from inputs, in the width in which Python computes it."""
    if x.value is None:
        x.value = _computed(x.form, _WIDE[type(x.number)])
    return x.value  # type: ignore[no-any-return]


def _computed(form: Any, dtype: Any) -> Value:
    """Return the value of a form, in which every part is computed in type `dtype`."""

    def leaf(x: Any) -> Value | None:
        if isinstance(x, ScalarForm):
            return x.values.get(dtype)
        if not isinstance(x, Value):
            return literal(x, dtype)
        return x if x.dtype == dtype else apply(TABLE["cast"], (x,), {"dtype": dtype})

    def applied(part: ScalarForm, operands: list[Value]) -> Any:
        part.values[dtype] = value = apply(TABLE[part.name], tuple(operands), {})
        return value

    return walk_form(form, {}, leaf, applied)  # type: ignore[no-any-return]


def _unspread(args: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the operands without an `expand` where broadcasting has the same effect."""
    result = list(args)
    for i, arg in enumerate(args):
        if isinstance(arg, Value) and arg.op == "expand":
            others = (a.shape for j, a in enumerate(result) if j != i and a is not None)
            if np.broadcast_shapes(arg.args[0].shape, *others) == shape:
                result[i] = arg.args[0]
    return tuple(result)


def _build(row: Row) -> Callable[..., Any]:
    def op(*args: Any, **attrs: Any) -> Any:
        return apply(row, args, attrs)

    op.__name__ = row.name
    return op


xp: Namespace[Value] = namespace(_build)
install(Value, xp)
