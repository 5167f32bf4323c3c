"""`np.sin(t)`, `array * t`, `np.add.reduce(t)`, `scipy.special.expit(t)`: universal functions, recorded and differentiable on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import dtypes, functional, linalg
from symgrad.interop import scipy_special
from symgrad.interop.operands import NO_FUNCTION, as_dtype, deliver, floating, given, on_arrays, operand, option, pair, public, tensor
from symgrad.interop.table import HARMLESS
from symgrad.tensor import Tensor, wrap

NAMES = {  # NumPy's name -> ours, where they differ
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "degrees": "rad2deg", "divide": "div", "equal": "eq", "fabs": "abs",
    "greater": "gt", "greater_equal": "ge", "invert": "bitwise_not", "left_shift": "bitwise_left_shift", "less": "lt",
    "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "power": "pow", "radians": "deg2rad",
    "right_shift": "bitwise_right_shift", "rint": "round", "subtract": "sub",
}  # fmt: skip
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin", "logical_and": "all", "logical_or": "any",
    "logaddexp": "logsumexp",
}  # fmt: skip
ACCUMULATIONS = {
    "add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin", "logaddexp": "logcumsumexp",
}  # fmt: skip
REFUSED: dict[np.ufunc, str] = {
    np.nextafter: "it counts in steps between floats, which have no derivative",
    np.spacing: "it counts in steps between floats, which have no derivative",
}


# those that are made of several of ours


def _cbrt(x: Any) -> Any:
    x = floating(x)
    return functional.sign(x) * functional.pow(x.abs(), 1 / 3)


def _modf(x: Any) -> tuple[Tensor, Tensor]:
    x = floating(x)
    whole = functional.trunc(x)
    return functional.where(functional.isinf(x), 0, x - whole), whole


def _frexp(x: Any) -> tuple[Tensor, Tensor]:
    """x = mantissa · 2**exponent. The logarithm may be off by one next to a power of two, which is put right."""
    x = floating(x)
    plain = functional.isfinite(x) & (x != 0)
    safe = functional.where(plain, x, 1).detach().abs()
    exponent = functional.floor(functional.log2(safe)) + 1
    mantissa = safe / functional.exp2(exponent)
    exponent = exponent + (mantissa >= 1) - (mantissa < 0.5).to(exponent.dtype)
    return functional.where(plain, x / functional.exp2(exponent), x), functional.where(plain, exponent, 0).int()


def _divmod(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = pair(x, y)
    return _floor_divide(x, y), functional.remainder(x, y)


def _floor_divide(x: Any, y: Any) -> Any:
    return functional.div(x, y, rounding_mode="floor")


def _heaviside(x: Any, y: Any) -> Any:
    """It has a slope in its value at 0."""
    x, y = pair(x, y)
    return functional.where(x == 0, y, functional.where(x < 0, 0, functional.where(x > 0, 1, x)))


def _vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    return linalg.vecdot(*map(floating, pair(x, y)), dim=axis)


def _matvec(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    return (x @ y.unsqueeze(-1)).squeeze(-1)


def _vecmat(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    return (functional.conj(x).unsqueeze(-2) @ y).squeeze(-2)


UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.cbrt: _cbrt, np.modf: _modf, np.frexp: _frexp, np.divmod: _divmod, np.vecdot: _vecdot, np.matvec: _matvec, np.vecmat: _vecmat,
    np.floor_divide: _floor_divide, np.heaviside: _heaviside,
}  # fmt: skip
for _ufunc in {f for f in vars(np).values() if isinstance(f, np.ufunc)} - UFUNCS.keys():
    _found = public(NAMES.get(_ufunc.__name__, _ufunc.__name__))
    if _found is not None:
        UFUNCS[_ufunc] = _found


def adapter_of(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """What stands for a universal function: by the object, since other libraries have functions of the same names."""
    return UFUNCS.get(ufunc) or scipy_special.adapter_of(ufunc)


def _title(ufunc: np.ufunc, method: str) -> str:
    library = "numpy" if getattr(np, ufunc.__name__, None) is ufunc else "scipy.special"
    return f"{library}.{ufunc.__name__}" if method == "__call__" else f"{library}.{ufunc.__name__}.{method}"


def _on_arrays(ufunc: np.ufunc, method: str, inputs: Any, options: Any) -> Any:
    """What we have no function for is NumPy's own where no derivative is asked for, as in PyTorch."""
    reason = REFUSED.get(ufunc) or scipy_special.refusal(ufunc) or NO_FUNCTION
    results = on_arrays(_title(ufunc, method), reason, getattr(ufunc, method), inputs, options)
    if isinstance(results, tuple):
        return tuple(wrap(result) for result in results)
    return None if results is None else wrap(results)


def _loop(ufunc: np.ufunc, args: list[Any], dtype: Any) -> Any:
    """The types of operands for results of a type, as NumPy says, or its error."""
    kinds = [x._array.dtype if isinstance(x, Tensor) else np.dtype(bool) if isinstance(x, bool) else type(x) for x in args]
    nothing = [None] * ufunc.nin
    found = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), signature=(*nothing, *[np.dtype(dtype)] * ufunc.nout))
    return found[: ufunc.nin]


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any) -> Any:
    args = [operand(x) for x in inputs]
    if dtype is not None:
        args = [tensor(x).to(as_dtype(needed)) for x, needed in zip(args, _loop(ufunc, args, dtype), strict=True)]
    adapter = adapter_of(ufunc)
    assert adapter is not None
    return adapter(*args)


def _reduce(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, initial: Any = np._NoValue, where: Any = True
) -> Any:
    x = tensor(array) if dtype is None else tensor(array).to(dtypes.of(np.dtype(dtype)))
    if where is not True:
        x = functional.where(tensor(where), x, _identity(ufunc, initial))
    found = _reduced(REDUCTIONS[ufunc.__name__], x, axis, keepdims is True)
    return _call(ufunc, (found, initial), None).to(found.dtype) if given(initial) else found


def _identity(ufunc: np.ufunc, initial: Any) -> Any:
    """What stands where a mask is False."""
    fill = initial if ufunc.identity is None else ufunc.identity
    if not given(fill):
        raise ValueError(f"{ufunc.__name__} does not have an identity, so to use a where mask one has to specify 'initial'")
    return operand(fill)


def _reduced(name: str, x: Tensor, axis: Any, keepdims: bool) -> Any:
    """All axes for None, and none of them for ()."""
    axis = tuple(range(x.ndim)) if axis is None else axis
    if isinstance(axis, tuple) and not axis:
        x, axis, keepdims = x.unsqueeze(0), 0, False
    if name == "prod" and isinstance(axis, tuple):
        return _one_by_one(public(name), x, axis, keepdims)
    return public(name)(x, dim=axis, keepdim=keepdims)


def _one_by_one(function: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction that takes one dimension at a time."""
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = function(x, dim=axis, keepdim=keepdims)
    return x


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    x = tensor(array) if dtype is None else tensor(array).to(dtypes.of(np.dtype(dtype)))
    result = public(ACCUMULATIONS[ufunc.__name__])(x, dim=axis)
    return result[0] if isinstance(result, tuple) else result


def _outer(ufunc: np.ufunc, x: Any, y: Any, dtype: Any = None) -> Any:
    x, y = tensor(x), tensor(y)
    return _call(ufunc, (x.reshape(*x.shape, *[1] * y.ndim), y), dtype)


_METHODS: dict[str, Any] = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer}
_BY_METHOD = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}


def _supported(ufunc: np.ufunc, method: str) -> bool:
    if method in _BY_METHOD:
        return ufunc in UFUNCS and ufunc.__name__ in _BY_METHOD[method]
    return method in ("__call__", "outer") and adapter_of(ufunc) is not None


_OPTIONS: dict[str, set[str]] = {"reduce": {"axis", "keepdims", "initial", "where"}, "accumulate": {"axis"}}


def _is_usual(key: str, value: Any) -> bool:
    """Whether an option makes no difference to tensors."""
    if isinstance(value, (bool, str)) and value in HARMLESS.get(key, ()):
        return True
    return value is np._NoValue or (key == "where" and value is True) or (key == "casting" and value == "same_kind")


def __array_ufunc__(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    if not _supported(ufunc, method):
        return _on_arrays(ufunc, method, inputs, options)
    out, dtype = options.pop("out", None), options.pop("dtype", None)
    options = {key: value for key, value in options.items() if not _is_usual(key, value)}
    allowed = _OPTIONS.get(method, {"axis"} if ufunc is np.vecdot else set())
    if options.keys() - allowed:
        raise option(_title(ufunc, method), f"does not take {', '.join(sorted(options.keys() - allowed))}")
    if method != "__call__":
        result = _METHODS[method](ufunc, *inputs, dtype=dtype, **options)
    else:
        result = _vecdot(*inputs, **options) if options else _call(ufunc, inputs, dtype)
    return deliver(ufunc.__name__, result, out)


setattr(Tensor, "__array_ufunc__", __array_ufunc__)  # noqa: B010  (given to Tensor here, as all its methods are where they are made)
