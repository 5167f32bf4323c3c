"""Ops while a function is traced: each becomes a value of the graph, and its results are bound to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.equal_scalars import merge_equal_scalars
from symgrad.compiler.ir.builder import apply, detached, xp
from symgrad.compiler.ir.fold import number as number_of
from symgrad.compiler.ir.graph import Value, literal
from symgrad.compiler.ir.nan_origin import check_loop_nans
from symgrad.compiler.support.source_lines import user_line
from symgrad.compiler.symbolic.user_ops import of_function
from symgrad.compiler.trace.data_dependent_shapes import DATA_DEPENDENT_ROWS, apply_data_dependent
from symgrad.compiler.trace.storage import TracedStorage, view_step
from symgrad.compiler.trace.trace_once import trace_once
from symgrad.compiler.trace.values import TracedValues
from symgrad.debug import NanWatch
from symgrad.dispatch import tensors as tensor_ops
from symgrad.errors import TraceError
from symgrad.mode import local
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor
from symgrad.tracer import T


class OpRecorder(TracedValues):
    """The events of a tracer that concern ops, tensors that are made without one, and work that is traced once for many tensors."""

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        """Apply the row to the graph values of `args`, and bind the results."""
        operands = tuple([self.value(a) if isinstance(a, Tensor) else _as_factor(a, row, args) for a in args])
        values = self._apply(row, operands, attrs, result)
        if not isinstance(result, tuple):
            result, values = (result,), (values,)
        if result:
            self._note_saved_casts(result[0]._node, args, operands)
        for i, (t, v) in enumerate(zip(result, values, strict=True)):
            if t._requires_grad and self.effects:
                v = _link_zero_derivative(v, operands)
            self.lines[v] = self.lines.get(v) or user_line()
            if row.name == "assume":
                self.assumed[v] = self.lines[v]
            self._bind_result(t, v, row, args, attrs, i)

    def _apply(self, row: Row, operands: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> Any:
        """The graph value, or values, of the row. The size of a result that depends on values becomes a path condition."""
        try:
            values = None
            if row.name in DATA_DEPENDENT_ROWS and self.allow_branches and not self.inline_scalars:
                values = apply_data_dependent(self.path, row, operands, attrs, result)
            return apply(row, operands, attrs) if values is None else values
        except RecursionError:
            raise  # raised by the user's function
        except RuntimeError as error:  # the op itself ran, so its type rule fails for want of a value
            raise TraceError(f"{user_line()}: {error}; leave the function eager") from error

    def _bind_result(self, t: Tensor, value: Value, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], index: int) -> None:
        """Bind `t`, output `index` of the row, to its value. A view shares the storage of the first argument."""
        silent = self.was_recording and not local.mode.recording
        new = detached(value) if silent else value
        base = None if t._owner is None else self.storages.get(id(args[0]._array))
        if base is None:
            self.bind(t, new)
            return
        self.bind(t, new, (base, view_step(row.name, attrs, index, args[0]._array.shape)))
        assert t._owner is not None
        self.storages[id(t._array)].is_detached |= silent or not self.shares_history(t._owner)
        if self.detached_histories.values:
            self.detached_histories.add_view(args[0], t, value)

    def _note_saved_casts(self, edge: Any, args: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        """Bind the arrays that a node saved of operands cast for its kernel: backward() reads them in that dtype."""
        saved = () if edge is None else getattr(edge, "node", edge).saved
        for array, arg, operand in zip(saved, args, operands, strict=False):
            if array.__class__ is np.ndarray and isinstance(arg, Tensor) and array is not arg._array and id(array) not in self.storages:
                self.storages[id(array)] = TracedStorage(xp.cast(operand, dtype=array.dtype))
                self.keep_alive.append(array)

    def symbolic_call(self, row: Row, args: tuple[Any, ...]) -> Any:
        """The result of a Function that has a symbolic definition, computed with recorded ops from that definition; its own forward and
        backward do not run."""
        return of_function(tensor_ops, row, args, lambda x: isinstance(x, Tensor))

    def on_constant(self, t: Tensor) -> None:
        """Record a tensor that the function creates from Python or NumPy values: its present values are a constant of the program, even if
        it is written to later."""
        self.keep_alive.append(t)
        if any(t._array is drawn for drawn, _ in self.draws):
            return
        if self.effects:
            self.bind_constant(t)
        else:  # a captured input, unless it is written to
            self.constant_arrays.add(id(t._array))

    def on_fill(self, t: Tensor, number: int) -> None:
        """Bind a tensor that autograd filled with one number to that literal."""
        self.bind(t, xp.expand(literal(number, t._array.dtype), shape=t._array.shape))

    def merge_equal_scalars(self, key: Hashable, t: Tensor) -> None:
        """Let all tensors of this key that hold the same scalar as `t` share one input, guarded by their equality."""
        merge_equal_scalars(self, key, t)

    def cse(self, key: Hashable, t: Tensor, compute: Callable[[], T]) -> T:
        """The result of `compute()`, a function of `t`, computed once for all tensors that have the same value and key."""
        if not self.effects:
            return compute()
        known = key, self.value(t)
        if known not in self.cse_cache:
            self.cse_cache[known] = compute()
        return self.cse_cache[known]  # type: ignore[no-any-return]

    def trace_once(self, key: Hashable, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        """Run in-place work on `tensors`, tracing it only once for each key and tuple of types."""
        trace_once(self, key, tensors, run)

    def check_loop_nans(self, watch: NanWatch, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Let the NaN watch find the op inside a loop or branch that produced a NaN."""
        check_loop_nans(watch, name, operands, attrs, self.lines)


def _as_factor(number: Any, row: Row, args: tuple[Any, ...]) -> Any:
    """0.0 if `number` is the integer 0 as a factor of a floating-point tensor, else `number`: 0.0 is not folded away, since NaN and
    infinity times zero are NaN."""
    if row.name != "mul" or type(number) is not int or number != 0:
        return number
    return 0.0 if any(isinstance(a, Tensor) and kind(a._array.dtype) in "fc" for a in args) else number


def _link_zero_derivative(value: Value, operands: Sequence[Any]) -> Value:
    """`value`, the result of an op; if it was folded to a constant, as x**0 is, linked by a zero derivative to each operand that is no
    constant: it still requires grad, as in eager code."""
    if number_of(value) is None or kind(value.dtype) not in "fc":
        return value
    for x in operands:
        if isinstance(x, Value) and number_of(x) is None and kind(x.dtype) in "fc":
            value = xp.replace(_like(x, value), value)
    return value


def _like(x: Value, value: Value) -> Value:
    """`x` summed and expanded to the shape of `value`, if that differs, and cast to its dtype."""
    if x.shape != value.shape:
        x = xp.expand(xp.sum(x, axis=tuple(range(x.ndim)), keepdims=False), shape=value.shape)
    return xp.cast(x, dtype=value.dtype)
