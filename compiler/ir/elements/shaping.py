"""Rows that move elements: an element of the result is one element of the argument, or a constant."""

from __future__ import annotations

from math import prod
from typing import Any

from symgrad.compiler.ir.elements.registry import element


@element("reshape", "squeeze", "unsqueeze")
def _(ix: Any, at: Any, x: Any, **attrs: Any) -> Any:
    """Elements keep their positions in row-major order."""
    return x(*ix.regrouped(at, ix.shape, x.shape))


@element("transpose")
def _(ix: Any, at: Any, x: Any, *, dim0: int, dim1: int) -> Any:
    moved = list(at)
    if moved:
        moved[dim0], moved[dim1] = moved[dim1], moved[dim0]
    return x(*moved)


@element("t")
def _(ix: Any, at: Any, x: Any) -> Any:
    return x(*reversed(at))


@element("permute")
def _(ix: Any, at: Any, x: Any, *, axes: Any) -> Any:
    moved: list[Any] = [None] * len(axes)
    for i, axis in zip(at, axes, strict=True):
        moved[axis] = i
    return x(*moved)


@element("expand")
def _(ix: Any, at: Any, x: Any, *, shape: Any) -> Any:
    return x(*at[len(at) - x.ndim :])


@element("replace")
def _(ix: Any, at: Any, x: Any, value: Any) -> Any:
    return value(*at[len(at) - value.ndim :])


@element("clone", "assume")
def _(ix: Any, at: Any, x: Any, **attrs: Any) -> Any:
    return x(*at)


@element("diagonal")
def _(ix: Any, at: Any, x: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    *rest, k = at
    for axis in sorted((axis1, axis2)):
        rest.insert(axis, k + (max(-offset, 0) if axis == axis1 else max(offset, 0)))
    return x(*rest)


@element("diag_embed")
def _(ix: Any, at: Any, x: Any, *, shape: Any, offset: int, axis1: int, axis2: int) -> Any:
    i, j = at[axis1], at[axis2]
    rest = [k for axis, k in enumerate(at) if axis not in (axis1, axis2)]
    return ix.delta(i + offset, j) * x(*rest, j if offset < 0 else i)


@element("unfold")
def _(ix: Any, at: Any, x: Any, *, axis: int, size: int, step: int) -> Any:
    *rest, k = at
    if x.ndim:
        rest[axis] = rest[axis] * step + k
    return x(*rest)


@element("unfold_transpose")
def _(ix: Any, at: Any, x: Any, *, shape: Any, axis: int, size: int, step: int) -> Any:
    """Sum over the windows that contain the element."""
    if not at:
        return ix.sum(lambda k: x(k), *x.shape)
    place = lambda window, k: (*at[:axis], window, *at[axis + 1 :], k)
    return ix.sum(lambda k, window: ix.delta(at[axis], window * step + k) * x(*place(window, k)), size, x.shape[axis])


@element("flip")
def _(ix: Any, at: Any, x: Any, *, axes: Any) -> Any:
    return x(*(n - 1 - i if axis in axes else i for axis, (i, n) in enumerate(zip(at, x.shape, strict=True))))


@element("roll")
def _(ix: Any, at: Any, x: Any, *, shifts: Any, axes: Any) -> Any:
    if not axes:
        flat = ix.flat(at, x.shape) - shifts[0]
        return x(*ix.unflat(ix.divided(flat, max(prod(x.shape), 1))[1], x.shape))
    turned = list(at)
    for shift, axis in zip(shifts, axes, strict=True):
        turned[axis] = ix.divided(turned[axis] - shift, x.shape[axis])[1]
    return x(*turned)


@element("tile")
def _(ix: Any, at: Any, x: Any, *, reps: Any) -> Any:
    return x(*(ix.divided(i, n)[1] for i, n in zip(at[len(at) - x.ndim :], x.shape, strict=True)))


@element("tril")
def _(ix: Any, at: Any, x: Any, *, diagonal: int) -> Any:
    *_, i, j = at
    return ix.within(j - i, -x.shape[-2], diagonal + 1) * x(*at)


@element("triu")
def _(ix: Any, at: Any, x: Any, *, diagonal: int) -> Any:
    *_, i, j = at
    return ix.within(j - i, diagonal, x.shape[-1]) * x(*at)


@element("pad")
def _(ix: Any, at: Any, x: Any, *, widths: Any, value: Any) -> Any:
    inner = [i - before for i, (before, _) in zip(at, widths, strict=True)]
    return ix.where(ix.inside(inner, x.shape), x(*inner), ix.number(value))


@element("crop")
def _(ix: Any, at: Any, x: Any, *, widths: Any) -> Any:
    return x(*(i + before for i, (before, _) in zip(at, widths, strict=True)))


@element("shift")
def _(ix: Any, at: Any, x: Any, *, axis: int, by: int, fill: Any) -> Any:
    moved = (*at[:axis], at[axis] - by, *at[axis + 1 :])
    return ix.where(ix.within(at[axis] - by, 0, x.shape[axis]), x(*moved), ix.number(fill))


@element("cat")
def _(ix: Any, at: Any, *tensors: Any, axis: int) -> Any:
    tensors = tuple(t for t in tensors if t.ndim == len(at))  # PyTorch concatenates an empty vector with anything
    result, start = None, sum(t.shape[axis] for t in tensors)
    for tensor in reversed(tensors):
        start -= tensor.shape[axis]
        part = tensor(*at[:axis], at[axis] - start, *at[axis + 1 :])
        result = part if result is None else ix.where(ix.within(at[axis], 0, start + tensor.shape[axis]), part, result)
    return result


@element("stack")
def _(ix: Any, at: Any, *tensors: Any, axis: int) -> Any:
    rest = (*at[:axis], *at[axis + 1 :])
    result = tensors[-1](*rest)
    for n, tensor in reversed(list(enumerate(tensors[:-1]))):
        result = ix.where(ix.delta(at[axis], n), tensor(*rest), result)
    return result


@element("split", "split_with_sizes")
def _(ix: Any, at: Any, x: Any, *, axis: int, sizes: Any, output: int) -> Any:
    return x(*at[:axis], at[axis] + sum(sizes[:output]), *at[axis + 1 :])


@element("unbind")
def _(ix: Any, at: Any, x: Any, *, axis: int, output: int) -> Any:
    return x(*at[:axis], output, *at[axis:])


@element("view_as_real")
def _(ix: Any, at: Any, x: Any) -> Any:
    z = x(*at[:-1])
    return ix.where(ix.delta(at[-1], 0), ix.re(z), ix.im(z))


@element("view_as_complex")
def _(ix: Any, at: Any, x: Any) -> Any:
    return x(*at, 0) + ix.i * x(*at, 1)
