"""The tracer: run a function under the dispatcher's capture, which sees every op (also under no_grad), and build a graph of the ops.

The arguments are inputs, and so is every tensor that the function captures: each run of the graph reads it again. A value that escapes to
Python becomes a path condition if it can be guarded (a boolean, an integer), else it raises a TraceError that names the user's line. With
`effects`, in-place writes and backward() are part of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.guards.conditions import PathConditions as PathConditions, as_python_value
from symgrad.compiler.guards.equal_scalars import EqualScalarsGuard, merge_equal_scalars
from symgrad.compiler.inputs.sources import CapturedInput, RngInput
from symgrad.compiler.ir.builder import apply, detached, xp
from symgrad.compiler.ir.custom import revalued
from symgrad.compiler.ir.graph import Value, input_value, literal
from symgrad.compiler.ir.nan_origin import check_loop_nans
from symgrad.compiler.support.source_lines import user_line as user_line
from symgrad.compiler.symbolic.user_ops import of_function
from symgrad.compiler.trace.custom_backward import trace_backward
from symgrad.compiler.trace.data_dependent_shapes import DATA_DEPENDENT_ROWS, apply_data_dependent
from symgrad.compiler.trace.dependencies import GuardRecorder
from symgrad.compiler.trace.detached_histories import DetachedHistories
from symgrad.compiler.trace.gradients import GradRecorder
from symgrad.compiler.trace.graph_break import REBINDING, escape_error, rebinding_error
from symgrad.compiler.trace.journal import Journal
from symgrad.compiler.trace.rng import RngRecorder
from symgrad.compiler.trace.storage import TracedStorage, view_step
from symgrad.compiler.trace.trace_once import Pattern, trace_once
from symgrad.compiler.trace.zero_derivative import link_zero_derivative
from symgrad.dispatch import tensors
from symgrad.engine import key_of
from symgrad.errors import EffectError, SymgradError, TraceError
from symgrad.escapes import AUTOGRAD_GRAD, BACKWARD, MASK, TOLIST, Escape
from symgrad.lines import raised_at
from symgrad.mode import is_tracing as is_tracing, local
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap

_MAX_LISTED_NUMBERS = 1024
"""tolist() of a larger integer tensor is refused instead of guarded: it is data, which differs from call to call, not a list of sizes."""


class Capture(GuardRecorder, GradRecorder, RngRecorder):
    """The object that the dispatcher calls while a function is traced: see `symgrad.mode.Mode.capture`.

    With `allow_branches`, Python may branch on tensor values: the graph is that of the path taken, and `path` holds its conditions. With
    `effects`, the function may write to tensors that it captures, call backward(), and draw random numbers: all of it is part of the
    program. If `abstract`, kernels do not run, so neither is possible.
    """

    def __init__(self, abstract: bool, names: Mapping[int, str], allow_branches: bool = False, effects: bool = False) -> None:
        GuardRecorder.__init__(self)
        GradRecorder.__init__(self)
        RngRecorder.__init__(self)
        self.abstract = abstract
        self.inline_scalars = allow_branches and not effects
        """True if captured tensors without dimensions become literals with their present value; otherwise they are inputs."""
        self.allow_branches = allow_branches and not abstract
        self.effects = effects and not abstract
        self.was_recording = not self.effects or local.mode.recording
        """Grad mode at the call (always on without effects). If it was off, the results cannot be differentiated, so no value needs a
        stop-gradient."""
        self.path = PathConditions()
        self.names = names
        """Names by tensor id of the parameters, if the function is a module. They are symbols in formulas, even without dimensions."""
        self.tensor_names: Mapping[int, str] = {}
        """Names by tensor id of the other tensors that the function captures."""
        self.journal = Journal()
        self.arguments = 0
        self.duplicate_arguments: set[int] = set()
        """Ids of the stand-ins for arguments that repeat an earlier argument."""
        self.inputs: list[Value] = []
        self.labels: list[str] = []
        self.used_labels: set[str] = set()
        self.unnamed: list[int] = []
        """Positions of the captured inputs that have no name."""
        self.captured: list[Tensor] = []
        self.sources: list[Any] = []
        """Where a run finds each input that is no argument: see `symgrad.compiler.inputs.sources`."""
        self.equal_scalars: dict[Any, EqualScalarsGuard] = {}
        """Groups of tensors that share one input because they hold equal scalars."""
        self.cse_cache: dict[Any, Any] = {}
        self.patterns: dict[Any, Pattern] = {}
        self.input_tensors: list[Tensor] = []
        """The tensor behind each input, in order."""
        self.written_inputs: dict[int, tuple[Tensor, TracedStorage]] = {}
        self.lines: dict[Value, str] = {}
        """The user's source line of each value."""
        self.refused: tuple[str, TraceError] | None = None
        """The source line and the error of the last refused escape."""
        self.redacted_lines: set[str] = set()
        """Source lines at which the text of a tensor was asked for: `symgrad.escapes.redacted_text` warns once for each."""
        self.prints: list[tuple[str, list[Value], dict[str, Value]]] = []
        """The arguments of each `debug.print()`, which the program repeats at every run."""
        self.known_ids: set[int] = set()
        self.constant_arrays: set[int] = set()
        """Ids of the arrays that the function creates from Python or NumPy values, in a trace without effects."""
        self.storages: dict[int, TracedStorage] = {}
        self.node_values: dict[Any, Value] = {}
        self.detached_histories = DetachedHistories()
        self.keep_alive: list[Any] = []

    def __call__(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        operands = tuple(self.value(a) if isinstance(a, Tensor) else _as_factor(a, row, args) for a in args)
        try:
            values = (
                apply_data_dependent(self.path, row, operands, attrs, result) if row.name in DATA_DEPENDENT_ROWS and self.allow_branches
                and not self.inline_scalars else None
            )
            if values is None:
                values = apply(row, operands, attrs)
        except RecursionError:
            raise  # raised by the user's function
        except RuntimeError as error:  # the op itself ran, so its type rule fails for want of a value
            raise TraceError(f"{user_line()}: {error}; leave the function eager") from error
        if not isinstance(result, tuple):
            result, values = (result,), (values,)
        if result:
            self._note_saved_casts(result[0]._node, args, operands)
        for i, (t, v) in enumerate(zip(result, values, strict=True)):
            base = None if t._owner is None else self.storages.get(id(args[0]._array))
            if t._requires_grad and self.effects:
                v = link_zero_derivative(v, operands)
            self.lines[v] = self.lines.get(v) or user_line()
            view_of = None if base is None else (base, view_step(row.name, attrs, i, args[0]._array.shape))
            silent = self.was_recording and not local.mode.recording
            self.bind(t, detached(v) if silent else v, view_of)
            if view_of is not None:
                self.storages[id(t._array)].is_detached |= silent or not self._shares_history(t._owner)
                self.detached_histories.add_view(args[0], t, v)

    def _note_saved_casts(self, edge: Any, args: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        """Bind the arrays that a node saved of operands cast for its kernel: backward() reads them in that dtype."""
        saved = () if edge is None else getattr(edge, "node", edge).saved
        for array, arg, operand in zip(saved, args, operands, strict=False):
            if array.__class__ is np.ndarray and isinstance(arg, Tensor) and array is not arg._array and id(array) not in self.storages:
                self.storages[id(array)] = TracedStorage(xp.cast(operand, dtype=array.dtype))
                self.keep_alive.append(array)

    # writes

    def before_write(self, t: Tensor) -> None:
        """Journal a write to a tensor from outside the function; raise EffectError in a trace without effects. Storage that the function
        created may always be written to."""
        storage = self.storages.get(id(t._array))
        while storage is not None and storage.parent is not None:
            storage = storage.parent
        if storage is not None and storage.external is None:
            return  # created by the function
        if self.effects:
            self.journal.before_write(t if storage is None or storage.external is None else storage.external)
        elif not self._freeze_constant(t if t._owner is None else t._owner) and (storage is not None or t._owner is not None):
            raise EffectError(
                f"{user_line()}: a tensor from outside is written to in place inside a traced function; write y = x + 1 in place of"
                " x += 1, or leave the function eager"
            )

    def after_write(self, x: Tensor, result: Tensor) -> None:
        """Bind `x` to the value of `result`, which was copied into it."""
        self.write_value(x, xp.expand(xp.cast(self.value(result), dtype=x._array.dtype), shape=x._array.shape))

    def write_value(self, x: Tensor, value: Value) -> None:
        """Let `value` stand for `x` from now on, and for the region of `x` in every tensor that shares its storage."""
        self.value(x)  # registers x
        storage, owner, quiet = (
            self.storages[id(x._array)], x if x._owner is None else x._owner, x._node is None or not local.mode.recording
        )
        joint = self._shares_history(owner)
        root = (
            storage.write(value, quiet) if joint
            else self.detached_histories.write(x, storage, value, quiet, self.storages[id(owner._array)])
        )
        if root.external is not None:
            self.written_inputs[id(root.external)] = root.external, root
        self.keep_alive.append(owner)
        for t in (x, x._owner) if joint else ():
            if t is not None and t._node is not None:
                storage = self.storages[id(t._array)]
                storage.node_key = key_of(t._node)
                self.node_values[storage.node_key] = storage.current()

    def _shares_history(self, owner: Tensor) -> bool:
        """True if writes to `owner` belong to the history of its storage; False if it sees the storage through detach() or .data."""
        return id(owner) in self.known_ids or id(owner._array) not in self.storages

    # escapes to Python, custom functions, constants

    def before_escape(self, t: Any, escape: Escape) -> None:
        """Record the escape of a tensor's values to Python, add a path condition for it, or raise: see `symgrad.escapes`."""
        if self.effects and escape is BACKWARD:
            self.on_backward(t)
            return
        if escape is AUTOGRAD_GRAD:
            self.differentiated = True
            return
        if escape.asks is not None and t._array.size != 1:
            return  # the conversion itself raises, as in eager code
        if self.allow_branches and escape.asks is not None:
            text = f"{escape.what.partition(')')[0]}) at {user_line()}"
            self.path.add(as_python_value(self.value(t), escape.asks), escape.asks(t._array.item()), text)
            return
        if self.allow_branches and escape is TOLIST and t._array.dtype.kind in "biu" and t._array.size <= _MAX_LISTED_NUMBERS:
            self._guard_list(t)
            return
        if escape is MASK and self.allow_branches and not self.inline_scalars:
            return  # `apply_data_dependent` guards its size
        error = escape_error(escape)
        self.refused = user_line(), type(error)(*error.args)  # a copy: the raised error keeps all frames and their tensors alive
        raise error

    def check_foreign_use(self, values: Any) -> None:
        """Raise TraceError if `values`, operands of an op in another thread, contain an argument of this function or a tensor that it
        created: ops of that thread are not recorded."""
        for t in values:
            storage = self.storages.get(id(t._array)) if isinstance(t, Tensor) else None
            while storage is not None and storage.parent is not None:
                storage = storage.parent
            if (
                storage is not None
                and (storage.external is None or any(storage.external is own for own in self.input_tensors[: self.arguments]))
            ):
                raise TraceError(
                    f"{user_line()}: a tensor of a function that is being traced is used in another thread, where nothing is recorded;"
                    " compute in the thread of the call, or leave the function eager"
                )

    def original_refusal(self, error: BaseException) -> BaseException:
        """The refused escape's error if `error` was raised at the same line, else `error`: NumPy and `struct` replace an exception raised
        inside them by their own."""
        if self.refused is None or isinstance(error, SymgradError) or raised_at(error) != self.refused[0]:
            return error
        return self.refused[1]

    def _guard_list(self, t: Tensor) -> None:
        """Guard tolist() of an integer or boolean tensor by one path condition: all elements are what they are now."""
        value, frozen = self.value(t), wrap(t._array.copy())
        if self.path.is_constant(value):
            return
        same = xp.all(xp.eq(value, self.captured_value(frozen)), axis=tuple(range(value.ndim)), keepdims=False)
        self.storages[id(frozen._array)].external = None
        self.path.constants.add(self.value(frozen))
        self.path.add(same, True, f"whether tolist() at {user_line()} gives {t._array.tolist()}")

    def symbolic_call(self, row: Row, args: tuple[Any, ...]) -> Any:
        """The result of a Function that has a symbolic definition, computed with recorded ops from that definition; its own forward and
        backward do not run."""
        return of_function(tensors, row, args, lambda x: isinstance(x, Tensor))

    def on_custom_function(self, node: Any, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """Trace the backward of a Function without a symbolic definition, if the call was recorded; its forward has been traced already."""
        if node is not None:
            trace_backward(self, node, args, results)

    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Record a `debug.print()` and return whether to print now. A program with effects prints at every run, the traced call included;
        one without effects only computes values and never prints."""
        if self.effects:
            constant: Callable[[Any], Any] = lambda x: self.value(x) if isinstance(x, Tensor) else x
            self.prints.append((text, [constant(x) for x in tensors], {k: constant(x) for k, x in named.items()}))
        return self.effects

    def check_loop_nans(self, watch: Any, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Let the NaN watch find the op inside a loop or branch that produced a NaN."""
        check_loop_nans(watch, name, operands, attrs, self.lines)

    def record_undo(self, action: Callable[[], None]) -> None:
        """Journal `action`, which undoes a change of Python state if the call fails."""
        self.journal.record_undo(action)

    def merge_equal_scalars(self, key: Any, t: Tensor) -> None:
        """Let all tensors of this key that hold the same scalar as `t` share one input, guarded by their equality."""
        merge_equal_scalars(self, key, t)

    def cse(self, key: Any, t: Tensor, compute: Callable[[], Any]) -> Any:
        """The result of `compute()`, a function of `t`, computed once for all tensors that have the same value and key."""
        if not self.effects:
            return compute()
        key = key, self.value(t)
        if key not in self.cse_cache:
            self.cse_cache[key] = compute()
        return self.cse_cache[key]

    def trace_once(self, key: Any, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        """Run in-place work on `tensors`, tracing it only once for each key and tuple of types."""
        trace_once(self, key, tensors, run)

    def on_constant(self, t: Tensor) -> None:
        """Record a tensor that the function creates from Python or NumPy values: its present values are a constant of the program, even if
        it is written to later."""
        array = t._array
        self.keep_alive.append(t)
        if any(array is drawn for drawn, _ in self.draws):
            return
        if self.effects:
            self._constant(t)
        else:  # a captured input, unless it is written to
            self.constant_arrays.add(id(array))

    def _freeze_constant(self, t: Tensor) -> bool:
        """Before a write to `t`: return True if the function created it from Python or NumPy values, and make its present values a constant
        of the program."""
        if id(t._array) not in self.constant_arrays:
            return False
        storage = self.storages.get(id(t._array))
        if storage is None or storage.external is None:
            self._constant(t)
            return True
        place = next(k for k, other in enumerate(self.captured) if other is storage.external)
        self.captured[place] = frozen = wrap(t._array.copy())
        self.sources[place] = CapturedInput(frozen)
        storage.external = None
        return True

    def _constant(self, t: Tensor) -> None:
        array = t._array
        first = array.reshape(-1)[0].item() if array.size and array.dtype.kind in "bif" else None
        if first is not None and (array == first).all():
            self.bind(t, xp.expand(literal(first, array.dtype), shape=array.shape))
            return
        frozen = wrap(array.copy())
        self.add_input(t, "constant", own=True)
        self.path.constants.add(self.inputs[-1])
        self.captured.append(frozen)
        self.sources.append(CapturedInput(frozen))

    def on_fill(self, t: Tensor, number: int) -> None:
        """Bind a tensor that autograd filled with one number to that literal."""
        self.bind(t, xp.expand(literal(number, t._array.dtype), shape=t._array.shape))

    def before_alias(self, t: Tensor) -> None:
        """Register `t` before a second tensor, without history, is made around its storage, so that `t` is the one that gets gradients."""
        self.value(t)

    def on_detach_in_place(self, t: Tensor) -> None:
        """Detach the value of `t`, which loses its history by detach_()."""
        self.value(t)
        storage = self.storages[id(t._array)]
        storage.value, storage.grad_value, storage.node_key = xp.detach(storage.current()), None, None

    def on_saved_copy(self, array: Any, copy: Any) -> None:
        """Bind `copy`, made because `array` was saved for backward() and is about to be overwritten, to the value of `array`."""
        if id(array) in self.storages:
            self.storages[id(copy)] = TracedStorage(self.storages[id(array)].current())
            self.keep_alive.append(copy)

    def before_rebind(self, t: Tensor, how: str) -> None:
        """Raise TraceError before `t` gets other storage, or another shape; the function may reshape in place a tensor that it created."""
        reshaped = how not in REBINDING
        if reshaped and id(t._array) in self.storages and all(t is not other for other in self.input_tensors):
            return
        raise rebinding_error(how)

    # tensors and their values

    def bind(self, t: Tensor, value: Value, view_of: tuple[TracedStorage, Any] | None = None) -> None:
        """Let `value` stand for `t`. For a view, `view_of` holds the storage of its base and the step from there to the view."""
        self.known_ids.add(id(t))
        self.storages[id(t._array)] = TracedStorage(value) if view_of is None else TracedStorage(value, view_of[0], (view_of[1],))
        if t._node is not None:
            self.storages[id(t._array)].node_key = key_of(t._node)
            self.node_values[key_of(t._node)] = value
        self.keep_alive += (t, t._array)

    def value(self, t: Tensor) -> Value:
        """The graph value of `t`, with its history if `t` requires grad and ops are recorded; a new input if the function captures `t`."""
        storage, own = self.storages.get(id(t._array)), self.detached_histories.value_of(t)
        if own is not None:
            return (
                revalued(own if storage is None else storage.current(), own) if local.mode.recording or storage is None
                else storage.current()
            )
        if (
            storage is not None
            and (id(t) in self.known_ids or (storage.node_key is not None and t._node is not None and storage.node_key == key_of(t._node)))
        ):
            return storage.with_history() if t._requires_grad and local.mode.recording else storage.current()
        origin = None if t._node is None else self.node_values.get(key_of(t._node))
        if origin is not None:  # saved for backward(): its tensor's history, and the values in storage now, or those of an unpack hook
            origin = xp.cast(origin, dtype=t._array.dtype)
            return origin if storage is None else revalued(storage.current(), origin)
        leaf = None if t._node is None else _cast_leaf(t._node)
        if storage is not None and leaf is not None:
            return revalued(storage.current(), xp.cast(self.value(leaf), dtype=t._array.dtype))
        if storage is not None:  # the same storage without its history: detach()
            return xp.detach(storage.current())
        return self.captured_value(t)

    def captured_value(self, t: Tensor) -> Value:
        """A new input for a captured tensor or a random draw; a literal for an unnamed scalar if `inline_scalars`."""
        number = self.draw_index_of(t)
        if number is not None:
            value = self.add_input(t, f"draw{number + 1}", own=True)
            self.sources.append(RngInput(number))
            return value
        self.refuse_random()
        if self.inline_scalars and not t._array.ndim and not t._requires_grad and t.name is None and id(t) not in self.names:
            value = literal(t._array.item(), t._array.dtype)
            self.bind(t, value)
            return value
        self.captured.append(t)
        self.sources.append(CapturedInput(t))
        title = t.name or self.names.get(id(t)) or self.tensor_names.get(id(t))
        if title is None:
            self.unnamed.append(len(self.inputs))
        return self.add_input(t, title or f"c{len(self.captured)}")

    def unique_label(self, title: str) -> str:
        """`title`, extended by underscores until no other input has that label."""
        while title in self.used_labels:
            title += "_"
        self.used_labels.add(title)
        return title

    def add_input(self, t: Tensor, title: str, own: bool = False) -> Value:
        """Add an input for `t` and return its value. `own`: the function created `t`, and it is an input because it is a constant or
        because each run draws it anew; writes to it are no effects."""
        dtype = t._array.dtype if t._array.dtype.isnative else t._array.dtype.newbyteorder("=")  # kernels get a converted copy
        value = input_value(len(self.inputs), t._array.shape, dtype)
        label = self.unique_label(title)
        self.inputs.append(value)
        self.labels.append(label)
        self.bind(t, value)
        self.storages[id(t._array)].external = None if own else t
        self.input_tensors.append(t)
        self._note_grad(t)
        self.initial_histories[id(t)] = t._node, t._requires_grad
        if t._node is not None and t.requires_grad:
            self.input_histories[key_of(t._node)] = label
        return value

    def control_flow(self) -> Any:
        """The tracer that turns loops and branches into values of the graph."""
        from symgrad.compiler.trace.control_flow import ControlFlowTracer
        return ControlFlowTracer(self)


def _cast_leaf(edge: Any) -> Tensor | None:
    """The leaf tensor that a cast node reads, else None: backward saved the leaf in another dtype, or before its storage was replaced."""
    if getattr(edge, "row", None) is not TABLE["cast"]:
        return None
    (source,) = edge.inputs
    return source if isinstance(source, Tensor) else None


def _as_factor(number: Any, row: Row, args: tuple[Any, ...]) -> Any:
    """0.0 if `number` is the integer 0 as a factor of a floating-point tensor, else `number`: 0.0 is not folded away, since NaN and
    infinity times zero are NaN."""
    if row.name != "mul" or type(number) is not int or number != 0:
        return number
    return 0.0 if any(isinstance(a, Tensor) and kind(a._array.dtype) in "fc" for a in args) else number
