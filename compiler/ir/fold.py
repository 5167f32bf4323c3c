"""Simplifications that hold exactly, applied while a graph is built: each is an equation of real numbers that removes an operation.

A fold is `fold(xp, args, meta, **attrs)`, where `meta` is the type of the result; it returns the simpler value or None. Its operands are
already cast, so a value that it returns needs at most an `expand` to the shape of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symgrad.compiler.ir.graph import Value, is_literal, literal
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import normalize_axis
from symgrad.ops.spec import Meta
from symgrad.ops.writing import write_parts

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace

Fold = Callable[..., Value | None]
FOLDS: dict[str, Fold] = {}
_EXACT = 256
"""Integers up to this magnitude are exact in every float type, including bfloat16."""


def fold(*names: str) -> Callable[[Fold], Fold]:
    """Register a fold for the rows of these names."""
    def enter(function: Fold) -> Fold:
        FOLDS.update(dict.fromkeys(names, function))
        return function

    return enter


def number(x: Any) -> Any:
    """Return the Python number that fills a value, or None if none is known to."""
    while isinstance(x, Value) and x.op in ("expand", "reshape"):
        x = x.args[0]
    return x.value if is_literal(x) else None


def filled(xp: Namespace[Value], value: Any, meta: Meta) -> Value:
    """Return a value of type `meta` filled with one number."""
    return xp.expand(literal(value, meta.dtype), shape=meta.shape)


def _exact(*values: Any) -> bool:
    return all(type(v) is int and abs(v) <= _EXACT for v in values)


def _is_exact_zero(value: Any, meta: Meta) -> bool:
    """True if a factor is an exact integer zero, as rules write it. A float 0.0 comes from the user: times NaN or infinity it is NaN, as
    in eager mode."""
    return bool(value == 0) and (type(value) is not float or kind(meta.dtype) not in "fc")


@fold("add")
def _add(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    x, y = args
    a, b = number(x), number(y)
    if b == 0:  # x + 0 -> x
        return xp.expand(x, shape=meta.shape)
    if a == 0:  # 0 + y -> y
        return xp.expand(y, shape=meta.shape)
    if _exact(a, b) and _exact(a + b):
        return filled(xp, a + b, meta)
    return None


@fold("sub")
def _sub(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    x, y = args
    a, b = number(x), number(y)
    if b == 0:  # x - 0 -> x
        return xp.expand(x, shape=meta.shape)
    if _exact(a, b) and _exact(a - b):
        return filled(xp, a - b, meta)
    if a == 0 and meta.dtype.kind not in "bu":  # 0 - y -> -y
        return xp.expand(xp.neg(y), shape=meta.shape)
    return None


@fold("rsub")
def _rsub(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    return xp.sub(args[1], args[0])


@fold("mul")
def _mul(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    x, y = args
    a, b = number(x), number(y)
    if _is_exact_zero(a, meta) or _is_exact_zero(b, meta):  # 0 * x -> 0
        return filled(xp, 0, meta)
    if b == 1:  # x * 1 -> x
        return xp.expand(x, shape=meta.shape)
    if a == 1:  # 1 * y -> y
        return xp.expand(y, shape=meta.shape)
    if _exact(a, b) and _exact(a * b):
        return filled(xp, a * b, meta)
    return None


@fold("div")
def _div(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    x, y = args
    a, b = number(x), number(y)
    if b == 1:  # x / 1 -> x
        return xp.expand(x, shape=meta.shape)
    if not _exact(a, b) or b == 0:
        return None
    if a % b == 0:
        return filled(xp, a // b, meta)
    return filled(xp, a / b, meta) if b & (b - 1) == 0 else None  # 1 / 2 -> 0.5, which is exact; 1 / 3 is not


@fold("neg")
def _neg(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    (x,) = args
    if x.op == "neg":  # -(-x) -> x
        return x.args[0]  # type: ignore[no-any-return]
    value = number(x)
    return filled(xp, -value, meta) if type(value) in (int, float) and meta.dtype.kind in "ifc" else None


@fold("tanh_backward")
def _tanh_backward(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    g, y = args
    return 1 - y * y if number(g) == 1 and y.shape == meta.shape else None


@fold("power")
def _power(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, exponent: Any) -> Value | None:
    if exponent == 1:  # x ** 1 -> x
        return args[0]
    return filled(xp, 1, meta) if exponent == 0 else None  # x ** 0 -> 1


@fold("where")
def _where(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    c, x, y = args
    if x is y or number(c) is True:  # where(c, x, x) -> x, where(True, x, y) -> x
        return xp.expand(x, shape=meta.shape)
    return xp.expand(y, shape=meta.shape) if number(c) is False else None  # where(False, x, y) -> y


@fold("cast")
def _cast(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, dtype: Any) -> Value | None:
    (x,) = args
    if x.dtype == meta.dtype:
        return x
    if kind(x.dtype) == "c" and kind(meta.dtype) in "fi":  # JAX does not silently drop the imaginary part
        return xp.cast(xp.real(x), dtype=dtype)
    value = number(x)
    if (_exact(value) and meta.dtype.kind not in "bu") or type(value) is bool:
        return filled(xp, bool(value) if meta.dtype.kind == "b" else int(value), meta)
    return None


@fold("detach")
def _detach(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    (x,) = args
    return x if x.op == "detach" or number(x) is not None or kind(x.dtype) in "bi" else None


@fold("reshape")
def _reshape(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, shape: tuple[int, ...]) -> Value | None:
    (x,) = args
    if x.shape == meta.shape:
        return x
    if x.op == "reshape":  # only the last of several reshapes counts
        return xp.reshape(x.args[0], shape=meta.shape)
    return filled(xp, number(x), meta) if number(x) is not None else None


@fold("expand")
def _expand(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, shape: tuple[int, ...]) -> Value | None:
    (x,) = args
    if x.shape == meta.shape:
        return x
    return xp.expand(x.args[0], shape=meta.shape) if x.op == "expand" else None


@fold("transpose")
def _transpose(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, dim0: int, dim1: int) -> Value | None:
    (x,) = args
    if dim0 == dim1:
        return x
    if x.op == "transpose" and {x.attrs["dim0"], x.attrs["dim1"]} == {dim0, dim1}:  # (xᵀ)ᵀ -> x
        return x.args[0]  # type: ignore[no-any-return]
    return filled(xp, number(x), meta) if number(x) is not None else None


@fold("t")
def _t(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    return xp.transpose(args[0], dim0=0, dim1=1) if args[0].ndim == 2 else args[0]


@fold("permute")
def _permute(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, axes: tuple[int, ...]) -> Value | None:
    (x,) = args
    moved = [i for i, axis in enumerate(axes) if axis % x.ndim != i]
    if not moved:
        return x
    return xp.transpose(x, dim0=moved[0], dim1=moved[1]) if len(moved) == 2 else None


@fold("squeeze", "unsqueeze")
def _squeeze(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, **attrs: Any) -> Value | None:
    return xp.reshape(args[0], shape=meta.shape)


@fold("embed")
def _embed(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, shape: tuple[int, ...], index: tuple[Any, ...]) -> Value | None:
    (x,) = args
    turned = any(isinstance(i, slice) and i.step is not None and i.step < 0 for i in index)
    return xp.reshape(x, shape=shape) if x.size == Value.size.fget(meta) and not turned else None  # type: ignore[attr-defined]  # x fills the result


@fold("view_write")
def _view_write(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, path: Any) -> Value | None:
    """Split a write through a view of another type, such as z.real, into writes that change no type."""
    base, value = args
    return write_parts(xp, base, value, path)


@fold("amax", "amin")
def _amax(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, axis: tuple[int, ...], keepdims: bool) -> Value | None:
    (x,) = args
    return xp.reshape(x, shape=meta.shape) if all(x.shape[i] == 1 for i in axis) else None  # the extreme of one element


@fold("sum")
def _sum(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, *, axis: tuple[int, ...], keepdims: bool) -> Value | None:
    (x,) = args
    if all(x.shape[i] == 1 for i in axis) and x.dtype == meta.dtype:
        return xp.reshape(x, shape=meta.shape)
    value, count = number(x), x.size // max(Value.size.fget(meta), 1)  # type: ignore[attr-defined]
    return filled(xp, value * count, meta) if _exact(value) and _exact(value * count) else None


@fold("matmul")
def _matmul(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta) -> Value | None:
    if any(_is_exact_zero(number(x), meta) for x in args):  # 0 @ x -> 0
        return filled(xp, 0, meta)
    x, y = args
    if _is_identity(x) and y.shape == meta.shape:  # I @ y -> y
        return y
    if _is_identity(y) and x.shape == meta.shape:  # x @ I -> x
        return x
    d = _diagonal(x)
    return xp.reshape(d, shape=(d.size, 1)) * y if d is not None and y.ndim == 2 else None  # diag(d) @ y -> d yᵢ, row by row


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
            if _is_identity(matrix):
                return vector
    return None


def _is_identity(x: Value) -> bool:
    return x.op == "eye" and x.shape[0] == x.shape[1]


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


@fold("inv")
def _inv(xp: Namespace[Value], args: tuple[Value, ...], meta: Meta, check: bool) -> Value | None:
    (x,) = args
    if x.op == "transpose" and {normalize_axis(d, x.ndim) for d in x.attrs.values()} == {x.ndim - 2, x.ndim - 1}:  # (xᵀ)⁻¹ -> (x⁻¹)ᵀ
        return xp.transpose(xp.inv(x.args[0], check=check), **x.attrs)
    return None
