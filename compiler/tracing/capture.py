"""From a run of a function to a graph: it runs under the dispatcher's capture, which sees every op, also those under no_grad.

Arguments are inputs, and so is every tensor that the function brings along; it is read again at each run of the graph. A value that leaves
for Python is a condition of the path if it is a truth value, else a TraceError that names the line. What is written in place, and what
backward() does, is part of the program where effects are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.formula.user import of_function
from symgrad.compiler.graph.builder import apply, detached, xp
from symgrad.compiler.graph.custom import revalued
from symgrad.compiler.graph.ir import Value, input_value, literal
from symgrad.compiler.lines import user_line as user_line
from symgrad.compiler.tracing.alike import Alike, join
from symgrad.compiler.tracing.apart import Apart
from symgrad.compiler.tracing.backwards import follow_backward
from symgrad.compiler.tracing.box import Box, step_of
from symgrad.compiler.tracing.dependencies import Dependencies
from symgrad.compiler.tracing.draws import Draws
from symgrad.compiler.tracing.gradients import Gradients
from symgrad.compiler.tracing.journal import Journal
from symgrad.compiler.tracing.leaving import REBINDING, refusal, unrepeatable
from symgrad.compiler.tracing.links import linked
from symgrad.compiler.tracing.nans import inspect_loop
from symgrad.compiler.tracing.repeated import Pattern, repeat
from symgrad.compiler.tracing.sizes import SIZED, sized
from symgrad.compiler.tracing.sources import Captured, Draw
from symgrad.compiler.tracing.way import Way as Way, as_asked
from symgrad.dispatch import tensors
from symgrad.engine import key_of
from symgrad.errors import EffectError, SymgradError, TraceError
from symgrad.escapes import AUTOGRAD_GRAD, BACKWARD, MASK, TOLIST, Escape
from symgrad.lines import raised_at
from symgrad.mode import local, tracing as tracing
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap

_MOST_NUMBERS = 1024
"""Of longer lists of whole numbers each is another one: data, not lengths."""


class Capture(Dependencies, Gradients, Draws):
    """What the dispatcher calls while a function is traced: see `symgrad.mode.Mode.capture`.

    If it follows, Python may ask for the truth of a tensor, and take the way that it takes. With `effects` the function may write to
    tensors that it brings along, call backward(), and draw random numbers: all that is part of the program.
    """

    def __init__(self, abstract: bool, names: Mapping[int, str], follow: bool = False, effects: bool = False) -> None:
        Dependencies.__init__(self)
        Gradients.__init__(self)
        Draws.__init__(self)
        self.abstract = abstract
        self.numbers = follow and not effects
        """Whether single numbers that the function brings along stand in the graph as they are now; else they are inputs."""
        self.follow = follow and not abstract
        self.effects = effects and not abstract
        self.recorded = not self.effects or local.mode.recording
        """Whether the function was called with recording on. If not, nobody will ask for a derivative, and none is cut off."""
        self.path = Way()
        self.names = names
        """What parameters of a module that is the function are called, by their ids: in formulas they are symbols, even if numbers."""
        self.titles: Mapping[int, str] = {}
        """What other tensors that the function brings along are called."""
        self.journal = Journal()
        self.arguments = 0
        self.unused: set[int] = set()
        """Inputs of arguments that are other arguments, too."""
        self.inputs: list[Value] = []
        self.labels: list[str] = []
        self.taken: set[str] = set()
        self.unnamed: list[int] = []
        """Inputs that nobody has a name for."""
        self.captured: list[Tensor] = []
        self.sources: list[Any] = []
        """How to find each input that is no argument: see `symgrad.compiler.tracing.sources`."""
        self.groups: dict[Any, Alike] = {}
        """Tensors that are one input, since they hold the same number."""
        self.computed: dict[Any, Any] = {}
        self.patterns: dict[Any, Pattern] = {}
        self.outside: list[Tensor] = []
        """The tensors behind the inputs."""
        self.written_outside: dict[int, tuple[Tensor, Box]] = {}
        self.lines: dict[Value, str] = {}
        """Where in the user's code values come from."""
        self.refused: tuple[str, TraceError] | None = None
        """The last escape that was refused, and its line."""
        self.concealed: set[str] = set()
        """Lines at which the text of a tensor was asked for."""
        self.prints: list[tuple[str, list[Value], dict[str, Value]]] = []
        """What is printed at every run."""
        self.known: set[int] = set()
        self.numbered: set[int] = set()
        """Arrays that the function makes of numbers, by their ids, in a trace without effects."""
        self.boxes: dict[int, Box] = {}
        self.nodes: dict[Any, Value] = {}
        self.apart = Apart()
        self.alive: list[Any] = []

    def __call__(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        operands = tuple(self.value(a) if isinstance(a, Tensor) else _as_factor(a, row, args) for a in args)
        try:
            values = sized(self.path, row, operands, attrs, result) if row.name in SIZED and self.follow and not self.numbers else None
            if values is None:
                values = apply(row, operands, attrs)
        except RecursionError:
            raise  # of the user's function
        except RuntimeError as error:  # the op itself ran: what its type rule lacks is a value
            raise TraceError(f"{user_line()}: {error}; leave the function eager") from error
        if not isinstance(result, tuple):
            result, values = (result,), (values,)
        if result:
            self._saved(result[0]._node, args, operands)
        for i, (t, v) in enumerate(zip(result, values, strict=True)):
            base = None if t._owner is None else self.boxes.get(id(args[0]._array))
            if t._requires_grad and self.effects:
                v = linked(v, operands)
            self.lines[v] = self.lines.get(v) or user_line()
            way = None if base is None else (base, step_of(row.name, attrs, i, args[0]._array.shape))
            silent = self.recorded and not local.mode.recording
            self.enter(t, detached(v) if silent else v, way)
            if way is not None:
                self.boxes[id(t._array)].silent |= silent or not self._joint(t._owner)
                self.apart.viewed(args[0], t, v)

    def _saved(self, edge: Any, args: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        """Operands that were cast on the way to a kernel: backward() will ask for them in that type."""
        saved = () if edge is None else getattr(edge, "node", edge).saved
        for array, arg, operand in zip(saved, args, operands, strict=False):
            if array.__class__ is np.ndarray and isinstance(arg, Tensor) and array is not arg._array and id(array) not in self.boxes:
                self.boxes[id(array)] = Box(xp.cast(operand, dtype=array.dtype))
                self.alive.append(array)

    # writing

    def written(self, t: Tensor) -> None:
        """Called before memory is written to: may it be?"""
        box = self.boxes.get(id(t._array))
        while box is not None and box.parent is not None:
            box = box.parent
        if box is not None and box.outside is None:
            return  # the function made it
        if self.effects:
            self.journal.writing(t if box is None or box.outside is None else box.outside)
        elif not self._froze(t if t._owner is None else t._owner) and (box is not None or t._owner is not None):
            raise EffectError(
                f"{user_line()}: a tensor from outside is written to in place inside a traced function; write y = x + 1 in place of"
                " x += 1, or leave the function eager"
            )

    def stored(self, x: Tensor, result: Tensor) -> None:
        """`x` has taken on the values of `result`."""
        self.assign(x, xp.expand(xp.cast(self.value(result), dtype=x._array.dtype), shape=x._array.shape))

    def assign(self, x: Tensor, value: Value) -> None:
        """Let `value` stand for `x` from now on, and for its part of what shares memory with it."""
        self.value(x)  # so that it is known
        box, owner, quiet = self.boxes[id(x._array)], x if x._owner is None else x._owner, x._node is None or not local.mode.recording
        joint = self._joint(owner)
        root = box.assign(value, quiet) if joint else self.apart.stored(x, box, value, quiet, self.boxes[id(owner._array)])
        if root.outside is not None:
            self.written_outside[id(root.outside)] = root.outside, root
        self.alive.append(owner)
        for t in (x, x._owner) if joint else ():
            if t is not None and t._node is not None:
                box = self.boxes[id(t._array)]
                box.node = key_of(t._node)
                self.nodes[box.node] = box.now()

    def _joint(self, owner: Tensor) -> bool:
        """Whether a tensor has a part in the history of its memory, else it sees that through detach() or .data."""
        return id(owner) in self.known or id(owner._array) not in self.boxes

    # what leaves, and what comes from elsewhere

    def escaped(self, t: Any, way: Escape) -> None:
        """Numbers of a tensor are about to become Python's: a guard where there can be one, else an error. See `symgrad.escapes`."""
        if self.effects and way is BACKWARD:
            self.going_back(t)
            return
        if way is AUTOGRAD_GRAD:
            self.differentiated = True
            return
        if way.asks is not None and t._array.size != 1:
            return  # as eagerly, that is an error
        if self.follow and way.asks is not None:
            text = f"{way.what.partition(')')[0]}) at {user_line()}"
            self.path.answered(as_asked(self.value(t), way.asks), way.asks(t._array.item()), text)
            return
        if self.follow and way is TOLIST and t._array.dtype.kind in "biu" and t._array.size <= _MOST_NUMBERS:
            self._listed(t)
            return
        if way is MASK and self.follow and not self.numbers:
            return  # its size is asked for by `sized`
        error = refusal(way)
        self.refused = user_line(), type(error)(*error.args)  # a copy: the one that is raised holds all frames, and their tensors
        raise error

    def used_elsewhere(self, values: Any) -> None:
        """Another thread, in which nothing is recorded, has these operands: they must not be tensors of this function."""
        for t in values:
            box = self.boxes.get(id(t._array)) if isinstance(t, Tensor) else None
            while box is not None and box.parent is not None:
                box = box.parent
            if box is not None and (box.outside is None or any(box.outside is own for own in self.outside[: self.arguments])):
                raise TraceError(
                    f"{user_line()}: a tensor of a function that is being traced is used in another thread, where nothing is recorded;"
                    " compute in the thread of the call, or leave the function eager"
                )

    def explained(self, error: BaseException) -> BaseException:
        """The refusal behind an error of the same line: NumPy and `struct` put an error of their own in its place."""
        if self.refused is None or isinstance(error, SymgradError) or raised_at(error) != self.refused[0]:
            return error
        return self.refused[1]

    def _listed(self, t: Tensor) -> None:
        """Whole numbers become Python's: that they are these is one condition of the path."""
        value, frozen = self.value(t), wrap(t._array.copy())
        if self.path.known(value):
            return
        same = xp.all(xp.eq(value, self.brought(frozen)), axis=tuple(range(value.ndim)), keepdims=False)
        self.boxes[id(frozen._array)].outside = None
        self.path.constants.add(self.value(frozen))
        self.path.answered(same, True, f"whether tolist() at {user_line()} gives {t._array.tolist()}")

    def meaning(self, row: Row, args: tuple[Any, ...]) -> Any:
        """A Function that says what it means is traced as that, with recorded ops; its own forward and backward do not run."""
        return of_function(tensors, row, args, lambda x: isinstance(x, Tensor))

    def called(self, node: Any, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """A Function that does not: its forward was traced, and its backward is now, if it was recorded."""
        if node is not None:
            follow_backward(self, node, args, results)

    def printed(self, text: str, tensors: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """debug.print(): the first call prints at once, programs with effects at every run; others are there for their values only."""
        if self.effects:
            constant: Callable[[Any], Any] = lambda x: self.value(x) if isinstance(x, Tensor) else x
            self.prints.append((text, [constant(x) for x in tensors], {k: constant(x) for k, x in named.items()}))
        return self.effects

    def inspect(self, watch: Any, name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Whoever looks for NaN is told which operation in a loop made one."""
        inspect_loop(watch, name, operands, attrs, self.lines)

    def undo(self, action: Callable[[], None]) -> None:
        """How to take back what is being done to Python's objects."""
        self.journal.undo(action)

    def alike(self, key: Any, t: Tensor) -> None:
        """A number that is kept for one of many things, and is the same for all: those with this key are one input as long as they are."""
        join(self, key, t)

    def common(self, key: Any, t: Tensor, compute: Callable[[], Any]) -> Any:
        """What is computed from a tensor: once for all that have the same value."""
        if not self.effects:
            return compute()
        key = key, self.value(t)
        if key not in self.computed:
            self.computed[key] = compute()
        return self.computed[key]

    def repeat(self, key: Any, tensors: Sequence[Tensor], run: Callable[[], None]) -> None:
        """Work on tensors, in place, which is the same for all of the same types and this key."""
        repeat(self, key, tensors, run)

    def made(self, t: Tensor) -> None:
        """A tensor that the function makes of numbers: a constant of the program, whatever is written to it later."""
        array = t._array
        self.alive.append(t)
        if any(array is drawn for drawn, _ in self.draws):
            return
        if self.effects:
            self._constant(t)
        else:  # an input like others, unless it is written to
            self.numbered.add(id(array))

    def _froze(self, t: Tensor) -> bool:
        """Before a write: whether `t` is made of numbers by the function. Then it is a constant of the program as it is now."""
        if id(t._array) not in self.numbered:
            return False
        box = self.boxes.get(id(t._array))
        if box is None or box.outside is None:
            self._constant(t)
            return True
        place = next(k for k, other in enumerate(self.captured) if other is box.outside)
        self.captured[place] = frozen = wrap(t._array.copy())
        self.sources[place] = Captured(frozen)
        box.outside = None
        return True

    def _constant(self, t: Tensor) -> None:
        array = t._array
        first = array.reshape(-1)[0].item() if array.size and array.dtype.kind in "bif" else None
        if first is not None and (array == first).all():
            self.enter(t, xp.expand(literal(first, array.dtype), shape=array.shape))
            return
        frozen = wrap(array.copy())
        self.argument(t, "constant", own=True)
        self.path.constants.add(self.inputs[-1])
        self.captured.append(frozen)
        self.sources.append(Captured(frozen))

    def filled(self, t: Tensor, number: int) -> None:
        """A tensor that autograd made of one number is that number."""
        self.enter(t, xp.expand(literal(number, t._array.dtype), shape=t._array.shape))

    def shared(self, t: Tensor) -> None:
        """Another tensor without history is about to be made around the memory of `t`: `t` is the one to be known, and to get gradients."""
        self.value(t)

    def forgotten(self, t: Tensor) -> None:
        """A tensor has no history any more: detach_()."""
        self.value(t)
        box = self.boxes[id(t._array)]
        box.value, box.slope, box.node = xp.detach(box.now()), None, None

    def copied(self, array: Any, copy: Any) -> None:
        """An array that is about to be written over, and was saved for backward(), is copied."""
        if id(array) in self.boxes:
            self.boxes[id(copy)] = Box(self.boxes[id(array)].now())
            self.alive.append(copy)

    def rebound(self, t: Tensor, how: str) -> None:
        """A tensor is about to get other memory, or another shape. The function may turn round what it made itself."""
        reshaped = how not in REBINDING
        if reshaped and id(t._array) in self.boxes and all(t is not other for other in self.outside):
            return
        raise unrepeatable(how)

    # tensors and their values

    def enter(self, t: Tensor, value: Value, way: tuple[Box, Any] | None = None) -> None:
        """A tensor and what stands for it; a view has the box of what it is a view of, and the step from there."""
        self.known.add(id(t))
        self.boxes[id(t._array)] = Box(value) if way is None else Box(value, way[0], (way[1],))
        if t._node is not None:
            self.boxes[id(t._array)].node = key_of(t._node)
            self.nodes[key_of(t._node)] = value
        self.alive += (t, t._array)

    def value(self, t: Tensor) -> Value:
        """What stands for a tensor: a value of the graph, or a new input if the function brought it along."""
        box, own = self.boxes.get(id(t._array)), self.apart.of(t)
        if own is not None:
            return revalued(own if box is None else box.now(), own) if local.mode.recording or box is None else box.now()
        if box is not None and (id(t) in self.known or (box.node is not None and t._node is not None and box.node == key_of(t._node))):
            return box.recorded() if t._requires_grad and local.mode.recording else box.now()
        origin = None if t._node is None else self.nodes.get(key_of(t._node))
        if origin is not None:  # saved for backward(): the history of its tensor, the numbers in memory now, or of an unpack hook
            origin = xp.cast(origin, dtype=t._array.dtype)
            return origin if box is None else revalued(box.now(), origin)
        leaf = None if t._node is None else _cast_leaf(t._node)
        if box is not None and leaf is not None:
            return revalued(box.now(), xp.cast(self.value(leaf), dtype=t._array.dtype))
        if box is not None:  # the same memory without its history: detach()
            return xp.detach(box.now())  # type: ignore[no-any-return]
        return self.brought(t)

    def brought(self, t: Tensor) -> Value:
        """What stands for a tensor that the function brings along."""
        number = self.draw_behind(t)
        if number is not None:
            value = self.argument(t, f"draw{number + 1}", own=True)
            self.sources.append(Draw(number))
            return value
        self.refuse_random()
        if self.numbers and not t._array.ndim and not t._requires_grad and t.name is None and id(t) not in self.names:
            value = literal(t._array.item(), t._array.dtype)
            self.enter(t, value)
            return value
        self.captured.append(t)
        self.sources.append(Captured(t))
        title = t.name or self.names.get(id(t)) or self.titles.get(id(t))
        if title is None:
            self.unnamed.append(len(self.inputs))
        return self.argument(t, title or f"c{len(self.captured)}")

    def label(self, title: str) -> str:
        """A name that no other input has."""
        while title in self.taken:
            title += "_"
        self.taken.add(title)
        return title

    def argument(self, t: Tensor, title: str, own: bool = False) -> Value:
        """A new input; its `own` are made by the function, and are inputs because each run has others, or as constants."""
        dtype = t._array.dtype if t._array.dtype.isnative else t._array.dtype.newbyteorder("=")  # kernels get a converted copy
        value = input_value(len(self.inputs), t._array.shape, dtype)
        label = self.label(title)
        self.inputs.append(value)
        self.labels.append(label)
        self.enter(t, value)
        self.boxes[id(t._array)].outside = None if own else t
        self.outside.append(t)
        self._note_grad(t)
        self.before[id(t)] = t._node, t._requires_grad
        if t._node is not None and t.requires_grad:
            self.histories[key_of(t._node)] = label
        return value

    def control(self) -> Any:
        """What makes loops and branches values of the graph."""
        from symgrad.compiler.control.trace import Tracer
        return Tracer(self)


def _cast_leaf(edge: Any) -> Tensor | None:
    """The leaf behind an array that backward had saved in another type, or before the leaf's memory was replaced."""
    if getattr(edge, "row", None) is not TABLE["cast"]:
        return None
    (source,) = edge.inputs
    return source if isinstance(source, Tensor) else None


def _as_factor(number: Any, row: Row, args: tuple[Any, ...]) -> Any:
    """The integer 0 times a floating-point tensor as 0.0, which is not folded away: NaN and infinity times zero are NaN."""
    if row.name != "mul" or type(number) is not int or number != 0:
        return number
    return 0.0 if any(isinstance(a, Tensor) and kind(a._array.dtype) in "fc" for a in args) else number
