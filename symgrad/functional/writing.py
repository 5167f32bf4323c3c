"""Methods that write a tensor's memory or change its shape in place, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.coercion import stored, tensor_argument
from symgrad.errors import describe
from symgrad.escapes import Rebinding
from symgrad.functional.names import METHODS, checked
from symgrad.mode import local
from symgrad.ops.shapes import normalize_axis
from symgrad.ops.shaping import squeezed
from symgrad.ops.table import TABLE
from symgrad.ops.writing import replace_type
from symgrad.tensor import Tensor, laid_out, offset_of
from symgrad.typing import Dims
from symgrad.views import mark_written, rearrange, write

__all__: list[str] = []

_REPLACE, _ZERO = TABLE["replace"], TABLE["zero"]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Take on the values of `src`, broadcast and cast; the gradient goes on to `src`."""
    if not isinstance(src, Tensor):
        src = tensor_argument("copy_", src, "'other' (position 1)", self)
    value = src._array
    if value.shape != self._array.shape:
        replace_type(self._array, value)
    if value.dtype.kind == "c" and self._array.dtype.kind != "c":
        value = value.real
    return write(self, _REPLACE, (src,), {}, lambda array: np.copyto(array, value, casting="unsafe"))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Every element becomes `value`, a number or a tensor without dimensions."""
    if not isinstance(value, Tensor):
        value = stored(value, self._array.dtype)
    if isinstance(value, Tensor) and value._array.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions.")
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
        raise TypeError(f"fill_(): argument 'value' (position 1) must be Number or Tensor, got {describe(value)}")
    number = value._array if isinstance(value, Tensor) else value
    return write(self, _REPLACE, (value,), {}, lambda array: array.fill(number), uniform=True)


def zero_(self: Tensor) -> Tensor:
    """Every element becomes 0."""
    return write(self, _ZERO, (), {}, lambda array: array.fill(0), uniform=True)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """The main diagonal becomes `fill_value`; with `wrap` that of a tall matrix starts again below each square."""
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if len(shape) > 2:
        places = tuple(np.arange(shape[0]) for _ in shape)
        self[places] = fill_value
        return self
    for top in range(0, shape[0] if wrap else 1, shape[1] + 1 if shape[1] else 1):
        fill_(self[top:].diagonal(), fill_value)
    return self


def t_(self: Tensor) -> Tensor:
    """Exchange its two dimensions, in place."""
    if self._array.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D")
    return rearrange(self, "t", {}, ("t", {}))


def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two of its dimensions, in place."""
    ndim = self._array.ndim
    attrs = {"dim0": normalize_axis(dim0, ndim), "dim1": normalize_axis(dim1, ndim)}
    return rearrange(self, "transpose", attrs, ("transpose", attrs))


def squeeze_(self: Tensor, dim: Dims = None) -> Tensor:
    """Drop dimensions of size 1, in place."""
    shape = self._array.shape
    given = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    axes = None if given is None else tuple(a for a in (normalize_axis(d, len(shape)) for d in given) if shape and shape[a] == 1)
    if squeezed(shape, axes) == shape:
        return self
    return rearrange(self, "squeeze", {"axes": axes}, ("reshape", {"shape": shape}))


def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Insert a dimension of size 1, in place."""
    shape = self._array.shape
    return rearrange(self, "unsqueeze", {"axis": normalize_axis(dim, len(shape) + 1)}, ("reshape", {"shape": shape}))


def resize_(self: Tensor, *shape: Any, memory_format: Any = None) -> Tensor:
    """Another size: the first elements stay, what is new is undefined (zeros here)."""
    wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if self._base is not None:
        raise RuntimeError("resize_: this tensor is a view, whose memory belongs to another tensor; clone() it first")
    if local.mode.capture is not None:
        local.mode.capture.before_rebind(self, Rebinding.RESIZE)
    self._array = np.resize(self._array, wanted) if np.prod(wanted) <= self._array.size else _grown(self._array, wanted)
    self._constant = None
    mark_written(self)
    return self


def _grown(array: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, array.dtype)
    out.reshape(-1)[: array.size] = array.reshape(-1)
    return out


@checked
def resize_as_(self: Tensor, other: Tensor) -> Tensor:
    """Give it the shape of `the_template`."""
    return resize_(self, other._array.shape)


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in C order."""
    return bool(laid_out(self).flags.c_contiguous)


def storage_offset(self: Tensor) -> int:
    """How many elements after the start of the memory that it shares with its base this tensor begins."""
    laid_out(self)  # tells a tracer
    return offset_of(self)


METHODS.update(
    copy_=copy_, fill_=fill_, fill_diagonal_=fill_diagonal_, zero_=zero_, t_=t_, transpose_=transpose_, swapaxes_=transpose_,
    swapdims_=transpose_, squeeze_=squeeze_, unsqueeze_=unsqueeze_, resize_=resize_, resize_as_=resize_as_, is_contiguous=is_contiguous,
    storage_offset=storage_offset,
)  # fmt: skip
