"""Writing in place: what it does to memory, to views, and to recorded history.

On a recorded tensor an in-place op is the ordinary op followed by a change of history: the tensor takes on the result's node.
On a view, the owner's new history is "the old one with this region replaced" (row `view_write`), and every view of that owner
replays its path from there when it is next used.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.application import apply, edge_of, failure, keeps, make_node
from symgrad.dtypes import type_word
from symgrad.engine import key_of, saved_arrays
from symgrad.escapes import Rebinding
from symgrad.graph import Node, Output, is_node, next_sequence
from symgrad.mode import guard_epoch, local
from symgrad.ops.kernels.axpy import axpy
from symgrad.ops.promotion import FLOAT32, FLOAT64, compute_type, kind
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.ops.variants import is_half
from symgrad.tensor import Tensor, refresh, root_of, version_cell, wrap

OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the"
    " tensor before performing the operation."
)
_SEVERAL = (
    " This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified"
    " inplace. You should replace the inplace operation by an out-of-place one."
)
_NO_GRAD = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the"
    " inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the"
    " inplace to be tracked)."
)


def mark_written(x: Tensor, numbers: bool = True) -> None:
    """Tell every node that saved this memory that it has changed: the old cell gets the new one and its number.

    Not `numbers`: only shapes change, and all numbers stay what and where they are, so a capture has nothing to read before.
    """
    capture = local.mode.capture
    if capture is not None and numbers:
        capture.before_write(x)
    root = root_of(x)
    old, root._version_cell = root._version_cell, []
    root._writes += 1
    old += (root._version_cell, root._writes)
    if root._forgot is not None:
        _cut_views(root)


def forget(x: Tensor) -> None:
    """Drop the history of an owner. Its views keep theirs until the memory is written to; nodes that saved `x` itself refuse to run."""
    root = root_of(x)
    old, root._version_cell = root._version_cell, []
    old += (root._version_cell, root._writes, key_of(x._node))
    x._node = None
    root._forgot = weakref.ref(x)


def _cut_views(root: Tensor) -> None:
    owner, root._forgot = root._forgot(), None
    if owner is not None:
        owner._epoch += 1


def detach(x: Tensor) -> Tensor:
    """The same memory without history; it shares the version counter, as in PyTorch."""
    if local.mode.capture is not None:
        local.mode.capture.before_alias(x)
    t = wrap(x._array)
    t._base = _without_history(root_of(x))
    return t


def count_together(t: Tensor, x: Tensor) -> Tensor:
    """Let `t`, made around the memory of `x`, see what is written to `x`, and the other way round."""
    if x._base is None and x._node is None and x.__class__ is Tensor:  # a tensor made to be `t`: the one that lives on does the counting
        t._version_cell, t._writes, x._base = x._version_cell, x._writes, t
    else:
        t._base = _without_history(root_of(x))
    return t


def _without_history(root: Tensor) -> Tensor:
    """A computed tensor hands the counting of writes to a stand-in, lest who shares its memory keep its whole graph alive."""
    if root._node is None:
        return root
    root._base = stand_in = wrap(root._array)
    stand_in._version_cell, stand_in._writes = root._version_cell, root._writes
    return stand_in


def shadow(x: Tensor) -> Tensor:
    """`x` as it is now, values and history: what an in-place op reads. A trace knows what has no history by the tensor itself."""
    if x._base is not None and x._made is None:
        refresh(x)
    if local.mode.capture is not None:
        if x._node is None:
            return x
        local.mode.capture.before_alias(x)
    return wrap(x._array, x._requires_grad, x._node)


def rows_of(x: Tensor, count: int) -> list[Tensor]:
    """`x` cut into tensors of so many rows. They share its memory and nothing else: who writes to them calls `mark_written(x)`."""
    array = x._array
    return [wrap(array[i : i + count]) for i in range(0, len(array), count)]


# --- history of views -----------------------------------------------------------------------------------------------------


def path_of(view: Tensor) -> tuple[Any, ...]:
    """The way from the owner, as it is shaped now, to the view."""
    assert view._owner is not None
    later = view._owner._undo[: len(view._owner._undo) - view._depth]
    return (*later, *view._path)


def replay(view: Tensor) -> None:
    """Record the way from the owner to the view again."""
    owner = view._owner
    assert owner is not None
    if view._made is not None and (owner._requires_grad or view._requires_grad):
        raise forbidden(view, indirect=True)
    view._epoch = owner._epoch
    if view._made is not None:  # neither has a history
        return
    t = owner if owner._node is None and owner._requires_grad else shadow(owner)
    mode = local.mode
    recording, mode.recording = mode.recording, True
    try:
        for name, attrs in path_of(view):
            t = apply(TABLE[name], (t,), attrs)
    finally:
        mode.recording = recording
    view._node, view._requires_grad = t._node, t._requires_grad


def set_history(x: Tensor, edge: Any) -> None:
    """`x`, which has just been written to, takes on the history `edge`; on a view, its owner does in that region."""
    owner, before = x._owner, x._node
    if not x._requires_grad:
        guard_epoch.count += 1
    if owner is None:
        x._node, x._requires_grad, x._epoch = edge, True, x._epoch + 1
    else:
        path = tuple((name, tuple(attrs.items())) for name, attrs in path_of(x))
        inputs = (edge_of(owner), edge)
        node = make_node(TABLE["view_write"], inputs, {"path": path}, inputs, None, None)
        node.shape, node.dtype = owner._array.shape, owner._array.dtype
        if owner._retains:
            owner._retain_from(owner._node, node)
        owner._node, owner._requires_grad, owner._epoch = node, True, owner._epoch + 1
        replay(x)
    if x._retains:
        x._retain_from(before, x._node)


# --- what is refused ------------------------------------------------------------------------------------------------------


def forbidden(view: Tensor, indirect: bool) -> RuntimeError:
    """PyTorch's words for a write to a view that has no history of its own to change."""
    written = "its base or another view of its base has been" if indirect else "is being"
    node = view._node.node if view._node.__class__ is Output else view._node
    output = view._node.index if view._node.__class__ is Output else 0
    name = "" if node is None else node.name().removesuffix("0").removesuffix("Backward")
    if view._made == "several" and node is not None:
        return RuntimeError(f"Output {output} of {name} is a view and {written} modified inplace.{_SEVERAL}")
    start = f"Output {output} of {name} is a view of a view which was created in" if node is not None else "A view was created in"
    reason = _SEVERAL if view._made == "several" else _NO_GRAD
    return RuntimeError(f"{start} no_grad mode and {written} modified inplace with grad mode enabled.{reason}")


def refuse(x: Tensor) -> None:
    """A write that is to be recorded needs a history that can change: a leaf that requires grad has none."""
    if x._made is not None:
        raise forbidden(x, indirect=False)
    owner = x._owner
    if owner is not None and owner._node is None and (x._requires_grad or owner._requires_grad):
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if owner is None and x._requires_grad and x._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def tracked(x: Tensor, *others: Any) -> bool:
    """Whether a write to `x` that reads the others changes a history. The write is refused if it must not."""
    capture = local.mode.capture
    if capture is not None:
        capture.before_write(x)
    return changes_history(x, *others)


def changes_history(x: Tensor, *others: Any) -> bool:
    """The same of a change that leaves all numbers where they are."""
    if not local.mode.recording or kind(x._array.dtype) not in "fc":
        return False
    if x._base is not None and x._made is None:
        refresh(x)
    needed = x._requires_grad or (x._owner is not None and x._owner._requires_grad)
    for other in others:
        if isinstance(other, Tensor):
            if other._base is not None:
                refresh(other)
            needed = needed or other._requires_grad
    if needed:
        refuse(x)
    return needed


def overlapping(array: Any) -> bool:
    """Whether two elements may share memory: the strides must climb over all that the smaller ones span."""
    reach = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride < reach:
            return bool(array.size)
        reach += stride * (n - 1)
    return False


def check_writable(array: Any) -> None:
    """Refuse memory whose elements overlap, or that is read-only."""
    flags = array.flags
    if not flags.c_contiguous and overlapping(array):
        raise RuntimeError(OVERLAP)
    if not flags.writeable:
        raise RuntimeError("this tensor's memory is read-only: clone() it before writing in place")


def refuse_cast(given: Any, wanted: Any) -> None:
    """Refuse to write a richer kind of number into memory of a poorer one."""
    order = "bifc"
    if order.index(kind(given)) > order.index(kind(wanted)):
        raise RuntimeError(f"result type {type_word(given)} can't be cast to the desired output type {type_word(wanted)}")


# --- writing --------------------------------------------------------------------------------------------------------------


def store(x: Tensor, result: Tensor, uniform: bool = False) -> Tensor:
    """`x` takes on the values of `result`, and its history if it has one. If they are `uniform`, elements of x may share memory."""
    value = result._array
    if value.shape != x._array.shape:
        raise RuntimeError(f"output with shape {list(x._array.shape)} doesn't match the broadcast shape {list(value.shape)}")
    refuse_cast(value.dtype, x._array.dtype)
    abstract = local.mode.capture is not None and local.mode.capture.abstract
    if not abstract and not uniform:
        check_writable(x._array)
    record = tracked(x, result)
    if record and not result._requires_grad:
        result = apply(TABLE["replace"], (shadow(x), result), {})
    elif record and value.dtype != x._array.dtype:
        result = apply(TABLE["cast"], (result,), {"dtype": x._array.dtype})
    if not abstract:
        local.mode.run(np.copyto, x._array, value, casting="unsafe")
    mark_written(x)
    if record:
        _keep_in(x, result)
        set_history(x, edge_of(result))
    if local.mode.capture is not None:
        local.mode.capture.after_write(x, result)
    return x


def _keep_in(x: Tensor, result: Tensor) -> None:
    """A rule that reads the result finds it in x from now on: no second copy is kept, and a later write to x is noticed."""
    node = result._node
    if is_node(node) and node.out is result._array and result._array.dtype == x._array.dtype:
        node.out = x._array
        node.cells = (*(cell for cell in node.cells or () if cell is not result._version_cell), version_cell(x))


def inplace(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """The in-place form of any function of a tensor."""

    def method(x: Tensor, *args: Any, **attrs: Any) -> Tensor:
        if not tracked(x, *args, *attrs.values()):
            return store(x, function(wrap(x._array) if local.mode.capture is None else shadow(x), *args, **attrs))
        since, source = next_sequence(), shadow(x)
        result = function(source, *args, **attrs)
        if result is source:
            return x
        protect(result._node, x._array, since)
        return store(x, result)

    method.__name__ = f"{getattr(function, '__name__', 'op')}_"
    method.__doc__ = f"In-place form of `{getattr(function, '__name__', 'op')}`."
    return method


def protect(edge: Any, array: Any, since: int) -> None:
    """Nodes younger than `since` that saved memory which is about to be overwritten keep a copy of it instead."""
    stack: list[Any] = [edge]
    copies: dict[int, Any] = {}
    while stack:
        edge = stack.pop()
        node = edge.node if edge.__class__ is Output else edge
        if not is_node(node) or node.sequence < since:
            continue
        stack += node.inputs
        if node.cells is None or node.saved is None:
            continue
        entries = saved_arrays(node)
        for a, _, _ in entries:
            if a.__class__ is np.ndarray and id(a) not in copies and np.may_share_memory(a, array):
                copies[id(a)] = a.copy()
                if local.mode.capture is not None:
                    local.mode.capture.on_saved_copy(a, copies[id(a)])
        if local.mode.capture is not None:  # a program computes from the copy; eager code refuses what PyTorch refuses
            node.cells = tuple([[] if id(a) in copies and edge is not None else cell for a, edge, cell in entries])
        node.saved = tuple([copies.get(id(a), a) for a in node.saved])


def write(
    x: Tensor, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], action: Callable[[Any], Any], uniform: bool = False
) -> Tensor:
    """Let `action` change x's memory, and record that x is now `row(x, *args)`, whose rules must not read x.

    A `uniform` write gives all elements one value, so that it does no harm if they share memory.
    """
    record = tracked(x, *args)
    if local.mode.capture is not None:
        return store(x, apply(row, (shadow(x), *args), attrs), uniform and not record)
    if record or not uniform:
        check_writable(x._array)
    node = _node_of_write(x, row, args, attrs) if record else None
    try:
        local.mode.run(action, x._array)
    except (ValueError, IndexError, TypeError) as error:
        raise failure(row, (x, *args), attrs, error) from error
    mark_written(x)
    if node is not None:
        set_history(x, node)
    return x


def _node_of_write(x: Tensor, row: Row, args: tuple[Any, ...], attrs: dict[str, Any]) -> Node:
    tensors = [a for a in args if isinstance(a, Tensor)]
    edges = (edge_of(x), *(edge_of(a) if isinstance(a, Tensor) else a for a in args))
    needs = (x._requires_grad, *(isinstance(a, Tensor) and a._requires_grad for a in args))
    keep = keeps(row, needs)[1:]
    kept = tuple(a._array if k and isinstance(a, Tensor) else e for a, k, e in zip(args, keep, edges[1:], strict=False))
    cells = tuple(version_cell(a) for a, k in zip(args, keep, strict=False) if k and isinstance(a, Tensor)) if tensors else ()
    node = make_node(row, edges, attrs, (edges[0], *kept), None, cells or None)
    node.shape, node.dtype = x._array.shape, x._array.dtype
    return node


def _has_history(x: Tensor) -> bool:
    return x._requires_grad or (x._owner is not None and x._owner._requires_grad)


def added(x: Tensor, y: Any, alpha: float) -> bool:
    """x += alpha * y straight in the memory, if both are floats of one type and nothing is recorded. Whether that was so."""
    mode = local.mode
    array = x._array
    dtype = array.dtype
    if not isinstance(y, Tensor) or y._array.dtype is not dtype or (dtype is not FLOAT32 and dtype is not FLOAT64):
        return False
    if mode.capture is not None or (mode.recording and (_has_history(x) or _has_history(y))):
        return False
    if not array.flags.c_contiguous and overlapping(array):
        return False
    try:
        mode.run(axpy, array, y._array, alpha)
    except ValueError:
        return False
    mark_written(x)
    return True


_OPERANDS = (bool, int, float, complex, np.ndarray, np.generic)


def inplace_ufunc(row: Row) -> Callable[..., Tensor]:
    """The in-place form of an arithmetic row: writes straight into the memory when nothing is recorded."""
    kernel, takes_bools = row.numpy, "b" in row.kinds
    general = inplace(lambda x, y: apply(row, (x, y), {}))

    def method(x: Tensor, y: Any) -> Tensor:
        mode = local.mode
        array = x._array
        other = y._array if isinstance(y, Tensor) else y
        if mode.capture is not None or (mode.recording and (_has_history(x) or (other is not y and _has_history(y)))):
            return general(x, y)
        if not array.flags.c_contiguous and overlapping(array):
            raise RuntimeError(OVERLAP)
        dtype = array.dtype
        alike = (y.__class__ is float or y.__class__ is int) if other is y else other.dtype is dtype
        if not alike or (dtype is not FLOAT32 and dtype is not FLOAT64):
            if other is y and (not isinstance(y, _OPERANDS) or isinstance(y, (np.ma.MaskedArray, np.matrix))):
                return general(x, y)  # which knows what stands for a tensor, and what to say of the rest
            if compute_type(row.policy, (array, other)) != dtype or (other is y and is_half(dtype)):
                return general(x, y)
            if not takes_bools and (y.__class__ is bool or (other is not y and other.dtype.kind == "b")):
                return general(x, y)  # refuses it
        try:
            mode.run(kernel, array, other, out=array, casting="same_kind")
        except (ValueError, TypeError, OverflowError):
            return general(x, y)
        mark_written(x)
        return x

    method.__name__ = f"{row.name}_"
    return method


# --- shape in place -------------------------------------------------------------------------------------------------------


def rearrange(x: Tensor, row: str, attrs: dict[str, Any], undo: tuple[str, dict[str, Any]]) -> Tensor:
    """`x` becomes a view of itself; `undo` is the step back, from which views made before find their way."""
    if local.mode.capture is not None:
        local.mode.capture.before_rebind(x, Rebinding[row.upper()])
    changes_history(x)
    mode = local.mode
    recording = mode.recording
    mode.recording = recording or x._node is not None or not x._requires_grad  # the history stays, and a later write begins one
    try:
        t = apply(TABLE[row], (x,), attrs)
    finally:
        mode.recording = recording
    x._array, x._node, x._constant = t._array, t._node, None
    guard_epoch.count += 1
    mark_written(x, numbers=False)
    if x._owner is not None:
        x._path = (*x._path, (row, attrs))
        return x
    x._undo = (undo, *x._undo)
    return x
