"""Simplifications that hold exactly, applied while a graph is built: each is an equation of real numbers that removes an operation.

They define the form of a graph, so they match what is there, not a normal form, and cannot be switched off. Operands are already cast, and
a result is expanded to the shape of what it replaces. The first rule that matches is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.graph import Value, number as number
from symgrad.compiler.ir.pattern import P, constant, variable
from symgrad.compiler.ir.rule import Application, Rule, RuleIndex, filled as filled
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import normalize_axis
from symgrad.ops.writing import write_parts

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace

_EXACT = 256
"""Integers up to this magnitude are exact in every float type, including bfloat16."""


# conditions


def _exact(*values: Any) -> bool:
    return all([type(v) is int and abs(v) <= _EXACT for v in values])


def _has_exact_zero(m: Any) -> bool:
    """True if a factor is an exact integer zero, as rules write it. A float 0.0 comes from the user: times NaN or infinity it is NaN, as
    in eager mode."""
    factors = [number(x) for x in m.meta.args]
    return any([f is not None and f == 0 and (type(f) is not float or kind(m.meta.dtype) not in "fc") for f in factors])


def _exact_quotient(m: Any) -> bool:
    return _exact(m.a, m.b) and m.b != 0 and (m.a % m.b == 0 or m.b & (m.b - 1) == 0)  # 1 / 2 is exact, 1 / 3 is not


def _is_signed(m: Any) -> bool:
    return m.meta.dtype.kind not in "bu"


def _same_type(m: Any) -> bool:
    return bool(m.x.dtype == m.meta.dtype)


def _same_shape(m: Any) -> bool:
    return bool(m.x.shape == m.meta.shape)


def _castable(m: Any) -> bool:
    return (_exact(m.a) and m.meta.dtype.kind not in "bu") or type(m.a) is bool


def _has_no_history(m: Any) -> bool:
    return m.x.op == "detach" or number(m.x) is not None or kind(m.x.dtype) in "bi"


def _reduces_one_element(m: Any) -> bool:
    return all([m.x.shape[i] == 1 for i in m.axis]) and m.x.dtype == m.meta.dtype


def _total(m: Any) -> Any:
    """The sum of equal numbers."""
    (x,) = m.meta.args
    return m.a * (x.size // max(int(np.prod(m.meta.shape, dtype=np.int64)), 1))


def _swaps_last(m: Any) -> bool:
    return {normalize_axis(d, m.x.ndim) for d in (m.i, m.j)} == {m.x.ndim - 2, m.x.ndim - 1}


# right sides that need Python


def _moved(m: Any) -> list[int]:
    """Return the axes that a permutation moves."""
    return [i for i, axis in enumerate(m.axes) if axis % m.x.ndim != i]


def _swap(xp: Namespace[Value], m: Any) -> Value:
    i, j = _moved(m)
    return xp.transpose(m.x, dim0=i, dim1=j)


def _reshaped(xp: Namespace[Value], m: Any) -> Value:
    return xp.reshape(m.x, shape=m.meta.shape)


def _fills(m: Any) -> bool:
    """True if a value fills what it is embedded in, in its own order: (start, stop, step) with a negative step turns it."""
    turned = any([i.__class__ is tuple and i[2] is not None and i[2] < 0 for i in m.index])
    return m.x.size == int(np.prod(m.meta.shape, dtype=np.int64)) and not turned


def _scaled_rows(xp: Namespace[Value], m: Any) -> Value | None:
    d = _diagonal(m.meta.args[0])
    return None if d is None else xp.reshape(d, shape=(d.size, 1)) * m.y


def _diagonal(x: Value) -> Value | None:
    """Return the vector d if x is d ∘ I = diag(d), else None."""
    if x.op != "mul":
        return None
    matrix: Value
    vector: Value
    for matrix, vector in (x.args, x.args[::-1]):
        if vector.ndim == 1 and matrix.ndim == 2:
            inner = _diagonal(matrix)
            if inner is not None:
                return inner * vector
            if matrix.op == "eye" and matrix.shape[0] == matrix.shape[1]:
                return vector
    return None


# the table

a, b, c, d, e, x, y = constant("a"), constant("b"), *map(variable, ("c", "d", "e", "x", "y"))
i, j, n = map(variable, ("i", "j", "n"))
axes, axis, check, dtype, index, inner, keepdims, path, shape = map(
    variable, ("axes", "axis", "check", "dtype", "index", "inner", "keepdims", "path", "shape")
)
_EYE = P.eye(rows=n, columns=n, dtype=dtype)
_SQUARE = {"n": 3, "dtype": np.dtype(np.float64), "x": (3, 3), "y": (3, 3)}
_ONE = {"x": (1, 3), "axis": (0,), "keepdims": False}

RULES = (
    Rule("add_zero", x + 0, x),
    Rule("add_constants", a + b, lambda xp, m: m.a + m.b, lambda m: _exact(m.a, m.b) and _exact(m.a + m.b), "the sum"),
    Rule("sub_zero", x - 0, x),
    Rule("sub_constants", a - b, lambda xp, m: m.a - m.b, lambda m: _exact(m.a, m.b) and _exact(m.a - m.b), "the difference"),
    Rule("zero_sub", 0 - x, -x, _is_signed),
    Rule("rsub", P.rsub(x, y), y - x),
    Rule("mul_zero", x * 0, 0, _has_exact_zero),
    Rule("mul_one", x * 1, x),
    Rule("mul_constants", a * b, lambda xp, m: m.a * m.b, lambda m: _exact(m.a, m.b) and _exact(m.a * m.b), "the product"),
    Rule("div_one", x / 1, x),
    Rule("div_constants", a / b, lambda xp, m: m.a // m.b if m.a % m.b == 0 else m.a / m.b, _exact_quotient, "the quotient"),
    Rule("neg_neg", P.neg(-x), x),
    Rule("neg_constant", -a, lambda xp, m: -m.a, lambda m: type(m.a) in (int, float) and m.meta.dtype.kind in "ifc", "the number"),
    Rule("tanh_backward_one", P.tanh_backward(1, x), 1 - x * x, _same_shape),
    Rule("tanh_backward_zero", P.tanh_backward(0, x), 0, _has_exact_zero),
    Rule("power_one", P.power(x, exponent=1), x),
    Rule("power_zero", P.power(x, exponent=0), 1),
    Rule("where_same", P.where(c, x, x), x, example={"c": np.array([True, False, True])}),
    Rule("where_true", P.where(True, x, y), x),
    Rule("where_false", P.where(False, x, y), y),
    Rule("cast_same", P.cast(x, dtype=dtype), x, _same_type, example={"dtype": np.dtype(np.float64)}),
    Rule(  # JAX does not silently drop the imaginary part
        "cast_complex", P.cast(x, dtype=dtype), P.cast(P.real(x), dtype=dtype),
        lambda m: kind(m.x.dtype) == "c" and kind(m.meta.dtype) in "fi",
        example={"x": np.array([1 + 2j, 3 - 1j]), "dtype": np.dtype(np.float64)}, differentiable=False,
    ),
    Rule(
        "cast_constant", P.cast(a, dtype=dtype), lambda xp, m: bool(m.a) if m.meta.dtype.kind == "b" else int(m.a), _castable, "the number",
        example={"dtype": np.dtype(np.float32)},
    ),
    Rule("detach_constant", P.detach(x), x, _has_no_history, example={"x": np.arange(3)}),
    Rule("reshape_same", P.reshape(x, shape=shape), x, _same_shape, example={"shape": (3,)}),
    Rule(
        "reshape_reshape", P.reshape(P.reshape(x, shape=inner), shape=shape), P.reshape(x, shape=shape),
        example={"x": (2, 3), "inner": (3, 2), "shape": (6,)},
    ),
    Rule("reshape_constant", P.reshape(a, shape=shape), lambda xp, m: m.a, None, "the number", example={"shape": (1, 1)}),
    Rule("expand_same", P.expand(x, shape=shape), x, _same_shape, example={"shape": (3,)}),
    Rule(
        "expand_expand", P.expand(P.expand(x, shape=inner), shape=shape), P.expand(x, shape=shape),
        example={"inner": (2, 3), "shape": (4, 2, 3)},
    ),
    Rule("transpose_nothing", P.transpose(x, dim0=i, dim1=i), x, example={"i": 0}),
    Rule(
        "transpose_transpose", P.transpose(P.transpose(x, dim0=i, dim1=j), dim0=i, dim1=j), x,
        example={"x": (2, 3), "i": 0, "j": 1},
    ),
    Rule(
        "transpose_constant", P.transpose(a, dim0=i, dim1=j), lambda xp, m: m.a, None, "the number",
        example={"a": np.full((2, 2), 2.0), "i": 0, "j": 1},
    ),
    Rule("t_matrix", P.t(x), P.transpose(x, dim0=0, dim1=1), lambda m: bool(m.x.ndim == 2), example={"x": (2, 3)}),
    Rule("t_vector", P.t(x), x),
    Rule("permute_nothing", P.permute(x, axes=axes), x, lambda m: not _moved(m), example={"axes": (0,)}),
    Rule(
        "permute_two", P.permute(x, axes=axes), _swap, lambda m: len(_moved(m)) == 2, "transpose(x)",
        example={"x": (2, 3, 4), "axes": (2, 1, 0)},
    ),
    Rule("squeeze", P.squeeze(x, axes=axes), _reshaped, None, "reshape(x)", example={"x": (3, 1), "axes": (1,)}),
    Rule("unsqueeze", P.unsqueeze(x, axis=axis), _reshaped, None, "reshape(x)", example={"axis": 0}),
    Rule(
        "embed_all", P.embed(x, shape=shape, index=index), _reshaped, _fills, "reshape(x)",
        example={"shape": (3,), "index": ((0, 3, 1),)},
    ),
    Rule(  # a write through a view of another type, such as z.real, is several writes that change no type
        "view_write_parts", P.view_write(x, y, path=path), lambda xp, m: write_parts(xp, m.x, m.y, m.path), None, "writes of its parts",
        example={"x": np.array([1 + 2j, 3 - 1j]), "y": (2,), "path": (("real", {}),)}, differentiable=False,
    ),
    Rule("amax_one", P.amax(x, axis=axis, keepdims=keepdims), _reshaped, _reduces_one_element, "reshape(x)", example=_ONE),
    Rule("amin_one", P.amin(x, axis=axis, keepdims=keepdims), _reshaped, _reduces_one_element, "reshape(x)", example=_ONE),
    Rule("sum_one", P.sum(x, axis=axis, keepdims=keepdims), _reshaped, _reduces_one_element, "reshape(x)", example=_ONE),
    Rule(
        "sum_constant", P.sum(a, axis=axis, keepdims=keepdims), lambda xp, m: _total(m), lambda m: _exact(m.a) and _exact(_total(m)),
        "a times the number of elements", example={"a": np.full((4, 3), 2.0), "axis": (0,), "keepdims": False},
    ),
    Rule("zero_matmul", P.matmul(0, x), 0, _has_exact_zero, example={"x": (3, 3)}),
    Rule("matmul_zero", P.matmul(x, 0), 0, _has_exact_zero, example={"x": (3, 3)}),
    Rule("eye_matmul", P.matmul(_EYE, x), x, _same_shape, example=_SQUARE),
    Rule("matmul_eye", P.matmul(x, _EYE), x, _same_shape, example=_SQUARE),
    Rule(
        "diagonal_matmul", P.matmul(d * e, y), _scaled_rows, lambda m: bool(m.y.ndim == 2), "d times the rows of y, if e is the identity",
        example={"e": lambda xp: xp.eye(rows=3, columns=3, dtype=np.dtype(np.float64)), "y": (3, 2)},
    ),
    Rule(
        "inv_transpose", P.inv(P.transpose(x, dim0=i, dim1=j), check=check), P.transpose(P.inv(x, check=check), dim0=i, dim1=j),
        _swaps_last, example={"x": (3, 3), "i": 0, "j": 1, "check": True},
    ),
)  # fmt: skip
FOLDS = RuleIndex(RULES, normal=False)


def fold(xp: Namespace[Value], op: str, args: tuple[Any, ...], attrs: Mapping[str, Any], meta: Any) -> Value | None:
    """Return a simpler value than the application of a row, None if there is none. `meta` is the type of the result."""
    for rule in FOLDS.may_apply(op, args):
        found = rule.apply(xp, Application(op, args, attrs, meta.shape, meta.dtype), False)
        if found is not None:
            return found
    return None


NORMAL: dict[str, Callable[..., dict[str, Any]]] = {
    "transpose": lambda x, dim0, dim1: dict(
        zip(("dim0", "dim1"), sorted((normalize_axis(dim0, x.ndim), normalize_axis(dim1, x.ndim))), strict=True)
    ),
}
"""Functions that normalize attributes, so that equal operations are one value."""


def normal_attrs(name: str, args: tuple[Any, ...], attrs: dict[str, Any], meta: Any) -> dict[str, Any]:
    """Return the attributes in the normal form that equal values share: inferred sizes, non-negative axes."""
    if name in ("reshape", "expand"):
        return {"shape": tuple(map(int, meta.shape))}
    return NORMAL[name](*args, **attrs) if name in NORMAL else attrs
