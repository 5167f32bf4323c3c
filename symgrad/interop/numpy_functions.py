"""`np.sum(t, axis=0)`, `np.concatenate([t, u])`: NumPy's other functions, recorded and differentiable on tensors.

Most are a function of ours under another name: `SAME` says which, and what its arguments are called here. Where the two differ in more
than names there is an adapter with NumPy's signature. What is in neither runs on the arrays if no tensor requires grad, as it does in
PyTorch, and is refused otherwise.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import conversion, creation, dtypes
from symgrad.interop.numpy_ufuncs import unsupported
from symgrad.interop.operands import any_requires_grad, as_arrays, deliver, operand, public, tensor
from symgrad.tensor import Tensor

SAME = {
    "all": "all", "amax": "amax", "amin": "amin", "angle": "angle", "any": "any", "argmax": "argmax", "argmin": "argmin",
    "argsort": "argsort", "around": "round", "array_equal": "equal", "broadcast_to": "broadcast_to", "clip": "clamp",
    "column_stack": "column_stack", "copy": "clone", "count_nonzero": "count_nonzero", "cross": "cross", "diag": "diag",
    "diagonal": "diagonal", "diff": "diff", "dstack": "dstack", "expand_dims": "unsqueeze", "hstack": "hstack",
    "imag": "imag", "inner": "inner", "isclose": "isclose", "allclose": "allclose", "kron": "kron", "max": "amax", "mean": "mean",
    "min": "amin", "moveaxis": "movedim", "nan_to_num": "nan_to_num", "nanmean": "nanmean", "nansum": "nansum", "outer": "outer",
    "ravel": "ravel", "real": "real", "roll": "roll", "rot90": "rot90", "round": "round", "sinc": "sinc", "squeeze": "squeeze",
    "stack": "stack", "sum": "sum", "swapaxes": "transpose", "take_along_axis": "take_along_dim", "tensordot": "tensordot",
    "trace": "trace", "tril": "tril", "triu": "triu", "vstack": "vstack",
}  # fmt: skip
ARGUMENTS = {
    "axis": "dim", "keepdims": "keepdim", "k": "diagonal", "axis1": "dim1", "axis2": "dim2", "a_min": "min", "a_max": "max",
    "axes": "dims",
}  # fmt: skip
BY_FUNCTION = {"roll": {"axis": "dims"}}
_POSITIONAL = {  # arguments that ours takes in this order, under whatever name
    "allclose": 2, "array_equal": 2, "broadcast_to": 2, "cross": 2, "inner": 2, "isclose": 2, "kron": 2, "outer": 2, "tensordot": 2,
    "take_along_axis": 2, "roll": 2, "moveaxis": 3, "swapaxes": 3,
}  # fmt: skip
_SEQUENCES = ("column_stack", "dstack", "hstack", "stack", "vstack")
_SKIPPED = {"order", "subok", "copy", "kind", "like", "casting"}

ADAPTERS: dict[Any, Callable[..., Any]] = {}


def _implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(adapter: Callable[..., Any]) -> Callable[..., Any]:
        ADAPTERS.update(dict.fromkeys(functions, adapter))
        return adapter

    return enter


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if not all(issubclass(cls, (Tensor, np.ndarray)) for cls in types):
        return NotImplemented
    adapter = ADAPTERS.get(func) or _same(func)
    if adapter is None:
        if any_requires_grad(args) or any_requires_grad(kwargs):
            raise unsupported(func.__name__)
        return func(*as_arrays(args), **as_arrays(kwargs))
    out = kwargs.pop("out", None) if "out" in kwargs else None
    return deliver(func.__name__, adapter(*args, **kwargs), out)


@functools.cache
def _same(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """The adapter of a function that only has other names for its arguments."""
    name = func.__name__
    ours = public(SAME.get(name, ""))
    if ours is None or getattr(np, name, None) is not func:
        return None
    signature = inspect.signature(func)
    renamed = {**ARGUMENTS, **BY_FUNCTION.get(name, {})}
    count = _POSITIONAL.get(name, 1)

    def adapter(*args: Any, **kwargs: Any) -> Any:
        given = list(signature.bind(*args, **kwargs).arguments.items())
        positional = [value for _, value in given[:count]]
        positional[0] = [tensor(x) for x in positional[0]] if name in _SEQUENCES else tensor(positional[0])
        others = [operand(x) if isinstance(x, np.ndarray) else x for x in positional[1:]]
        keywords = {renamed.get(key, key): _argument(key, value) for key, value in given[count:] if _meant(key, value)}
        return ours(positional[0], *others, **keywords)

    return adapter


def _meant(key: str, value: Any) -> bool:
    return key not in _SKIPPED and value is not None and value is not np._NoValue


def _argument(key: str, value: Any) -> Any:
    return dtypes.of(np.dtype(value)) if key == "dtype" else operand(value) if isinstance(value, np.ndarray) else value


def _call(name: str) -> Any:
    found = public(name)
    if found is None:
        raise unsupported(name)
    return found


def _type(dtype: Any) -> Any:
    return None if dtype is None else dtypes.of(np.dtype(dtype))


@_implements(np.shape)
def _shape(a: Tensor) -> tuple[int, ...]:
    return tuple(a.shape)


@_implements(np.ndim)
def _ndim(a: Tensor) -> int:
    return a.ndim


@_implements(np.size)
def _size(a: Tensor, axis: int | None = None) -> int:
    return a.numel() if axis is None else int(a.size(axis))


@_implements(np.iscomplexobj)
def _iscomplexobj(x: Tensor) -> bool:
    return conversion.is_complex(x)


@_implements(np.reshape)
def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    if order != "C":
        raise TypeError(f"numpy.reshape on tensors reads in C order only, not {order!r}")
    return tensor(a).reshape(shape)


@_implements(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Any:
    x = tensor(a)
    return x.permute(tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


@_implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    x = tensor(m)
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


@_implements(np.concatenate)
def _concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [tensor(x) for x in arrays]
    result = _call("cat")([x.reshape(-1) for x in parts] if axis is None else parts, dim=axis or 0)
    return result if dtype is None else result.to(_type(dtype))


@_implements(np.where)
def _where(condition: Any, /, *choices: Any) -> Any:
    return _call("where")(tensor(condition), *(operand(x) for x in choices)) if choices else _nonzero(condition)


@_implements(np.nonzero)
def _nonzero(a: Any) -> Any:
    return _call("nonzero")(tensor(a), as_tuple=True)


@_implements(np.argwhere)
def _argwhere(a: Any) -> Any:
    return _call("nonzero")(tensor(a))


@_implements(np.prod)
def _prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return np.multiply.reduce(tensor(a), axis=axis, dtype=dtype, keepdims=keepdims)  # type: ignore[call-overload]


@_implements(np.cumsum)
def _cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _running("cumsum", a, axis, dtype)


@_implements(np.cumprod)
def _cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    return _running("cumprod", a, axis, dtype)


def _running(name: str, a: Any, axis: int | None, dtype: Any) -> Any:
    x = tensor(a) if dtype is None else tensor(a).to(_type(dtype))
    return _call(name)(x.reshape(-1) if axis is None else x, dim=axis or 0)


@_implements(np.var)
def _var(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    return _call("var")(tensor(a), dim=axis, correction=ddof, keepdim=keepdims)


@_implements(np.std)
def _std(a: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    return _call("std")(tensor(a), dim=axis, correction=ddof, keepdim=keepdims)


@_implements(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    x = tensor(a)
    return _call("sort")(x.reshape(-1) if axis is None else x, dim=-1 if axis is None else axis)[0]


@_implements(np.dot)
def _dot(a: Any, b: Any) -> Any:
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    return _call("tensordot")(x, y, dims=([-1], [-2])) if y.ndim > 2 else x @ y


@_implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    return _call("conj")(tensor(a).reshape(-1)) @ tensor(b).reshape(-1)


@_implements(np.einsum)
def _einsum(*operands: Any, optimize: Any = False) -> Any:
    if not isinstance(operands[0], str):
        raise TypeError("numpy.einsum on tensors takes the subscripts as a string, first")
    return _call("einsum")(operands[0], *(tensor(x) for x in operands[1:]))


@_implements(np.split, np.array_split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return list(_call("tensor_split")(tensor(ary), indices_or_sections, dim=axis))


@_implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    return _call("repeat_interleave")(tensor(a), operand(repeats), dim=axis)


@_implements(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    return _call("tile")(tensor(A), (reps,) if isinstance(reps, int) else tuple(reps))


@_implements(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    x: Any = tensor(a)
    index = tensor(indices)
    if axis is None:
        return x.reshape(-1)[index]
    return x[(slice(None),) * (axis % x.ndim) + (index,)]


@_implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    return tuple(_call("meshgrid")(*(tensor(x) for x in xi), indexing=indexing))


def _linalg(name: str) -> Callable[..., Any]:
    def adapter(a: Any, *others: Any, **named: Any) -> Any:
        import symgrad.linalg as linalg

        return getattr(linalg, name)(tensor(a), *(operand(x) for x in others), **{ARGUMENTS.get(k, k): v for k, v in named.items()})

    return adapter


for _name in ("inv", "det", "slogdet", "solve", "cholesky", "matrix_power", "norm"):
    ADAPTERS[getattr(np.linalg, _name)] = _linalg(_name)


def _atleast(name: str) -> Callable[..., Any]:
    def adapter(*arys: Any) -> Any:
        results = [_call(name)(tensor(x)) for x in arys]
        return results[0] if len(results) == 1 else tuple(results)

    return adapter


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    ADAPTERS[getattr(np, _name)] = _atleast(_name)


def _like(make: Callable[..., Tensor]) -> Callable[..., Any]:
    def adapter(a: Any, *value: Any, dtype: Any = None, shape: Any = None, **ignored: Any) -> Any:
        x = tensor(a)
        return make(x if shape is None else x.new_empty(shape), *value, dtype=_type(dtype))

    return adapter


for _make in (creation.zeros_like, creation.ones_like, creation.empty_like, creation.full_like):
    ADAPTERS[getattr(np, _make.__name__)] = _like(_make)

setattr(Tensor, "__array_function__", __array_function__)  # noqa: B010  (given to Tensor here, as all its methods are where they are made)
