"""The one dispatch point: run a row's kernel on tensors, and record it if anybody will ask for its derivative.

`recorded(row)` makes the function that the public ops, the operators and the tensor-level `xp` share. Elementwise rows of one or two
operands get a short path for the common case (same float type); everything else goes through `apply`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.application import PLAIN, REFUSALS, apply, edge_of, failure, keeps, view_of, without_tensors
from symgrad.graph import Node, next_sequence
from symgrad.mode import local
from symgrad.ops.namespace import namespace
from symgrad.ops.promotion import FLOAT32, FLOAT64, kind
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, refresh, version_cell, wrap

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace

ndarray, asarray = np.ndarray, np.asarray
new: Any = Tensor.__new__
new_node: Any = Node.__new__
_NO_ATTRS: dict[str, Any] = {}


def recorded(row: Row) -> Callable[..., Any]:
    """The op of a row: the shortest path that it allows."""
    meets = row.elementwise and row.policy in ("promote", "float") and "f" in row.kinds
    if not row.attrs:
        if meets and len(row.args) == 1:
            return _unary(row)
        if (meets or row.policy == "same") and row.args == ("x", "y") and row.differentiable:
            return _binary(row)
    if row.policy == "compare" and row.args == ("x", "y") and "f" in row.kinds:
        return _comparison(row)
    if row.view and row.outputs == 1:
        return _view(row)
    if row.args == ("x",) and row.attrs and row.outputs == 1 and "f" in row.kinds:
        return _unary_with_attributes(row)
    return _general(row)


def _general(row: Row) -> Callable[..., Any]:
    most = sys.maxsize if row.args and row.args[-1].startswith("*") else len(row.args)

    def op(*args: Any, **attrs: Any) -> Any:
        if len(args) > most:  # NumPy would take one more for its out=
            raise TypeError(f"{row.name}() takes {most} positional arguments but {len(args)} were given")
        return apply(row, args, attrs)

    op.__name__ = row.name
    return op


# The four ops that record below repeat how a result and its node are made. Sharing that by a function costs 45 to 130 ns an op, of 750 to
# 1250 (exp of 3 elements 1.07 times as long, recorded 1.13; mul 1.05 both ways; one process, interleaved, least of 300 rounds of 1000), and
# one more call for each op. Code made from a text template would cost nothing, but no tool checks it and no debugger steps through it.


def _unary(row: Row) -> Callable[..., Any]:
    kernel, differentiable = row.numpy, row.differentiable
    saves_x, saves_out = "x" in row.saves[0], "out" in row.saves[0]

    def op(x: Any) -> Any:
        mode = local.mode
        try:
            a = x._array
            base = x._base
        except AttributeError:
            return apply(row, (x,), _NO_ATTRS)
        dtype = a.dtype
        if (dtype is not FLOAT32 and dtype is not FLOAT64) or mode.capture is not None:
            return apply(row, (x,), _NO_ATTRS)
        if base is not None:
            refresh(x)
        out = mode.run(kernel, a)
        if out.__class__ is not ndarray:
            out = asarray(out)
        t = new(Tensor)
        t._array = out
        t._base = None
        cell: list[Any] = []
        t._version_cell = cell
        if x._requires_grad and differentiable and mode.recording:
            t._requires_grad = True
            t._node = node = new_node(Node)
            node.row = row
            node.inputs = node.saved = (x._node or x,)
            node.attrs = _NO_ATTRS
            node.sequence = next_sequence()
            node.shape = out.shape
            node.dtype = dtype
            node.hooks = None
            if saves_x:
                node.saved = (a,)
                source = x._version_cell if base is None else version_cell(x)
                node.cells = (source, cell) if saves_out else (source,)
            else:
                node.cells = (cell,) if saves_out else None
            node.out = out if saves_out else None
        else:
            t._requires_grad = False
            t._node = None
        return t

    op.__name__ = row.name
    return op


def _comparison(row: Row) -> Callable[..., Any]:
    """Yes or no has no derivative: there is nothing to record."""
    kernel = row.numpy

    def op(x: Any, y: Any) -> Any:
        mode = local.mode
        if mode.capture is not None or not isinstance(x, Tensor):
            return apply(row, (x, y), _NO_ATTRS)
        a = x._array
        b: Any = y._array if isinstance(y, Tensor) else y if y.__class__ is float or y.__class__ is int else None
        if b is None or (a.dtype is not FLOAT32 and a.dtype is not FLOAT64) or (b is not y and b.dtype is not a.dtype):
            return apply(row, (x, y), _NO_ATTRS)
        try:
            return wrap(mode.run(kernel, a, b))
        except ValueError as error:
            raise failure(row, (x, y), _NO_ATTRS, error) from None

    op.__name__ = row.name
    return op


def _unary_with_attributes(row: Row) -> Callable[..., Any]:
    """Reductions, powers, casts: as `_unary`, with keywords."""
    kernel, differentiable = row.numpy, row.differentiable
    saves_x, saves_out = "x" in row.saves[0], "out" in row.saves[0]

    def op(x: Any, **attrs: Any) -> Any:
        mode = local.mode
        if not isinstance(x, Tensor) or x._base is not None or mode.capture is not None:
            return apply(row, (x,), attrs)
        for value in attrs.values():
            if value.__class__ not in PLAIN:
                return apply(row, (x,), attrs)
        a = x._array
        if a.dtype is not FLOAT32 and a.dtype is not FLOAT64:
            return apply(row, (x,), attrs)
        try:
            out = mode.run(kernel, a, **attrs)
        except REFUSALS as error:
            return without_tensors(row, (x,), attrs, error)
        if out.__class__ is not ndarray:
            out = asarray(out)
        t = new(Tensor)
        t._array = out
        t._base = None
        cell: list[Any] = []
        t._version_cell = cell
        dtype = out.dtype
        if x._requires_grad and differentiable and mode.recording and (dtype is a.dtype or kind(dtype) in "fc"):
            t._requires_grad = True
            t._node = node = new_node(Node)
            node.row = row
            node.inputs = (x._node or x,)
            node.attrs = attrs
            node.sequence = next_sequence()
            node.shape = out.shape
            node.dtype = dtype
            node.hooks = None
            node.saved = (a,) if saves_x else node.inputs
            node.out = out if saves_out else None
            node.cells = ((x._version_cell, cell) if saves_out else (x._version_cell,)) if saves_x else (cell,) if saves_out else None
        else:
            t._requires_grad = False
            t._node = None
        return t

    op.__name__ = row.name
    return op


def _view(row: Row) -> Callable[..., Any]:
    kernel = row.numpy

    def op(x: Any, **attrs: Any) -> Any:
        if not isinstance(x, Tensor) or local.mode.capture is not None:
            return apply(row, (x,), attrs)
        try:
            out = kernel(x._array, **attrs)
        except REFUSALS as error:
            return without_tensors(row, (x,), attrs, error)
        return view_of(row, x, attrs, out)

    op.__name__ = row.name
    return op


def _binary(row: Row) -> Callable[..., Any]:
    kernel = row.numpy
    kept = {needs: keeps(row, needs) for needs in ((True, True), (True, False), (False, True))}
    with_number = _binary_with_number(row) if row.elementwise else _general(row)

    def op(x: Any, y: Any) -> Any:
        cls = y.__class__
        if cls is float or cls is int:
            return with_number(x, y)
        mode = local.mode
        try:
            a = x._array
            b = y._array
            base = x._base if x._base is not None else y._base
        except AttributeError:
            return apply(row, (x, y), _NO_ATTRS)
        dtype = a.dtype
        if dtype is not b.dtype or (dtype is not FLOAT32 and dtype is not FLOAT64) or mode.capture is not None:
            return apply(row, (x, y), _NO_ATTRS)
        if base is not None:
            refresh(x)
            refresh(y)
        try:
            out = mode.run(kernel, a, b)
        except ValueError as error:
            raise failure(row, (x, y), _NO_ATTRS, error) from None
        if out.__class__ is not ndarray:
            out = asarray(out)
        t = new(Tensor)
        t._array = out
        t._base = None
        cell: list[Any] = []
        t._version_cell = cell
        if (x._requires_grad or y._requires_grad) and mode.recording:
            edges = (x._node or (x if x._requires_grad else edge_of(x)), y._node or (y if y._requires_grad else edge_of(y)))
            keep_x, keep_y, keep_out = kept[x._requires_grad, y._requires_grad]
            t._requires_grad = True
            t._node = node = new_node(Node)
            node.row = row
            node.inputs = node.saved = edges
            node.attrs = _NO_ATTRS
            node.sequence = next_sequence()
            node.shape = out.shape
            node.dtype = dtype
            node.hooks = node.out = node.cells = None
            if keep_x or keep_y:
                node.saved = (a if keep_x else edges[0], b if keep_y else edges[1])
                if keep_x and keep_y:
                    node.cells = (x._version_cell, y._version_cell) if base is None else (version_cell(x), version_cell(y))
                else:
                    node.cells = (version_cell(x if keep_x else y),)
            if keep_out:
                node.out = out
                node.cells = (cell,) if node.cells is None else (*node.cells, cell)
        else:
            t._requires_grad = False
            t._node = None
        return t

    op.__name__ = row.name
    return op


def _binary_with_number(row: Row) -> Callable[..., Any]:
    """The second operand is a Python float or int."""
    kernel = row.numpy
    keep_x, _, keep_out = keeps(row, (True, False))

    def op(x: Any, y: Any) -> Any:
        mode = local.mode
        try:
            a = x._array
            base = x._base
        except AttributeError:
            return apply(row, (x, y), _NO_ATTRS)
        dtype = a.dtype
        if (dtype is not FLOAT32 and dtype is not FLOAT64) or mode.capture is not None:
            return apply(row, (x, y), _NO_ATTRS)
        if base is not None:
            refresh(x)
        out = mode.run(kernel, a, y)
        if out.__class__ is not ndarray:
            out = asarray(out)
        t = new(Tensor)
        t._array = out
        t._base = None
        cell: list[Any] = []
        t._version_cell = cell
        if x._requires_grad and mode.recording:
            edge = x._node or x
            t._requires_grad = True
            t._node = node = new_node(Node)
            node.row = row
            node.inputs = (edge, y)
            node.saved = (a if keep_x else edge, y)
            node.attrs = _NO_ATTRS
            node.sequence = next_sequence()
            node.shape = out.shape
            node.dtype = dtype
            node.hooks = None
            node.out = out if keep_out else None
            cells = (version_cell(x),) if keep_x else ()
            node.cells = (*cells, cell) if keep_out else cells or None
        else:
            t._requires_grad = False
            t._node = None
        return t

    return op


tensors: Namespace[Tensor] = namespace(recorded)
