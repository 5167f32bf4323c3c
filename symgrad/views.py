"""Writing in place: what it does to memory, to views, and to recorded history.

On a recorded tensor an in-place op is the ordinary op followed by a change of history: the tensor takes on the result's node.
On a view, the owner's new history is "the old one with this region replaced" (row `view_write`), and every view of that owner
replays its path from there when it is next used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.dispatch import apply, edge_of, make_node
from symgrad.mode import local
from symgrad.ops.promotion import compute_type, kind
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, refresh, wrap


def mark_written(x: Tensor) -> None:
    """Tell every node that saved this memory that it has changed."""
    root = x if x._base is None else x._base
    root._cell.append(True)
    root._cell = []
    root._writes += 1


def detach(x: Tensor) -> Tensor:
    """The same memory without history; it shares the version counter, as in PyTorch."""
    t = wrap(x._array)
    t._base = x if x._base is None else x._base
    t._owner = None
    return t


def shadow(x: Tensor, copy: bool = False) -> Tensor:
    """`x` as it is now, values and history: what an in-place op reads."""
    return wrap(x._array.copy() if copy else x._array, x._requires_grad, x._node)


def replay(view: Tensor) -> None:
    """Record the way from the owner to the view again."""
    owner = view._owner
    assert owner is not None
    view._epoch = owner._epoch
    t = shadow(owner)
    if owner._node is None and owner._requires_grad:
        t = owner
    mode = local.mode
    recording, mode.recording = mode.recording, True
    try:
        for name, attrs in view._path:
            t = apply(TABLE[name], (t,), attrs)
    finally:
        mode.recording = recording
    view._node, view._requires_grad = t._node, t._requires_grad


def refuse_leaf(x: Tensor) -> None:
    """A leaf that requires grad has no history to change."""
    if not local.mode.recording:
        return
    if x._base is not None:
        refresh(x)
    owner = x._owner
    if owner is not None and owner._requires_grad and owner._node is None:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if owner is None and x._requires_grad and x._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def store(x: Tensor, result: Tensor) -> Tensor:
    """`x` takes on the values of `result`, and its history if it has one."""
    value = result._array
    if value.shape != x._array.shape:
        if np.broadcast_shapes(value.shape, x._array.shape) != x._array.shape:
            raise RuntimeError(f"output with shape {list(x._array.shape)} doesn't match the broadcast shape {list(value.shape)}")
    refuse_cast(value.dtype, x._array.dtype)
    if not x._array.flags.writeable:
        raise RuntimeError("this tensor's memory is read-only: clone() it before writing in place")
    np.copyto(x._array, value, casting="unsafe")
    mark_written(x)
    if result._requires_grad and kind(x._array.dtype) in "fc":
        set_history(x, result)
    return x


def refuse_cast(given: Any, wanted: Any) -> None:
    order = "bifc"
    if order.index(kind(given)) > order.index(kind(wanted)):
        from symgrad.dtypes import type_word

        raise RuntimeError(f"result type {type_word(given)} can't be cast to the desired output type {type_word(wanted)}")


def set_history(x: Tensor, result: Tensor) -> None:
    edge = edge_of(result)
    owner = x._owner
    if owner is None:
        x._node, x._requires_grad, x._epoch = edge, True, x._epoch + 1
        return
    inputs = (edge_of(owner), edge)
    node = make_node(TABLE["view_write"], inputs, {"path": x._path}, inputs, None, None)
    node.shape, node.dtype = owner._array.shape, owner._array.dtype
    owner._node, owner._requires_grad, owner._epoch = node, True, owner._epoch + 1
    replay(x)


def inplace(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The in-place form of any function of a tensor."""

    def method(x: Tensor, *args: Any, **attrs: Any) -> Tensor:
        refuse_leaf(x)
        return store(x, function(shadow(x, copy=local.mode.recording), *args, **attrs))

    method.__name__ = f"{getattr(function, '__name__', 'op')}_"
    method.__doc__ = f"In-place form of `{getattr(function, '__name__', 'op')}`."
    return method


def inplace_ufunc(row: Row) -> Callable[..., Tensor]:
    """The in-place form of an arithmetic row: writes straight into the memory when nothing is recorded."""
    kernel = row.numpy
    general = inplace(lambda x, y: apply(row, (x, y), {}))

    def method(x: Tensor, y: Any) -> Tensor:
        mode = local.mode
        other = y._array if isinstance(y, Tensor) else y
        tracked = mode.recording and (x._requires_grad or (isinstance(y, Tensor) and y._requires_grad) or x._base is not None)
        if tracked or mode.capture is not None or compute_type(row.policy, (x._array, other)) != x._array.dtype:
            return general(x, y)
        try:
            mode.run(kernel, x._array, other, out=x._array, casting="same_kind")
        except (ValueError, TypeError):
            return general(x, y)
        mark_written(x)
        return x

    method.__name__ = f"{row.name}_"
    return method
