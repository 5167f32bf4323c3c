"""The third `xp`: a namespace whose ops add values to a frozen graph, so that one rule differentiates arrays and programs alike.

Operands meet by the dispatcher's own promotion policy. What it does silently is written out here: a `cast` where an operand changes
type, and a literal in the type of the computation where it is a Python number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.graph.fold import FOLDS, normal_attrs
from symgrad.compiler.graph.ir import Value, application, intern, literal, output
from symgrad.errors import GraphError, describe
from symgrad.ops.exact import Exact, exact, is_exact
from symgrad.ops.infix import install
from symgrad.ops.namespace import namespace
from symgrad.ops.promotion import compute_type, scalar_type
from symgrad.ops.spec import Meta, Row
from symgrad.ops.table import TABLE
from symgrad.ops.weak import Weak, is_weak

_WIDE = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}
"""In which type a program computes with Python numbers that are its inputs."""
_NUMBERS = (bool, int, float, complex)


def apply(row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The value of a row applied to values and Python numbers; a tuple of values for a row with several outputs."""
    args = _meet(row, tuple([arg if arg.__class__ is Value else _operand(row, arg) for arg in args]))
    meta = row.type(*args, **attrs)
    if row.compose is not None and row.elementwise and row.name not in TABLE:  # a user's own: in a graph it is what it is made of
        return xp.expand(xp.cast(row.compose(xp, *args, **attrs), dtype=meta.dtype), shape=meta.shape)
    if row.elementwise:
        args = _unspread(args, meta.shape)
    attrs = normal_attrs(row.name, args, attrs, meta)
    if not isinstance(meta, tuple):
        simpler = FOLDS[row.name](xp, args, meta, **attrs) if row.name in FOLDS else None
        return application(row, args, attrs, meta) if simpler is None else simpler
    whole = application(row, args, attrs, meta)
    return tuple(output(whole, i) for i in range(len(meta)))


def again(v: Value, args: tuple[Any, ...]) -> Any:
    """The row of a value applied to other arguments of the same types, of which nothing has to be found out."""
    if v.row is not None and v.row.elementwise:
        args = _unspread(args, v.shape)
    if isinstance(v.dtype, tuple):
        whole = intern(v.op, v.row, args, v.attrs, v.shape, v.dtype)
        return tuple(output(whole, i) for i in range(len(v.dtype)))
    simpler = FOLDS[v.op](xp, args, Meta(v.shape, v.dtype), **v.attrs) if v.op in FOLDS else None
    return intern(v.op, v.row, args, v.attrs, v.shape, v.dtype) if simpler is None else simpler


def detached(v: Value) -> Value:
    """detach(v), which has the type of v."""
    simpler = FOLDS["detach"](xp, (v,), None)
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
    return tuple([_typed(arg, None if keep_first and i == 0 else dtype) for i, arg in enumerate(args)])


def _typed(arg: Any, dtype: Any) -> Any:
    if arg is None:
        return None
    if isinstance(arg, Value):
        return arg if dtype is None or arg.dtype == dtype else apply(TABLE["cast"], (arg,), {"dtype": dtype})
    return _number(arg, scalar_type(arg) if dtype is None else dtype)


def _number(x: Any, dtype: Any) -> Value:
    """A literal; an exact number is the application that it remembers, in the type of the computation. A weak one is no literal."""
    if is_weak(x):
        return apply(TABLE["cast"], (weak_value(x),), {"dtype": dtype})  # type: ignore[no-any-return]
    if not isinstance(x, Exact):
        return literal(x, dtype)
    name, *args = x.form
    return apply(TABLE[name], tuple(_number(a, dtype) for a in args), {})  # type: ignore[no-any-return]


def weak_value(x: Weak) -> Value:
    """What stands for a weak number: an input, or what was computed from inputs, as wide as Python computes it."""
    if x.value is None:
        x.value = _computed(x.form, _WIDE[type(x.number)])
    return x.value  # type: ignore[no-any-return]


def _computed(form: Any, dtype: Any) -> Value:
    if isinstance(form, Value):
        return form if form.dtype == dtype else apply(TABLE["cast"], (form,), {"dtype": dtype})
    if not isinstance(form, tuple):
        return literal(form, dtype)
    name, *operands = form
    return apply(TABLE[name], tuple(_computed(x, dtype) for x in operands), {})  # type: ignore[no-any-return]


def _unspread(args: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Operands as they were before an `expand`, where broadcasting does the same."""
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


xp: Any = namespace(_build)
install(Value, xp)
