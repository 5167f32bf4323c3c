"""compile(): a function whose calls run as kernels, one for each combination of argument types.

A compiled function is a citizen of eager autograd. What it computes is recorded as one node, whose backward is the compiled VJP; that
is itself such an operation, so gradients of gradients are kernels too.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.compiler import differentiate
from symgrad.compiler.capture import Trace, trace, tracing
from symgrad.compiler.ir import Graph
from symgrad.compiler.passes.stabilise import stabilise
from symgrad.compiler.signature import Call, Signature, Spec, positions
from symgrad.compiler.state import MISS, Effects, Step, escaped
from symgrad.compiler.tree import LEAF, unflatten
from symgrad.compiler.verify import verify
from symgrad.compiler.xla.kernel import Kernel
from symgrad.errors import TraceError
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row
from symgrad.tensor import Tensor, wrap

_MOST_PATHS = 8


class Compiled:
    """Call it as the function that it was made from; it takes tensors and arrays, and gives tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = Signature(function)
        self._programs: dict[Any, Program] = {}
        self._steps: dict[Any, list[Step]] = {}
        """The paths with effects, or with answers that Python asked for, by the types of the arguments."""
        self._by_types: dict[Any, Program] = {}
        """The short way to a program, for calls with tensors only."""
        self._latest: Program | None = None
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        programs = {0: "no program yet", 1: "1 program"}.get(len(self._programs), f"{len(self._programs)} programs")
        return f"<compiled {self.signature}: {programs}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing():  # inside another traced function it is ordinary code
            return self.signature.function(*args, **kwargs)
        types = None if kwargs else _types(args)
        program = self._by_types.get(types)
        if program is not None and program.holds():
            self._latest = program
            return program.run([*args, *program.captured])
        call = self._bound(args, kwargs)
        found = self._stepped(call)
        if found is not MISS:
            return found
        program = self._programs.get(call.key())
        if program is None or not program.holds():
            result, program = self._trace(call)
            if program is None:
                return result
        if types is not None:
            self._by_types[types] = program
        self._latest = program
        return program.run(program.inputs(call))

    def _stepped(self, call: Call) -> Any:
        """The result of the first path whose conditions hold."""
        steps = self._steps.get(call.key(), ())
        if not steps:
            return MISS
        tensors = [x if isinstance(x, Tensor) else wrap(x) for x in call.leaves]
        return next((found for found in (step.run(tensors) for step in steps) if found is not MISS), MISS)

    def _trace(self, call: Call) -> tuple[Any, Program | None]:
        """Trace a call. With effects that was the call itself, and its result is given; else a program for it."""
        traced = trace(self.signature.caller(call), call.leaves, call.labels, self.signature.names(), follow=True, effects=True)
        effects, name, key = Effects(traced), getattr(self, "__name__", "function"), call.key()
        if not effects.any and not traced.path.values:
            program = self._programs[key] = Program(traced, name)
            return None, program
        if effects.any and escaped(traced):
            return traced.result, None
        step = Step(traced, effects, len(call.leaves), name, Operation)
        self._remember(key, step)
        if effects.any:
            return traced.result, None
        return step.run([x if isinstance(x, Tensor) else wrap(x) for x in call.leaves]), None

    def _remember(self, key: Any, step: Step) -> None:
        steps = self._steps.setdefault(key, [])
        steps.insert(0, step)
        if len(steps) > _MOST_PATHS:
            steps.pop()
            warnings.warn(
                f"{self.signature} has taken more than {_MOST_PATHS} paths, for arguments of one type, through its branches on values; the"
                " oldest is forgotten. Use where(condition, x, y), or leave the function eager",
                stacklevel=4,
            )

    def value_and_grad(self, *args: Any, wrt: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """The scalar result and its gradients: one tensor if `wrt` is one name or position, else a tuple."""
        (value, *grads), single = self._derivative("value_and_grad", args, kwargs, wrt)
        return value, grads[0] if single else tuple(grads)

    def grad(self, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """The gradients of the scalar result, as `value_and_grad` gives them."""
        grads, single = self._derivative("grad", args, kwargs, wrt)
        return grads[0] if single else tuple(grads)

    def source(self, what: str = "forward", wrt: Any = None) -> str:
        """The JAX source of the latest program: "forward", "vjp", "grad" or "value_and_grad"; derivatives are in all inputs or in `wrt`."""
        program = self._traced()
        chosen = program.wrt if wrt is None else positions(wrt, program.graph.labels, ())
        return program.kernel(what, chosen).source()

    def graph(self) -> Graph:
        """The frozen graph of the latest program."""
        return self._traced().graph

    def _traced(self) -> Program:
        if self._latest is None:
            raise TraceError(f"{self.__name__} has no program yet: call it once, programs are made for the types of the arguments")  # type: ignore[attr-defined]
        return self._latest

    def _derivative(self, what: str, args: Any, kwargs: Any, wrt: Any) -> tuple[list[Tensor], bool]:
        call, program = self._prepare(args, kwargs)
        chosen = positions(wrt, program.graph.labels, (*call.leaves, *program.captured))
        arrays = [x._array for x in program.inputs(call)]
        return [wrap(a) for a in program.kernel(what, chosen)(arrays)], len(chosen) == 1 and isinstance(wrt, (str, int))

    def _bound(self, args: Any, kwargs: Any) -> Call:
        call = self.signature.bind(args, kwargs)
        for leaf, label in zip(call.leaves, call.labels, strict=True):
            if isinstance(leaf, Spec):
                raise TypeError(f"{label} is a spec, a shape without values: derive takes those, a compiled function needs tensors")
        return call

    def _prepare(self, args: Any, kwargs: Any) -> tuple[Call, Program]:
        """The program of a function without effects: only such a one has derivatives."""
        call = self._bound(args, kwargs)
        key = call.key()
        program = self._programs.get(key)
        if program is None or not program.holds():
            traced = trace(self.signature.caller(call), call.leaves, call.labels, self.signature.names())
            program = self._programs[key] = Program(traced, getattr(self, "__name__", "function"))
        self._latest = program
        return call, program


def _types(args: tuple[Any, ...]) -> Any:
    """What the program depends on, if all arguments are tensors."""
    for a in args:
        if not isinstance(a, Tensor):
            return None
    return tuple([(a._array.shape, a._array.dtype) for a in args])


class Program:
    """One trace, and the kernels that were made of it so far."""

    def __init__(self, traced: Trace, name: str) -> None:
        self.captured, self.structure = traced.captured, traced.structure  # not the trace itself, which holds every tensor of the run
        self.graph = verify(stabilise(traced.graph))
        self.wrt = tuple(i for i, x in enumerate(self.graph.inputs) if kind(x.dtype) in "fc")
        self.operation = Operation(self.graph, name)
        self.dependencies = traced.capture.dependencies
        self._kernels: dict[Any, Kernel] = {}

    def holds(self) -> bool:
        """Whether what the program depends on besides tensors is as it was."""
        return all(read() == value for read, value in self.dependencies)

    def run(self, inputs: Sequence[Tensor]) -> Any:
        results = self.operation(*inputs)
        return results[0] if self.structure is LEAF else unflatten(self.structure, results)

    def inputs(self, call: Call) -> list[Tensor]:
        given = [x if isinstance(x, Tensor) else wrap(x) for x in call.leaves]
        return [*given, *self.captured]

    def kernel(self, what: str, wrt: tuple[int, ...]) -> Kernel:
        if what == "forward":
            return self.operation.kernel
        if (what, wrt) not in self._kernels:
            self._kernels[what, wrt] = Kernel(verify(self._derived(what, wrt)), what)
        return self._kernels[what, wrt]

    def _derived(self, what: str, wrt: tuple[int, ...]) -> Graph:
        if what == "vjp":
            return differentiate.vjp(self.graph, wrt)
        if what not in ("grad", "value_and_grad"):
            raise ValueError(f"there is source of 'forward', 'vjp', 'grad' and 'value_and_grad', not of {what!r}")
        gradient = differentiate.grad(self.graph, wrt)
        values = self.graph.outputs if what == "value_and_grad" else ()
        return Graph(gradient.inputs, (*values, *gradient.outputs), gradient.labels)


class Operation:
    """A graph as an operation on tensors, recorded as one node whose backward is an operation of the same kind."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.kernel = Kernel(graph)
        self.single = len(graph.outputs) == 1
        self.row = _row(self, name)
        self._transposes: dict[tuple[int, ...], Operation] = {}

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        results = apply(self.row, tensors, {})
        return (results,) if self.single else results

    def run(self, *arrays: Any) -> Any:
        results = self.kernel(arrays)
        return results[0] if self.single else tuple(results)

    def type(self, *metas: Any) -> Any:
        metas = tuple(Meta(v.shape, v.dtype) for v in self.graph.outputs)
        return metas[0] if self.single else metas

    def pullback(self, lane: Any, node: Any, g: Any, needs: Sequence[bool]) -> list[Any]:
        wanted = tuple(i for i, need in enumerate(needs) if need)
        args, _ = lane.arguments(node)
        gs = [self._zeros(i, lane) if g is None else g for i, g in enumerate((g,) if self.single else g)]
        transpose = self._transpose(wanted)
        results = transpose.kernel((*args, *gs)) if lane.raw else transpose(*args, *gs)
        found = dict(zip(wanted, results, strict=True))
        return [found.get(i) for i in range(len(needs))]

    def _transpose(self, wanted: tuple[int, ...]) -> Operation:
        if wanted not in self._transposes:
            graph = verify(differentiate.vjp(self.graph, wanted))
            self._transposes[wanted] = Operation(graph, f"{self.row.name}_vjp")
        return self._transposes[wanted]

    def _zeros(self, i: int, lane: Any) -> Any:
        v = self.graph.outputs[i]
        return lane.value(wrap(np.zeros(v.shape, v.dtype)))


def _never(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a row with a pullback has no rules to call")


def _row(operation: Operation, name: str) -> Row:
    args = tuple(f"x{i}" for i in range(len(operation.graph.inputs)))
    return Row(
        name, args, operation.run, (_never,) * len(args), (frozenset(args),) * len(args), "each", operation.type,
        pullback=operation.pullback, outputs=len(operation.graph.outputs), display="CompiledFunctionBackward",
    )  # fmt: skip
