"""Functions of NumPy that ask about arrays, or write into them: adapters. Answers are Python's, and become guards where numbers decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import conversion, functional
from symgrad.escapes import OUT, before_escape
from symgrad.interop.operands import on_arrays, pair, tensor
from symgrad.interop.table import implements, refuses
from symgrad.tensor import Tensor


@implements(np.shape)
def _shape(a: Tensor) -> tuple[int, ...]:
    return tuple(a.shape)


@implements(np.ndim)
def _ndim(a: Tensor) -> int:
    return a.ndim


@implements(np.size)
def _size(a: Tensor, axis: Any = None) -> int:
    if axis is None:
        return a.numel()
    return int(np.prod([a.size(i) for i in ((axis,) if isinstance(axis, int) else axis)]))


@implements(np.iscomplexobj)
def _iscomplexobj(x: Tensor) -> bool:
    return conversion.is_complex(x)


@implements(np.isrealobj)
def _isrealobj(x: Tensor) -> bool:
    return not conversion.is_complex(x)


@implements(np.iscomplex)
def _iscomplex(x: Any) -> Any:
    return functional.logical_not(functional.isreal(tensor(x)))


@implements(np.real_if_close)
def _real_if_close(a: Any, tol: float = 100) -> Any:
    x = tensor(a)
    if not conversion.is_complex(x):
        return x
    limit = tol * np.finfo(x._array.real.dtype).eps if tol > 1 else tol
    return x.real if bool((x.imag.abs() < limit).all()) else x


def _empty(x: Any) -> Any:
    """What NumPy asks for the type only."""
    return np.empty(1, x._array.dtype) if isinstance(x, Tensor) else x


@implements(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*map(_empty, arrays_and_dtypes))


@implements(np.common_type)
def _common_type(*arrays: Any) -> Any:
    return np.common_type(*map(_empty, arrays))


@implements(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(from_._array.dtype, to, casting)


@implements(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    x, y = pair(a1, a2)
    if x.shape != y.shape:
        return False
    same = x == y
    return bool((same | ((x != x) & (y != y)) if equal_nan else same).all())


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> bool:
    x, y = pair(a1, a2)
    try:
        functional.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        return False
    return bool((x == y).all())


@implements(np.isclose)
def _isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return functional.isclose(*pair(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


@implements(np.allclose)
def _allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(_isclose(a, b, rtol, atol, equal_nan).all())


@implements(np.array_repr, np.array_str, np.array2string)
def _text(a: Tensor) -> str:
    return repr(a)


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Tensor):
        before_escape(src if isinstance(src, Tensor) else where, OUT)
        np.copyto(dst, np.asarray(src), casting, np.asarray(where))
        return
    kind = src._array.dtype if isinstance(src, Tensor) else np.result_type(dst._array.dtype, src)
    if not np.can_cast(kind, dst._array.dtype, casting):
        raise TypeError(f"Cannot cast array data from {kind} to {dst._array.dtype} according to casting={casting!r}")
    dst.copy_(tensor(src) if where is True else functional.where(tensor(where), tensor(src).to(dst.dtype), dst))


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    if not isinstance(a, Tensor):
        before_escape(val, OUT)
        np.fill_diagonal(a, np.asarray(val), wrap)
        return
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    step = 1 + sum(a.stride(i) for i in range(a.ndim - 1)) if a.ndim > 2 else a.shape[1] + 1
    end = None if a.ndim > 2 or wrap else a.shape[1] * a.shape[1]
    places = tensor(np.arange(a.numel())[:end:step])
    flat = a.reshape(-1).index_copy(0, places, tensor(val).to(a.dtype).reshape(-1).expand(places.numel()))
    a.copy_(flat.reshape(a.shape))


@implements(np.ix_)
def _ix(*args: Any) -> Any:
    result = []
    for i, arg in enumerate(args):
        x = tensor(arg)
        if x._array.dtype.kind == "b":
            x = functional.nonzero(x, as_tuple=True)[0]
        result.append(x.reshape((1,) * i + (-1,) + (1,) * (len(args) - i - 1)))
    return tuple(result)


@implements(np.diag_indices_from)
def _diag_indices_from(arr: Tensor) -> Any:
    return np.diag_indices_from(np.broadcast_to(0, arr.shape))


@implements(np.tril_indices_from)
def _tril_indices_from(arr: Tensor, k: int = 0) -> Any:
    return np.tril_indices_from(np.broadcast_to(0, arr.shape), k)


@implements(np.triu_indices_from)
def _triu_indices_from(arr: Tensor, k: int = 0) -> Any:
    return np.triu_indices_from(np.broadcast_to(0, arr.shape), k)


refuses("it asks where memory is, which a program does not have", np.may_share_memory, np.shares_memory)

@implements(np.min_scalar_type)
def _min_scalar_type(a: Tensor, /) -> Any:
    """The type of an array; that of one number depends on the number."""
    if a.ndim:
        return a._array.dtype
    return on_arrays("numpy.min_scalar_type", "it depends on the number", np.min_scalar_type, (a,), {})


refuses("write with tensor[index] = value", np.place, np.put, np.putmask, np.put_along_axis)
refuses("save what the function returns, after the call", np.save, np.savetxt, np.savez, np.savez_compressed)
