"""Public functions that show the same elements in another shape, with PyTorch's signatures. Most of them return views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.coercion import tensor_argument, tensor_list
from symgrad.dispatch import tensors as ops
from symgrad.escapes import BITS, before_escape
from symgrad.functional.names import METHODS, checked, method, public
from symgrad.ops.shapes import broadcast_shapes as common_shape, infer_shape, integer, normalize_axis
from symgrad.tensor import Size, Tensor, wrap
from symgrad.typing import Dims

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "diagonal", "flatten",
    "meshgrid", "moveaxis", "movedim", "narrow", "permute", "ravel", "reshape", "select", "squeeze", "swapaxes", "swapdims", "t",
    "transpose", "unflatten", "unsqueeze",
]  # fmt: skip

NOT_VIEWABLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces)."
    " Use .reshape(...) instead."
)


def sizes(given: tuple[Any, ...], named: dict[str, Any], word: str) -> tuple[Any, ...]:
    """Sizes given one by one, as one sequence, or under PyTorch's name for them."""
    if named:
        if given or word not in named or len(named) > 1:
            raise TypeError(f"got an unexpected keyword argument {next((k for k in named if k != word), word)!r}")
        given = (named[word],)
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


@method
def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape: a view if the strides allow it, else a copy."""
    return ops.reshape(input, shape=infer_shape("reshape", input._array.size, sizes(shape, named, "shape")))


def view(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape, always as a view; or, given a dtype, the same bytes as another type."""
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        return _reinterpret(input, shape[0])
    target = infer_shape("view", input._array.size, sizes(shape, named, "size"))
    if not input._array.flags.c_contiguous:
        try:
            np.reshape(input._array, target, copy=False)
        except ValueError:
            raise RuntimeError(NOT_VIEWABLE) from None
    return ops.reshape(input, shape=target)


def _reinterpret(input: Tensor, dtype: Any) -> Tensor:
    target = dtypes.numpy_type(dtype)
    if target == input._array.dtype:
        return view(input, input.shape)
    before_escape(input, BITS)
    if input.requires_grad:
        raise RuntimeError("view(dtype): a tensor that requires grad cannot be seen as another type; use .to(dtype)")
    result = wrap(input._array.view(target))
    result._base = input if input._base is None else input._base
    return result


@checked
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of `other`."""
    return view(input, other._array.shape)


@checked
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of `other`."""
    return reshape(input, other._array.shape)


@method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` become one."""
    shape = input._array.shape
    start, end = normalize_axis(start_dim, len(shape)), normalize_axis(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return ops.reshape(input, shape=(1,))
    if start == end:
        return input
    joined = 1
    for n in shape[start : end + 1]:
        joined *= n
    return ops.reshape(input, shape=(*shape[:start], joined, *shape[end + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, a view where that is possible."""
    return ops.reshape(input, shape=(input._array.size,)).contiguous()


@method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dimension `dim` becomes several, of the given sizes."""
    shape = input._array.shape or (1,)
    axis = normalize_axis(dim, len(shape))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        inner = infer_shape("unflatten", shape[axis], sizes)
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in the input tensor"
        ) from None
    return ops.reshape(input, shape=(*shape[:axis], *inner, *shape[axis + 1 :]))


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged."""
    ndim = input._array.ndim
    return ops.transpose(input, dim0=normalize_axis(dim0, ndim), dim1=normalize_axis(dim1, ndim))


@method
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    if input._array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D")
    return ops.t(input)


@method
def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Dimensions in another order."""
    ndim, order = input._array.ndim, sizes(dims, named, "dims")
    axes = tuple(normalize_axis(d, ndim) for d in order)
    if len(axes) == ndim and len(set(axes)) < ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return ops.permute(input, axes=axes)


@method
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions `source` come to stand at `destination`, the others keep their order."""
    ndim = input._array.ndim
    sources, targets = (tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in (source, destination))
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same number of dims as"
            f" destination ({list(targets)} dims)"
        )
    sources, targets = (tuple(normalize_axis(d, ndim) for d in dims) for dims in (sources, targets))
    for word, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{word}` ({list(dims)})")
    rest = iter([d for d in range(ndim) if d not in sources])
    moved = dict(zip(targets, sources, strict=True))
    axes = tuple(moved[i] if i in moved else next(rest) for i in range(ndim))
    return ops.permute(input, axes=axes)


@method
def squeeze(input: Tensor, dim: Dims = None) -> Tensor:
    """Without the dimensions of size 1, or those of them in `dim`."""
    if dim is None:
        return ops.squeeze(input, axes=None)
    given = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    axes = tuple(normalize_axis(d, input._array.ndim) for d in given)
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"dim {next(a for a in axes if axes.count(a) > 1)} appears multiple times in the list of dims")
    shape = input._array.shape
    return ops.squeeze(input, axes=tuple(a for a in axes if shape and shape[a] == 1))


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1 at `dim`."""
    return ops.unsqueeze(input, axis=normalize_axis(dim, input._array.ndim + 1))


def expand(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """Dimensions of size 1 repeated to the given sizes, without copying; -1 keeps a size."""
    wanted, shape = sizes(size, named, "size"), input._array.shape
    if -1 not in wanted:
        try:
            return ops.expand(input, shape=wanted)
        except RuntimeError:
            pass  # PyTorch's words for it follow
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({type_text(input)}, size={list(wanted)}): the number of sizes provided ({len(wanted)}) must be greater or"
            f" equal to the number of dimensions in the tensor ({len(shape)})"
        )
    target = []
    for i, n in enumerate(wanted):
        if n == -1:
            if i < lead:
                raise RuntimeError(
                    f"expand({type_text(input)}, size={list(wanted)}): The expanded size of the tensor (-1) isn't allowed in a"
                    f" leading, non-existing dimension {i}"
                )
            n = shape[i - lead]
        elif i >= lead and shape[i - lead] not in (1, n):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({shape[i - lead]}) at non-singleton dimension"
                f" {i}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(shape)}"
            )
        target.append(int(n))
    return ops.expand(input, shape=tuple(target))


def type_text(input: Tensor) -> str:
    """`torch.float32[2, 3]`, as errors name a tensor."""
    return f"{input.dtype}{list(input._array.shape)}"


@checked
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """A view expanded to the shape of `other`."""
    return expand(input, other._array.shape)


@method
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """A view expanded to `shape`."""
    return expand(input, tuple(size))


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes have in common."""
    return Size(common_shape("broadcast_shapes", *((shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes)))


@public
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All of them expanded to their common shape."""
    tensors = tuple(tensor_list("broadcast_tensors", tensors))
    shape = common_shape("broadcast_tensors", *(t._array.shape for t in tensors))
    return tuple(t if t._array.shape == shape else expand(t, shape) for t in tensors)


@method
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of dimensions `dim1` and `dim2`, as a view whose last dimension it is."""
    ndim = input._array.ndim
    axis1, axis2 = normalize_axis(dim1, ndim), normalize_axis(dim2, ndim)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return ops.diagonal(input, offset=offset, axis1=axis1, axis2=axis2)


@method
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements of dimension `dim`, from `start` on."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    axis = normalize_axis(dim, len(shape))
    if isinstance(start, Tensor) and (start.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError(f"narrow(): start must be an 0-dim integral Tensor, got {start.dtype} of shape {list(start.shape)}")
    start, n = integer("start", start, "narrow"), shape[axis]
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start += n if start < 0 else 0
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    index = (*((0, m, 1) for m in shape[:axis]), (start, start + length, 1))
    return ops.getitem(input, index=index)


@method
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Element `index` of dimension `dim`, as a view without that dimension."""
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis, place = normalize_axis(dim, len(shape)), integer("index", index, "select")
    if not -shape[axis] <= place < shape[axis]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    place += shape[axis] if place < 0 else 0
    return ops.getitem(input, index=(*((0, n, 1) for n in shape[:axis]), place))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements of a dimension, `step` apart, as a view; the last dimension runs inside a window."""
    axis = normalize_axis(dimension, input._array.ndim)
    if not input._array.ndim:  # one window on a vector of one element, which is a view, too
        return ops.getitem(ops.unfold(ops.reshape(input, shape=(1,)), axis=0, size=size, step=step), index=(0,))
    return ops.unfold(input, axis=axis, size=size, step=step)


def _each(tensors: tuple[Any, ...], one: Any) -> Any:
    """A function of one tensor for one tensor, several, or a sequence of them."""
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return one(tensor_argument("atleast", tensors[0]))
    return tuple(one(t) for t in tensor_list("atleast", tensors[0] if len(tensors) == 1 else tensors))


@public
def atleast_1d(*tensors: Any) -> Any:
    """Scalars become vectors of one element."""
    return _each(tensors, lambda x: x if x.ndim else reshape(x, 1))


@public
def atleast_2d(*tensors: Any) -> Any:
    """Scalars and vectors become matrices of one row."""
    return _each(tensors, lambda x: x if x.ndim > 1 else unsqueeze(x, 0) if x.ndim else reshape(x, 1, 1))


@public
def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer than three dimensions get more of size 1."""
    def one(x: Tensor) -> Tensor:
        if x.ndim == 2:
            return unsqueeze(x, -1)
        return x if x.ndim > 2 else unsqueeze(unsqueeze(x, 0), -1) if x.ndim else reshape(x, 1, 1, 1)

    return _each(tensors, one)


@public
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid, as expanded views; `indexing` is "ij" (default) or "xy"."""
    grids = tensor_list("meshgrid", tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    if not grids:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for grid in grids:
        if grid.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {type_text(grid)}")
    if len({grid._array.dtype for grid in grids}) > 1:
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(grids) > 1
    if swap:
        grids[:2] = grids[1::-1]
    shape, rank = tuple(grid._array.size for grid in grids), len(grids)
    views = [expand(reshape(grid, *(-1 if i == j else 1 for j in range(rank))), shape) for i, grid in enumerate(grids)]
    if swap:
        views[:2] = views[1::-1]
    return tuple(views)


swapaxes = swapdims = transpose
moveaxis = movedim
METHODS.update(
    swapaxes=transpose, swapdims=transpose, moveaxis=movedim, view=view, view_as=view_as, reshape_as=reshape_as, expand=expand,
    expand_as=expand_as, unfold=unfold,
)  # fmt: skip
