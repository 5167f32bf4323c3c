"""`x[...]`, reading and writing, with PyTorch's meaning: basic items first, as a view; then index arrays and masks on that view."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from symgrad.application import view_of
from symgrad.coercion import stored
from symgrad.computed_options import gathered, is_computed, known
from symgrad.dispatch import tensors as ops
from symgrad.escapes import INDICES, MASK, SCALAR_MASK, before_escape
from symgrad.functional.names import METHODS
from symgrad.functional.writing import copy_, fill_
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.ops.foreign import class_name, hint
from symgrad.ops.indexing import as_slices, check_range, index_shape, put
from symgrad.ops.promotion import BOOL
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap
from symgrad.views import mark_written, write

__all__: list[str] = []

_GETITEM, _INDEX_PUT, _MASKED_FILL = (TABLE[name] for name in ("getitem", "index_put", "masked_fill"))
_SCALAR = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
)
_SEQUENCE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq], or x[torch.tensor(seq)]"
    " for an index tensor"
)


class Index(NamedTuple):
    """A parsed index: the basic part (None: everything), then arrays with the dimensions of the view that they walk along."""

    basic: tuple[Any, ...] | None
    arrays: tuple[Tensor, ...]
    dims: tuple[int, ...]
    mask: Tensor | None = None
    """The only index array, if it is a mask."""


def getitem(x: Tensor, index: Any) -> Tensor:
    array = x._array
    basic = _quick(index, array.shape)
    if basic is not None and local.mode.capture is None:
        return view_of(_GETITEM, x, {"index": basic}, array[as_slices(basic)])
    parsed = parse(index, array.shape)
    view = x if parsed.basic is None else ops.getitem(x, index=parsed.basic)
    return ops.index(view, *parsed.arrays, dims=parsed.dims) if parsed.dims else view


def _quick(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """The basic index, if the index is no more than that."""
    cls = index.__class__
    if cls is int:
        return (_place(index, shape, 0),)
    if cls is tuple:
        return _basic(index, shape)
    if cls is slice or index is None:
        return _basic((index,), shape)
    return None


def _place(item: int, shape: tuple[int, ...], dim: int) -> int:
    if dim >= len(shape):
        raise IndexError(_SCALAR if not shape else f"too many indices for tensor of dimension {len(shape)}")
    n = shape[dim]
    if not -n <= item < n:
        raise IndexError(f"index {item} is out of bounds for dimension {dim} with size {n}")
    return item + n if item < 0 else item


def _range(item: slice, n: int) -> tuple[int, int, int]:
    """(start, stop, step) inside [0, n]."""
    step = item.step
    if step is not None and step.__class__ is not int:
        step = operator.index(step)
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, step = item.indices(n)
    return (start, stop if stop > start else start, step)


def _basic(items: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """An index of ints, slices and None alone, the common case; None: it has more in it."""
    basic: list[Any] = []
    dim = 0
    for item in items:
        cls = item.__class__
        if cls is int:
            basic.append(_place(item, shape, dim))
        elif cls is slice:
            if dim >= len(shape):
                return None
            basic.append(_range(item, shape[dim]))
        elif item is None:
            basic.append(None)
            continue
        else:
            return None
        dim += 1
    return tuple(basic)


def parse(index: Any, shape: tuple[int, ...]) -> Index:
    """Any index that PyTorch takes."""
    index = _unpacked(index)
    if shape and isinstance(index, (Tensor, list)):
        item = _item(index)
        if isinstance(item, Tensor) and item._array.dtype.kind != "b":
            return Index(None, (item,), (0,))
    items = [_item(i) for i in (index if isinstance(index, tuple) else (index,))]
    used = sum(_consumes(item) for item in items)
    if used > len(shape):
        raise IndexError(_too_many(items, shape))
    parser = _Parser(shape, len(shape) - used)
    for position, item in enumerate(items):
        parser.take(item, position + 1 == len(items))
    return parser.index()


def _too_many(items: list[Any], shape: tuple[int, ...]) -> str:
    """The message for an index with more items than dimensions."""
    if not shape and isinstance(items[0], slice):
        return "slice() cannot be applied to a 0-dim tensor."
    return _SCALAR if not shape and len(items) == 1 else f"too many indices for tensor of dimension {len(shape)}"


class _Parser:
    """Takes the items of an index one by one, and counts the dimensions of x and of the view. `rest`: the dimensions that an ellipsis
    stands for."""

    def __init__(self, shape: tuple[int, ...], rest: int) -> None:
        self.shape, self.rest = shape, rest
        self.basic: list[Any] = []
        self.arrays: list[Tensor] = []
        self.dims: list[int] = []
        self.masks: list[Tensor] = []
        self.dim = self.place = 0  # of x, of the view

    def take(self, item: Any, last: bool) -> None:
        if item is Ellipsis:
            self._take_rest(last)
        elif item is None:
            self.basic.append(None)
            self.place += 1
        elif isinstance(item, slice):
            self.basic.append(_range(item, self.shape[self.dim]))
            self.dim, self.place = self.dim + 1, self.place + 1
        elif isinstance(item, int) and not isinstance(item, bool):
            self.basic.append(_place(item, self.shape, self.dim))
            self.dim += 1
        else:
            self._take_array(item)

    def _take_rest(self, last: bool) -> None:
        rest, self.rest = self.rest, 0  # a second ellipsis stands for nothing
        if not last:
            self._take_whole(rest)
        self.dim, self.place = self.dim + rest, self.place + rest

    def _take_whole(self, ndim: int) -> None:
        self.basic += [(0, n, 1) for n in self.shape[self.dim : self.dim + ndim]]

    def _take_array(self, item: Tensor) -> None:
        mask = item._array.dtype.kind == "b"
        ndim = item._array.ndim if mask else 1
        if ndim:
            self._take_whole(ndim)
        else:
            self.basic.append(None)
        if mask:
            _check_mask(item, self.shape, self.dim)
            self.masks.append(item)
        new = _coordinates(item) if mask else (item,)
        self.arrays += new
        self.dims += range(self.place, self.place + len(new))
        self.dim, self.place = self.dim + ndim, self.place + len(new)

    def index(self) -> Index:
        """The index of all items taken."""
        basic, dims, masks = self.basic, self.dims, self.masks
        whole = all(item.__class__ is tuple for item in basic) and basic == [(0, n, 1) for n in self.shape[: len(basic)]]
        alone = masks[0] if len(masks) == 1 and whole and dims == list(range(masks[0]._array.ndim)) else None
        return Index(None if whole and dims else tuple(basic), tuple(self.arrays), tuple(dims), alone)


def _unpacked(index: Any) -> Any:
    """PyTorch keeps NumPy's old rule: a short list with a sequence, slice, None or ... in it is an index for each dimension."""
    if not isinstance(index, list) or len(index) >= 32:
        return index
    nested = (Tensor, np.ndarray, list, tuple, range, slice)
    if not any(item is None or item is Ellipsis or isinstance(item, nested) for item in index):
        return index
    warn(_SEQUENCE)
    return tuple(index)


def _item(item: Any) -> Any:
    """An item as int, slice, None, Ellipsis, or an index tensor: of integers, or of bools for a mask."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return wrap(np.array(item))
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, Tensor):
        tensor = item
    elif isinstance(item, (list, tuple, range, np.ndarray)):
        tensor = _listed(item)
    elif hasattr(item, "__index__"):
        return operator.index(item)
    elif isinstance(item, str):
        raise TypeError(f"an index is made of integers, slices, ..., None and tensors, not of strings: {item!r}")
    else:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices"
            f" (got {item.__class__.__name__})"
        )
    kind = tensor._array.dtype
    if kind.kind == "b":
        return tensor
    if kind == np.uint8:
        return ops.cast(tensor, dtype=BOOL)
    if kind.kind not in "iu":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if tensor._array.ndim or (local.mode.capture is not None and isinstance(item, Tensor)):
        return tensor  # a traced number stays in the graph: it is read as an index array without dimensions
    return int(tensor._array)


def _listed(item: Any) -> Tensor:
    if isinstance(item, np.ndarray):
        return wrap(item)
    plain, numbers = known(item) if local.mode.capture is not None else (item, [])
    for part in numbers:
        if isinstance(part, Tensor) and part._array.ndim:
            before_escape(part, INDICES)
    array = np.array([i._array if isinstance(i, Tensor) else i for i in plain])
    array = array if array.size else array.astype(np.int64)
    return gathered(numbers, array) if any(map(is_computed, numbers)) else wrap(array)


def _consumes(item: Any) -> int:
    """How many dimensions of x an item is for."""
    if item is None or item is Ellipsis:
        return 0
    return item._array.ndim if isinstance(item, Tensor) and item._array.dtype.kind == "b" else 1


def _check_mask(mask: Tensor, shape: tuple[int, ...], dim: int) -> None:
    for i, n in enumerate(mask._array.shape):
        if n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask._array.shape)} at index {i} does not match the shape of the indexed tensor"
                f" {list(shape)} at index {dim + i}"
            )


def _coordinates(mask: Tensor) -> tuple[Tensor, ...]:
    """The places where a mask is true, one array for each of its dimensions."""
    if not mask._array.ndim:
        before_escape(mask, SCALAR_MASK)
        return (wrap(np.zeros(int(bool(mask._array)), np.int64)),)
    before_escape(mask, MASK)
    found = ops.nonzero(mask)
    return tuple(ops.getitem(found, index=((0, len(found._array), 1), i)) for i in range(mask._array.ndim))


def setitem(x: Tensor, index: Any, value: Any) -> None:
    if _written_plainly(x, index, value):
        return
    if not isinstance(value, Tensor):
        value = stored(value, x._array.dtype)
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
        raise TypeError(f"can't assign a {class_name(value)} to a tensor of {x.dtype}{hint(value)}")
    number = not isinstance(value, Tensor) or not value._array.ndim
    if number and isinstance(index, Tensor) and index._array.dtype.kind == "b" and index._array.ndim:
        return _fill_where(x, index, stored(value, x._array.dtype))
    parsed = parse(index, x._array.shape)
    view = x if parsed.basic is None else ops.getitem(x, index=parsed.basic)
    if parsed.mask is not None and number:
        _fill_where(view, parsed.mask, stored(value, x._array.dtype))
    elif parsed.dims:
        shape = index_shape(view._array.shape, _raw(parsed.arrays), parsed.dims)
        put_(view, parsed.arrays, parsed.dims, _fitted(stored(value, x._array.dtype), shape))
    elif isinstance(value, Tensor):
        copy_(view, _fitted(value, view._array.shape))
    else:
        fill_(view, value)


def _fill_where(x: Tensor, mask: Tensor, value: Any) -> None:
    """x[mask] = value, for one value."""
    shape = x._array.shape
    if mask._array.ndim > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    _check_mask(mask, shape, 0)
    deeper = (1,) * (len(shape) - mask._array.ndim)
    masked_fill_(x, ops.reshape(mask, shape=(*mask._array.shape, *deeper)) if deeper else mask, value)


def _written_plainly(x: Tensor, index: Any, value: Any) -> bool:
    """The short way for a number or a tensor into a basic index when there is no history to keep; False: it is not that simple."""
    mode, array = local.mode, x._array
    cls = value.__class__
    if mode.capture is not None or not array.flags.writeable or not array.flags.c_contiguous:
        return False
    if cls is not float and cls is not int:
        if cls is not Tensor or value._array.dtype is not array.dtype or (mode.recording and value.requires_grad):
            return False
        value = value._array
    if mode.recording and (x._base is not None or x._requires_grad):
        return False
    basic = _quick(index, array.shape)
    if basic is None:
        return False
    try:
        mode.run(array.__setitem__, as_slices(basic), value)
    except (ValueError, OverflowError):
        return False
    mark_written(x)
    return True


def _raw(arrays: tuple[Tensor, ...]) -> tuple[Any, ...]:
    return tuple(a._array for a in arrays)


def _fitted(value: Any, shape: tuple[int, ...]) -> Any:
    """Leading dimensions of size 1 that the target does not have are dropped."""
    if not isinstance(value, Tensor):
        return value
    given = value._array.shape
    extra = len(given) - len(shape)
    return ops.reshape(value, shape=given[extra:]) if extra > 0 and given[:extra] == (1,) * extra else value


def put_(x: Tensor, indices: tuple[Tensor, ...], dims: tuple[int, ...], value: Any, accumulate: bool = False) -> Tensor:
    """x[indices] = value, or += with repeated places counted."""
    arrays = _raw(indices)
    number = value._array if isinstance(value, Tensor) else value
    for dim, array in zip(dims, arrays, strict=True):
        check_range(array, x._array.shape[dim], dim)
    attrs = {"dims": dims, "accumulate": accumulate}
    return write(x, _INDEX_PUT, (value, *indices), attrs, lambda array: put(array, number, arrays, dims, accumulate))


def masked_fill_(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Where the mask is true, elements become `value`, a number or a tensor without dimensions."""
    number = value._array if isinstance(value, Tensor) else value
    return write(x, _MASKED_FILL, (mask, value), {}, lambda array: np.copyto(array, number, casting="unsafe", where=mask._array))


def contains(x: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, bool, int, float, complex, np.generic)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__}.")
    if local.mode.capture is not None:
        return bool(ops.any(ops.eq(x, element), axis=tuple(range(x._array.ndim)), keepdims=False))
    return bool((x._array == (element._array if isinstance(element, Tensor) else element)).any())


def delitem(x: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


METHODS.update(__getitem__=getitem, __setitem__=setitem, __delitem__=delitem, __contains__=contains)
