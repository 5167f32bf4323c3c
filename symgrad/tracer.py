"""The capture protocol: the events by which the core tells a tracer what a function does, in five groups.

    ops                     what was computed, and from what
    writes and aliases      memory that is written to, shared, or exchanged
    gradients and hooks     `.grad`, and code that runs in backward()
    random numbers          draws from generators, which every run of a program repeats
    Python                  values that escape to Python, Python state that a program depends on, and changes of it

`symgrad.mode.local.mode.capture` is the tracer of a thread, or None: code tests that first, so eager code pays for one test. The core
imports no compiler; its tracer, `symgrad.compiler.trace.tracer.GraphTracer`, implements this class. Events are called `before_...` if the
tracer must see the state before a change, else `on_...` or `after_...`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from symgrad.debug import NanWatch
    from symgrad.escapes import Escape, Metadata, PythonAction, Rebinding
    from symgrad.graph import Node
    from symgrad.ops.generator import Generator
    from symgrad.ops.spec import Row
    from symgrad.tensor import Tensor
    from symgrad.typing import Array

T = TypeVar("T")
ScanStep: TypeAlias = "Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]"
LoopTest: TypeAlias = "Callable[[Sequence[Tensor]], Tensor | bool]"
LoopStep: TypeAlias = "Callable[[Sequence[Tensor]], list[Tensor]]"
Branch: TypeAlias = "Callable[[], list[Tensor]]"


class ObjectGuard(Protocol):
    """A guard of a Python object that a program depends on: a module or an optimizer."""

    def finalize(self) -> None:
        """Complete the guard after the trace."""

    def tensors(self) -> list[Tensor]:
        """Return the tensors in the object that must not be arguments of the function as well."""

    def explain_failure(self) -> str | None:
        """Return a description of what has changed since the trace, or None."""


class ControlFlowBuilder(ABC):
    """Turns the loops and branches of a traced function into single ops: see `symgrad.control`."""

    @abstractmethod
    def scan(
        self, step: ScanStep, carries: list[Tensor], slices: list[Tensor], length: int, reverse: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the last carries and the stacked results of `length` steps."""

    @abstractmethod
    def while_loop(self, test: LoopTest, step: LoopStep, carries: list[Tensor], max_steps: int | None) -> list[Tensor]:
        """Return the carries after the last step."""

    @abstractmethod
    def cond(self, truth: Tensor, true: Branch, false: Branch) -> list[Tensor] | None:
        """Return the results of a branch; None if Python must choose the branch."""

    @abstractmethod
    def vmap(self, example: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor], randomness: str) -> list[Tensor] | None:
        """Return the stacked results of `example` on the slices of `tensors`; None if they must be computed one after the other."""

    @abstractmethod
    def transformed(
        self, function: Callable[[list[Tensor]], list[Tensor]], tensors: list[Tensor], more: Sequence[Tensor],
        transform: Callable[[Any], Any], optional: bool = False,
    ) -> list[Tensor] | None:
        """Return the results of `function` on `tensors` after a transform of its graph, whose further inputs are `more`. If it is
        `optional`, return None where Python depends on values, or the graph has no such transform."""


class Tracer(ABC):
    """What the core calls while a function is traced or observed."""

    @property
    @abstractmethod
    def abstract(self) -> bool:
        """True if kernels do not run: results have a type and no values."""

    @property
    @abstractmethod
    def effects(self) -> bool:
        """True if writes to tensors from outside, gradients, random draws and prints are part of the traced program."""

    # ops

    @abstractmethod
    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        """An op has run: `result` is a tensor, or a tuple of tensors."""

    @abstractmethod
    def symbolic_call(self, row: Row, args: tuple[Any, ...]) -> Any:
        """Return the result of a Function that has a symbolic definition; None if it has none, and its forward must run."""

    @abstractmethod
    def on_custom_function(self, node: Node | None, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """A Function without a symbolic definition has run; `node` is its node, if it was recorded."""

    @abstractmethod
    def on_constant(self, t: Tensor) -> None:
        """A tensor was made from Python or NumPy data."""

    @abstractmethod
    def on_fill(self, t: Tensor, number: int) -> None:
        """A tensor was filled with one number."""

    @abstractmethod
    def control_flow(self) -> ControlFlowBuilder | None:
        """Return the builder of loops and branches; None if they run step by step."""

    @abstractmethod
    def check_loop_nans(self, watch: NanWatch, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Raise FloatingPointError for the op inside a loop or branch, the op `name`, that produced a NaN."""

    # writes and aliases

    @abstractmethod
    def before_write(self, t: Tensor) -> None:
        """The memory of a tensor is about to be written to."""

    @abstractmethod
    def after_write(self, t: Tensor, result: Tensor) -> None:
        """A tensor has taken on the values of `result`."""

    @abstractmethod
    def before_alias(self, t: Tensor) -> None:
        """A second tensor without history is about to share the memory of a tensor."""

    @abstractmethod
    def before_rebind(self, t: Tensor, how: Rebinding) -> None:
        """A tensor is about to get other memory or another shape."""

    @abstractmethod
    def on_detach_in_place(self, t: Tensor) -> None:
        """A tensor is about to lose its history: detach_()."""

    @abstractmethod
    def on_saved_copy(self, array: Array, copy: Array) -> None:
        """An array that backward needs was copied, because it is about to be overwritten."""

    # gradients and hooks

    @abstractmethod
    def before_grad_read(self, t: Tensor) -> None:
        """`.grad` is about to be read."""

    @abstractmethod
    def before_grad_accumulate(self, t: Tensor) -> None:
        """`.grad` is about to be added to."""

    @abstractmethod
    def before_grad_replace(self, t: Tensor) -> None:
        """`.grad` is about to be replaced."""

    @abstractmethod
    def on_hook(
        self, t: Tensor | None, hook: Callable[[Tensor], Tensor | None] | None, action: PythonAction, owner: str = ""
    ) -> None:
        """A hook is registered for the gradient of a tensor, or for something else in backward(): then `t` and `hook` are None. `owner` is
        the class of the module, if the hook belongs to one."""

    # random numbers

    @abstractmethod
    def before_draw(self, generator: Generator) -> None:
        """Random numbers are about to be drawn, or the generator is about to be moved: see `symgrad.mode.record_draw`."""

    @abstractmethod
    def on_draw(self, array: Array, draw: Callable[[], Array]) -> None:
        """Random numbers were drawn; `draw()` draws new ones in the same way."""

    @abstractmethod
    def on_seek(self, move: Callable[[], object]) -> None:
        """A generator was moved within its stream by `move`: see `symgrad.mode.record_seek`."""

    # Python: escapes, guards, scalars, undo

    @abstractmethod
    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        """Values are about to escape to Python: bool(t), t.item(), t.numpy(); see `symgrad.escapes`. `source` is None if they have none."""

    @abstractmethod
    def on_metadata_read(self, t: Tensor, metadata: Metadata) -> None:
        """Python reads the layout of a tensor, or whether it is a leaf: the code may depend on that."""

    @abstractmethod
    def first_redaction(self, line: str) -> bool:
        """Return True if the text of a tensor, without values in a trace, is made for the first time at this line of the user's code."""

    @abstractmethod
    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """`debug.print()` is called; return whether to print the values now."""

    @abstractmethod
    def check_foreign_use(self, values: Iterable[Any]) -> None:
        """Raise TraceError if one of `values`, used in another thread, belongs to the traced function: nothing is recorded there."""

    @abstractmethod
    def add_guard(self, read: Callable[[], object]) -> None:
        """The code depends on the result of `read()`."""

    @abstractmethod
    def guard_module(self, module: object, make_guard: Callable[[Any], ObjectGuard] | None = None) -> None:
        """The code depends on a module; or on another object, which `make_guard` makes a guard of."""

    @abstractmethod
    def scalar_input(self, key: tuple[int, str], read: Callable[[], float]) -> Any:
        """Return the number `read()`, which may change between runs, as an input of the program. `key` is the id of its owner and its
        name."""

    @abstractmethod
    def merge_equal_scalars(self, key: Hashable, t: Tensor) -> None:
        """All tensors of this key that hold the same scalar may share one input."""

    @abstractmethod
    def cse(self, key: Hashable, t: Tensor, compute: Callable[[], T]) -> T:
        """Return `compute()`, a function of the tensor, evaluated once for equal values of the tensor and equal keys."""

    @abstractmethod
    def trace_once(self, key: Hashable, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        """Call `run`, in-place work on `tensors` that is the same for all tensors of this key and these types."""

    @abstractmethod
    def record_undo(self, action: Callable[[], None]) -> None:
        """`action()` undoes a change to Python objects if the call fails."""

    @abstractmethod
    def refuse_replay(self, action: PythonAction, owner: str = "") -> None:
        """The code does something that no program can repeat."""


class NullTracer(Tracer):
    """Ignores all events: code runs as if nothing was traced."""

    abstract = effects = False

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        pass

    def symbolic_call(self, row: Row, args: tuple[Any, ...]) -> Any:
        return None

    def on_custom_function(self, node: Node | None, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        pass

    def on_constant(self, t: Tensor) -> None:
        pass

    def on_fill(self, t: Tensor, number: int) -> None:
        pass

    def control_flow(self) -> ControlFlowBuilder | None:
        return None

    def check_loop_nans(self, watch: NanWatch, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        pass

    def before_write(self, t: Tensor) -> None:
        pass

    def after_write(self, t: Tensor, result: Tensor) -> None:
        pass

    def before_alias(self, t: Tensor) -> None:
        pass

    def before_rebind(self, t: Tensor, how: Rebinding) -> None:
        pass

    def on_detach_in_place(self, t: Tensor) -> None:
        pass

    def on_saved_copy(self, array: Array, copy: Array) -> None:
        pass

    def before_grad_read(self, t: Tensor) -> None:
        pass

    def before_grad_accumulate(self, t: Tensor) -> None:
        pass

    def before_grad_replace(self, t: Tensor) -> None:
        pass

    def on_hook(
        self, t: Tensor | None, hook: Callable[[Tensor], Tensor | None] | None, action: PythonAction, owner: str = ""
    ) -> None:
        pass

    def before_draw(self, generator: Generator) -> None:
        pass

    def on_draw(self, array: Array, draw: Callable[[], Array]) -> None:
        pass

    def on_seek(self, move: Callable[[], object]) -> None:
        pass

    def before_escape(self, source: Tensor | Sequence[Tensor] | None, escape: Escape) -> None:
        pass

    def on_metadata_read(self, t: Tensor, metadata: Metadata) -> None:
        pass

    def first_redaction(self, line: str) -> bool:
        return False

    def on_print(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        return True

    def check_foreign_use(self, values: Iterable[Any]) -> None:
        pass

    def add_guard(self, read: Callable[[], object]) -> None:
        pass

    def guard_module(self, module: object, make_guard: Callable[[Any], ObjectGuard] | None = None) -> None:
        pass

    def scalar_input(self, key: tuple[int, str], read: Callable[[], float]) -> Any:
        return read()

    def merge_equal_scalars(self, key: Hashable, t: Tensor) -> None:
        pass

    def cse(self, key: Hashable, t: Tensor, compute: Callable[[], T]) -> T:
        return compute()

    def trace_once(self, key: Hashable, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        run()

    def record_undo(self, action: Callable[[], None]) -> None:
        pass

    def refuse_replay(self, action: PythonAction, owner: str = "") -> None:
        pass
