"""`np.sin(t)`, `array * t`, `np.add.reduce(t)`: NumPy's universal functions, recorded and differentiable on tensors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.interop.operands import any_requires_grad, as_arrays, deliver, operand, public, tensor
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


def unsupported(name: str) -> TypeError:
    """The error for a function of NumPy's that has no counterpart."""
    return TypeError(
        f"numpy.{name} is not supported on tensors: use a function of symgrad, or call it on tensor.detach().numpy(), which has no"
        " derivative"
    )


@functools.cache
def _supported(ufunc: np.ufunc, method: str) -> bool:
    names = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}.get(method, {ufunc.__name__: NAMES.get(ufunc.__name__, ufunc.__name__)})
    return method != "at" and ufunc.nout == 1 and public(names.get(ufunc.__name__, "")) is not None


def _on_arrays(ufunc: np.ufunc, method: str, inputs: Any, options: Any) -> Any:
    """What we have no function for is NumPy's own where no derivative is asked for, as in PyTorch."""
    results = getattr(ufunc, method)(*as_arrays(inputs), **as_arrays(options))
    if isinstance(results, tuple):
        return tuple(wrap(result) for result in results)
    return None if results is None else wrap(results)


@functools.cache
def _function(ufunc: np.ufunc) -> Any:
    found = public(NAMES.get(ufunc.__name__, ufunc.__name__))
    if found is None or ufunc.nout != 1:
        raise unsupported(ufunc.__name__)
    return found


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any) -> Tensor:
    args = [operand(x) for x in inputs]
    if dtype is not None:
        args = [tensor(x).to(dtypes.of(np.dtype(dtype))) for x in args]
    result: Tensor = _function(ufunc)(*args)
    return result


def _reduce(ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    name = REDUCTIONS.get(ufunc.__name__)
    if name is None or public(name) is None:
        raise unsupported(f"{ufunc.__name__}.reduce")
    x = tensor(array) if dtype is None else tensor(array).to(dtypes.of(np.dtype(dtype)))
    if axis is None:
        axis = tuple(range(x.ndim))
    if name == "prod" and isinstance(axis, tuple):
        return _one_by_one(public(name), x, axis, keepdims)
    return public(name)(x, dim=axis, keepdim=keepdims)


def _one_by_one(function: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduction that takes one dimension at a time."""
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = function(x, dim=axis, keepdim=keepdims)
    return x


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    name = ACCUMULATIONS.get(ufunc.__name__)
    if name is None or public(name) is None:
        raise unsupported(f"{ufunc.__name__}.accumulate")
    x = tensor(array) if dtype is None else tensor(array).to(dtypes.of(np.dtype(dtype)))
    result = public(name)(x, dim=axis)
    return result[0] if isinstance(result, tuple) else result


def _outer(ufunc: np.ufunc, x: Any, y: Any, dtype: Any = None) -> Tensor:
    x, y = tensor(x), tensor(y)
    return _call(ufunc, (x.reshape(*x.shape, *[1] * y.ndim), y), dtype)


_METHODS: dict[str, Any] = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer}


def __array_ufunc__(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    if not _supported(ufunc, method) and not any_requires_grad((inputs, options)):
        return _on_arrays(ufunc, method, inputs, options)
    out, dtype = options.pop("out", None), options.pop("dtype", None)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    options = {key: value for key, value in options.items() if not (key == "where" and value is True)}
    if method != "__call__" and method not in _METHODS:
        raise unsupported(name)
    if options.keys() - ({"axis", "keepdims"} if method != "__call__" else set()):
        raise TypeError(f"numpy.{name} on tensors does not take {', '.join(sorted(options))}")
    result = _call(ufunc, inputs, dtype) if method == "__call__" else _METHODS[method](ufunc, *inputs, dtype=dtype, **options)
    return deliver(name, result, out)


setattr(Tensor, "__array_ufunc__", __array_ufunc__)  # noqa: B010  (given to Tensor here, as all its methods are where they are made)
