"""Functions of NumPy that arrange, join and take apart: adapters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symgrad import creation, functional
from symgrad.interop.operands import as_dtype, cast, floating, operand, option, pair, tensor
from symgrad.interop.table import implements
from symgrad.ops.promotion import promote_types
from symgrad.tensor import Tensor


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    x = tensor(a)
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


@implements(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Any:
    x = tensor(a)
    return x.permute(tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    x = tensor(m)
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


@implements(np.concatenate)
def _concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = _in_one_type([tensor(x) for x in arrays], dtype, casting)
    return functional.cat([x.reshape(-1) for x in parts] if axis is None else parts, dim=0 if axis is None else axis)


def _in_one_type(parts: list[Tensor], dtype: Any, casting: str) -> list[Tensor]:
    """Parts to join, in the type that is asked for, or their common type, where NumPy's rule for conversions allows it."""
    common = functools.reduce(promote_types, (x._array.dtype for x in parts)) if dtype is None else dtype
    return [cast(x, common, casting) for x in parts]


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    return functional.stack(_in_one_type([tensor(x) for x in arrays], dtype, casting), dim=axis)


def _beside(name: str) -> Callable[..., Any]:
    def adapter(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
        return getattr(functional, name)(_in_one_type([tensor(x) for x in tup], dtype, casting))

    return adapter


for _name in ("hstack", "vstack"):
    implements(getattr(np, _name))(_beside(_name))


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    x = tensor(a)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for place in sorted(normalize_axis_tuple(axes, x.ndim + len(axes))):
        x = x.unsqueeze(place)
    return x


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    if axis is None:
        return functional.squeeze(x)
    axes = normalize_axis_tuple(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return functional.squeeze(x, axes) if axes else x


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = tensor(a)
    if axis is None:
        return functional.roll(x, operand(shift))
    shifts, axes = np.broadcast_arrays(shift, normalize_axis_tuple(axis, x.ndim, allow_duplicate=True))
    return functional.roll(x, shifts.tolist(), axes.tolist()) if axes.size else x.clone()


@implements(np.angle)
def _angle(z: Any, deg: bool = False) -> Any:
    found = functional.angle(tensor(z))
    return functional.rad2deg(found) if deg else found


@implements(np.where)
def _where(condition: Any, /, *choices: Any) -> Any:
    if not choices:
        return functional.nonzero(tensor(condition), as_tuple=True)
    return functional.where(tensor(condition), *(operand(x) for x in choices))


@implements(np.split, np.array_split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return list(functional.tensor_split(tensor(ary), indices_or_sections, dim=axis))


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    return functional.repeat_interleave(tensor(a), operand(repeats), dim=axis)


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    return functional.tile(tensor(A), (reps,) if isinstance(reps, int) else tuple(reps))


@implements(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"mode must be one of 'clip', 'raise', or 'wrap', not {mode!r}")
    x: Any = tensor(a)
    index = tensor(indices)
    n = x.numel() if axis is None else x.shape[axis]
    if mode != "raise":
        index = functional.remainder(index, n) if mode == "wrap" else functional.clamp(index, 0, n - 1)
    if axis is None:
        return x.reshape(-1)[index]
    return x[(slice(None),) * (axis % x.ndim) + (index,)]


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    sequences = [tensor(x).reshape(-1) for x in xi]
    grids = functional.meshgrid(*sequences, indexing=indexing)
    if not sparse:
        return tuple(grids)
    order = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else range(len(xi))
    return tuple(x.reshape([-1 if i == place else 1 for i in range(len(xi))]) for x, place in zip(sequences, order, strict=True))


def _atleast(name: str) -> Callable[..., Any]:
    def adapter(*arys: Any) -> Any:
        results = [getattr(functional, name)(tensor(x)) for x in arys]
        return results[0] if len(results) == 1 else tuple(results)

    return adapter


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    implements(getattr(np, _name))(_atleast(_name))


def _like(make: Callable[..., Tensor]) -> Callable[..., Any]:
    def adapter(a: Any, dtype: Any = None, shape: Any = None) -> Any:
        x = tensor(a)
        return make(x if shape is None else x.new_empty(shape), dtype=as_dtype(dtype))

    return adapter


for _make in (creation.zeros_like, creation.ones_like, creation.empty_like):
    implements(getattr(np, _make.__name__))(_like(_make))



@implements(np.full_like)
def _full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    like, value = tensor(a), tensor(fill_value)
    return value.to(like.dtype if dtype is None else as_dtype(dtype)).expand(like.shape if shape is None else shape).clone()


def _triangle(lower: bool) -> Callable[..., Any]:
    def adapter(m: Any, k: int = 0) -> Any:
        x = tensor(m)
        if x.ndim >= 2:
            return functional.tril(x, k) if lower else functional.triu(x, k)
        mask = np.tri(x.shape[0], k=k if lower else k - 1, dtype=bool)
        return functional.where(tensor(mask if lower else ~mask), x, 0)

    return adapter


implements(np.tril)(_triangle(True))
implements(np.triu)(_triangle(False))


@implements(np.imag)
def _imag(val: Any) -> Any:
    x = tensor(val)
    return x.imag if x.is_complex() else x * 0


@implements(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    x, y = pair(arr, values)
    return functional.cat([x.reshape(-1), y.reshape(-1)] if axis is None else [x, y], dim=0 if axis is None else axis)


@implements(np.block)
def _block(arrays: Any) -> Any:
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    def join(x: Any, level: int) -> Any:
        if not isinstance(x, list):
            return tensor(x).reshape((1,) * max(0, dims - tensor(x).ndim) + tuple(tensor(x).shape))
        return functional.cat([join(part, level - 1) for part in x], dim=-level)

    def most(x: Any) -> int:
        return max(map(most, x)) if isinstance(x, list) else tensor(x).ndim

    levels = depth(arrays)
    dims = max(levels, most(arrays), 1)
    return join(arrays, levels)


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any) -> Any:
    return tuple(functional.broadcast_tensors(*(tensor(x) for x in args)))


def _divided(name: str, axis: int) -> Callable[..., Any]:
    def adapter(ary: Any, indices_or_sections: Any) -> Any:
        x = tensor(ary)
        return _split(x, indices_or_sections, 0 if name == "hsplit" and x.ndim == 1 else axis)

    return adapter


for _name, _axis in {"hsplit": 1, "vsplit": 0, "dsplit": 2}.items():
    implements(getattr(np, _name))(_divided(_name, _axis))


@implements(np.unstack)
def _unstack(x: Any, /, *, axis: int = 0) -> Any:
    return tuple(functional.unbind(tensor(x), axis))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    return tensor(x).transpose(-1, -2)


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    x = tensor(a)
    axis, start = axis % x.ndim, start + x.ndim if start < 0 else start
    return functional.movedim(x, axis, start - 1 if start > axis else start)


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    x = tensor(arr).reshape(-1) if axis is None else tensor(arr)
    axis = 0 if axis is None else axis
    left = np.delete(np.arange(x.shape[axis]), obj if isinstance(obj, slice) else np.asarray(obj))
    return functional.index_select(x, axis, tensor(left))


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    if not isinstance(obj, int):
        raise option("numpy.insert", "takes one integer as the place")
    x, y = pair(arr, values)
    x, dim = (x.reshape(-1), 0) if axis is None else (x, axis % x.ndim)
    place = obj + x.shape[dim] if obj < 0 else obj
    shape = [*x.shape]
    shape[dim] = 1 if y.ndim < x.ndim or axis is not None else y.numel()
    y = y.reshape(-1) if axis is None else (y.unsqueeze(dim) if 0 < y.ndim < x.ndim else y).expand(shape)
    return functional.cat([x.narrow(dim, 0, place), y, x.narrow(dim, place, x.shape[dim] - place)], dim=dim)


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Places of the result that are places of the array take its numbers: NumPy itself pads the places."""
    x = tensor(array)
    if mode == "empty" or callable(mode) or mode in ("linear_ramp", "maximum", "mean", "median", "minimum"):
        raise option("numpy.pad", f"does not take mode={mode!r}")
    if kwargs.get("reflect_type", "even") != "even":
        raise option("numpy.pad", f"does not take reflect_type={kwargs['reflect_type']!r}")
    places = np.arange(x.numel()).reshape(tuple(x.shape))
    if mode != "constant":
        return x.reshape(-1)[tensor(np.pad(places, pad_width, mode, **kwargs))]
    value = kwargs.get("constant_values", 0)
    if not isinstance(value, (int, float, Tensor)) or (isinstance(value, Tensor) and value.ndim):
        raise option("numpy.pad", f"takes one constant for all sides, not constant_values={value!r}")
    wide = np.pad(places, pad_width, "constant", **{**kwargs, "constant_values": -1})
    return functional.where(tensor(wide < 0), value, x.reshape(-1)[tensor(wide.clip(0))])


@implements(np.apply_along_axis)
def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """The function runs once for each line; what it returns stands where the line was."""
    x = tensor(arr)
    axis %= x.ndim
    others = tuple(n for i, n in enumerate(x.shape) if i != axis)
    found = [tensor(func1d(line, *args, **kwargs)) for line in x.movedim(axis, -1).reshape(-1, x.shape[axis])]
    inner = tuple(found[0].shape)
    joined = functional.stack(found).reshape(*others, *inner)
    ahead = len(others)
    order = (*range(axis), *range(ahead, ahead + len(inner)), *range(axis, ahead))
    return joined.permute(order) if order else joined


@implements(np.apply_over_axes)
def _apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    x = tensor(a)
    for axis in (axes,) if isinstance(axes, int) else axes:
        found = tensor(func(x, axis % x.ndim))
        x = found if found.ndim == x.ndim else found.unsqueeze(axis % x.ndim)
    return x


@implements(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result = operand(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = functional.where(tensor(condition), operand(choice), result)
    return result


@implements(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Every function sees all numbers; of each number one result is taken, as in `where`."""
    x = floating(x)
    conditions = [tensor(c) for c in (condlist if isinstance(condlist, (list, tuple)) else [condlist])]
    functions = list(funclist)
    result = x * 0
    if len(functions) == len(conditions) + 1:
        last = functions.pop()
        result = result + (last(x, *args, **kw) if callable(last) else last)
    for condition, function in zip(conditions, functions, strict=True):
        result = functional.where(condition, function(x, *args, **kw) if callable(function) else function, result)
    return result
