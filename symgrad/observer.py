"""Observers: tracers in front of another one that look at ops, such as anomaly mode, and forward every event."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.tracer import ControlFlowBuilder, NullTracer, ObjectGuard, T, Tracer

if TYPE_CHECKING:
    from symgrad.debug import NanWatch
    from symgrad.escapes import Escape, Metadata, PythonAction, Rebinding
    from symgrad.graph import Node
    from symgrad.ops.generator import Generator
    from symgrad.ops.spec import Row
    from symgrad.tensor import Tensor
    from symgrad.typing import Array

_NULL = NullTracer()


class Observer(Tracer):
    """Forwards every event to `outer`, the tracer that was active before, if any. A subclass extends the events that it observes, usually
    `on_op`. What `trace_once` runs is run each time, so that every op is observed."""

    def __init__(self, outer: Tracer | None) -> None:
        self.outer = outer
        self._next = _NULL if outer is None else outer

    def around(self, tracer: Tracer) -> Tracer:
        """Return the tracer of a function whose trace starts while this observer is active: by default `tracer`, unobserved."""
        return tracer

    @property
    def abstract(self) -> bool:
        return self._next.abstract

    @property
    def effects(self) -> bool:
        return self._next.effects

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        self._next.on_op(row, args, attrs, result)

    def symbolic_call(self, row: Row, args: tuple[Any, ...]) -> Any:
        return self._next.symbolic_call(row, args)

    def on_custom_function(self, node: Node | None, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        self._next.on_custom_function(node, args, results)

    def on_constant(self, t: Tensor) -> None:
        self._next.on_constant(t)

    def on_fill(self, t: Tensor, number: int) -> None:
        self._next.on_fill(t, number)

    def control_flow(self) -> ControlFlowBuilder | None:
        return self._next.control_flow()

    def check_loop_nans(self, watch: NanWatch, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        self._next.check_loop_nans(watch, name, operands, attrs)

    def before_write(self, t: Tensor) -> None:
        self._next.before_write(t)

    def after_write(self, t: Tensor, result: Tensor) -> None:
        self._next.after_write(t, result)

    def before_alias(self, t: Tensor) -> None:
        self._next.before_alias(t)

    def before_rebind(self, t: Tensor, how: Rebinding) -> None:
        self._next.before_rebind(t, how)

    def on_detach_in_place(self, t: Tensor) -> None:
        self._next.on_detach_in_place(t)

    def on_saved_copy(self, array: Array, copy: Array) -> None:
        self._next.on_saved_copy(array, copy)

    def before_grad_read(self, t: Tensor) -> None:
        self._next.before_grad_read(t)

    def before_grad_accumulate(self, t: Tensor) -> None:
        self._next.before_grad_accumulate(t)

    def before_grad_replace(self, t: Tensor) -> None:
        self._next.before_grad_replace(t)

    def on_hook(
        self, t: Tensor | None, hook: Callable[[Tensor], Tensor | None] | None, action: PythonAction, owner: str = ""
    ) -> None:
        self._next.on_hook(t, hook, action, owner)

    def before_draw(self, generator: Generator) -> None:
        self._next.before_draw(generator)

    def on_draw(self, array: Array, draw: Callable[[], Array]) -> None:
        self._next.on_draw(array, draw)

    def on_seek(self, move: Callable[[], object]) -> None:
        self._next.on_seek(move)

    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        self._next.before_escape(source, escape)

    def on_metadata_read(self, t: Tensor, metadata: Metadata) -> None:
        self._next.on_metadata_read(t, metadata)

    def first_redaction(self, line: str) -> bool:
        return self._next.first_redaction(line)

    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        return self._next.on_print(text, tensors, named)

    def check_foreign_use(self, values: Iterable[Any]) -> None:
        self._next.check_foreign_use(values)

    def add_guard(self, read: Callable[[], object]) -> None:
        self._next.add_guard(read)

    def guard_module(self, module: object, make_guard: Callable[[Any], ObjectGuard] | None = None) -> None:
        self._next.guard_module(module, make_guard)

    def scalar_input(self, key: tuple[int, str], read: Callable[[], float]) -> Any:
        return self._next.scalar_input(key, read)

    def merge_equal_scalars(self, key: Hashable, t: Tensor) -> None:
        self._next.merge_equal_scalars(key, t)

    def cse(self, key: Hashable, t: Tensor, compute: Callable[[], T]) -> T:
        return self._next.cse(key, t, compute)

    def trace_once(self, key: Hashable, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        run()

    def record_undo(self, action: Callable[[], None]) -> None:
        self._next.record_undo(action)

    def refuse_replay(self, action: PythonAction, owner: str = "") -> None:
        self._next.refuse_replay(action, owner)
