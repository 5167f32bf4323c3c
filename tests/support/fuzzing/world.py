"""A program run in a world of its own, eagerly or compiled, and everything that can be seen of it afterwards."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from derivative_modes import EAGER

import symgrad as sg
from fuzzing.asked import asked, compiled_lives, is_asked
from fuzzing.program import Leaf, Program, as_called, leaves
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.mode import Mode, local
from symgrad.observer import Observer

REFUSALS = (
    "a function that returns multiple views", "more than one element of the written-to tensor", "has been modified by an inplace operation",
)  # fmt: skip
"""What may be refused in PyTorch's words: in a trace more is recorded than in an eager run; and of an input that a call writes to, its
results do not keep what it was."""


class Interpreted:
    """A kernel that is the interpreter."""

    executable = packing = x64 = None

    def __init__(self, graph: Graph, name: str = "forward", options: Any = None, **others: Any) -> None:
        self.graph, self.name = graph, name
        self.on_device, self.donated = False, ()

    def launch(self, operands: Any, found: Any = None) -> list[Any]:
        return self(operands)

    def buffer(self, array: Any) -> Any:
        return np.array(array)

    def __call__(self, arrays: Any) -> list[Any]:
        resident_inputs, local.mode = local.mode, Mode()  # a kernel runs inside a context that cannot be entered twice
        try:
            return [np.array(a) for a in evaluate(self.graph, [np.asarray(a) for a in arrays])]
        finally:
            local.mode = resident_inputs

    def source(self) -> str:
        return str(self.graph)


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Programs that are compiled in here are run by the interpreter."""
    import symgrad.compiler.api  # noqa: F401  (which loads all that makes kernels)

    places = [(m, m.make_kernel) for n, m in sys.modules.items() if n.startswith("symgrad.compiler") and hasattr(m, "make_kernel")]
    for module, _ in places:
        module.make_kernel = Interpreted
    try:
        yield
    finally:
        for module, resident_inputs in places:
            module.make_kernel = resident_inputs


@dataclass
class Seen:
    """What was seen, by where: arrays, None, or words."""

    items: dict[str, Any] = field(default_factory=dict)
    refused: str = ""
    """The message of a TraceError: what cannot be compiled."""

    def add(self, where: str, x: Any) -> None:
        self.items[where] = np.array(x._array) if isinstance(x, sg.Tensor) else x


class World:
    """`run` calls the function as often as the program says. `order` 2: gradients of gradients are taken, too."""

    def __init__(self, program: Program, wrap: Callable[[Any], Any], nudge: float = 0.0, order: int = 1) -> None:
        self.program, self.nudge, self.order = program, nudge, order
        self.graded = {leaf.name for leaf in (*program.args, *program.state) if leaf.grad}
        self.state = leaves(program, program.state, -1, {})
        self.shaken([t for t in self.state.values()])
        function = program.function(self.state)
        self.function = wrap(function)
        self.eager = self.function is function
        self.seen = Seen()

    def shaken(self, tensors: list[Any]) -> None:
        """The numbers moved by rounding errors, to learn how much results depend on them."""
        for k, t in enumerate(tensors):
            if self.nudge and isinstance(t, sg.Tensor) and t._array.dtype.kind == "f":
                noise = np.random.default_rng([k, int(1e18 * self.nudge)]).uniform(-1, 1, t._array.shape)
                t._array[...] = t._array * (1 + self.nudge * noise)

    def run(self) -> Seen:
        sg.manual_seed(abs(self.program.seed))
        for call, how in enumerate(self.program.calls):
            run = functools.partial(self.call, call % 2, tuple(as_called(leaf, how) for leaf in self.program.args))
            if how == "thread":
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(run).result()
                continue
            with sg.no_grad() if how == "no_grad" else contextlib.nullcontext():
                run()
        return self.seen

    def call(self, call: int, args: tuple[Leaf, ...]) -> None:
        made = leaves(self.program, args, call, self.state)
        self.shaken(list(made.values()))
        tensors = [n for n, x in {**self.state, **made}.items() if isinstance(x, sg.Tensor)]  # an array has no history
        if self.eager:
            made = {n: sg.tensor(x) if isinstance(x, np.ndarray) else x for n, x in made.items()}
        results = self.function(*self.program.arguments(list(made.values())))
        number = len([w for w in self.seen.items if w.endswith(": random")])
        flat: list[Any] = []
        self.outputs(results, f"call {number}: result", flat)
        for name, x in {**self.state, **made}.items():
            self.left(f"call {number}: {name}", x)
        known = {**self.state, **made}
        for name in tensors:
            self.seen.add(f"call {number}: {name}.requires_grad, is_leaf", (known[name].requires_grad, known[name].is_leaf))
        written = [known[name] for name in tensors if known[name].grad_fn is not None]
        self.pulled([*flat, *written], [*self.state.values(), *made.values()])
        for name, x in {**self.state, **made}.items():
            if name in self.graded:
                self.seen.add(f"call {number}: {name}.grad after backward()", x._grad)
        for x in self.state.values():
            if x._node is not None and self.program.seed % 3:  # else it goes on with the history of this call
                x.detach_()
            if self.program.seed % 2:
                x.grad = None
        self.seen.add(f"call {number}: random", bytes(sg.get_rng_state().numpy()))

    def outputs(self, x: Any, where: str, flat: list[Any]) -> None:
        if isinstance(x, sg.Tensor):
            self.seen.add(where, x.detach())
            flat.append(x)
        elif isinstance(x, dict):
            self.seen.add(where, list(x))
            for k, v in x.items():
                self.outputs(v, f"{where}[{k!r}]", flat)
        else:
            self.seen.add(where, type(x).__name__)
            for k, v in enumerate(x):
                self.outputs(v, f"{where}[{k}]", flat)

    def left(self, where: str, x: Any) -> None:
        self.seen.add(where, np.array(x) if isinstance(x, np.ndarray) else x)
        if where.split()[-1] in self.graded:
            self.seen.add(f"{where}.grad", x._grad)

    def pulled(self, results: list[Any], inputs: list[Any]) -> None:
        """backward() of what the function gave."""
        floats = [t for t in results if t._array.dtype.kind in "fc"]
        if not any(t.requires_grad for t in floats):
            return
        loss = sum((_real(t) * (0.5 + k)).sum() for k, t in enumerate(floats))
        wrt = list({id(t): t for t in inputs if isinstance(t, sg.Tensor) and t._requires_grad and t._node is None}.values())
        if self.order > 1 and wrt:
            found = sg.autograd.grad(loss, wrt, create_graph=True, allow_unused=True)
            loss = loss + sum((_real(x) * _real(x)).sum() for x in found if x is not None)
        loss.backward()


def _real(t: Any) -> Any:
    return t.real + 2 * t.imag if t.is_complex() else t


class Watch(Observer):
    """Looks on while a program runs: how near to a kink of an op its arguments come, and how large numbers become."""

    def __init__(self) -> None:
        super().__init__(None)
        self.margin, self.largest = np.inf, 0.0

    def on_op(self, row: Any, args: Any, attrs: Any, result: Any) -> None:
        arrays = [a._array if isinstance(a, sg.Tensor) else a for a in args]
        kinds = {getattr(a, "dtype", np.dtype(float)).kind for a in arrays}
        for r in result if isinstance(result, tuple) else (result,):
            if isinstance(r, sg.Tensor) and r._array.dtype.kind == "f" and r._array.size:
                size = np.abs(r._array).max()
                self.largest = max(self.largest, float(size)) if np.isfinite(size) else np.inf
        if "f" in kinds and row.name in MARGINS:
            self.margin = min(self.margin, float(MARGINS[row.name](attrs, *[np.asarray(a, np.float64) for a in arrays if a is not None])))

    def __enter__(self) -> Watch:
        local.mode.swap_capture(self)
        return self

    def __exit__(self, *exc: object) -> None:
        local.mode.swap_capture(None)


def _near(*places: float) -> Callable[..., float]:
    return lambda attrs, x, *others: min(np.abs(x - p).min(initial=np.inf) for p in places)


def _apart(attrs: Any, x: Any, y: Any, *others: Any) -> float:
    return float(np.abs(x - y).min(initial=np.inf))


def _ties(attrs: Any, x: Any, *others: Any) -> float:
    return float(np.diff(np.sort(x, axis=None)).min(initial=np.inf))


def _edges(attrs: Any, x: Any, *others: Any) -> float:
    return min((float(np.abs(x - v).min(initial=np.inf)) for v in attrs.values() if isinstance(v, (int, float))), default=np.inf)


def _steps(attrs: Any, x: Any, *others: Any) -> float:
    return float(np.abs(2 * x - np.round(2 * x)).min(initial=np.inf)) / 2


MARGINS: dict[str, Callable[..., float]] = {
    **dict.fromkeys(("abs", "sign", "relu", "sgn", "leaky_relu", "elu", "heaviside", "signbit", "prod", "cumprod", "prod_rest"), _near(0)),
    **dict.fromkeys(("maximum", "minimum", "gt", "lt", "ge", "le", "eq", "ne", "greater", "less", "greater_equal", "less_equal"), _apart),
    **dict.fromkeys(("equal", "not_equal", "fmax", "fmin", "l1_loss"), _apart),
    **dict.fromkeys(("amax", "amin", "max_along", "min_along", "max_all", "min_all", "sort", "argsort", "cummax", "cummin"), _ties),
    **dict.fromkeys(("median_along", "median_all", "topk", "kthvalue", "argmax", "argmin", "aminmax", "max_pool", "mode"), _ties),
    **dict.fromkeys(("clamp", "hardtanh", "softshrink", "hardshrink", "threshold"), _edges),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "floor_divide", "remainder", "fmod", "round_to", "div_rounded"), _steps),
    "cast": lambda attrs, x, *others: _steps(attrs, x) if np.dtype(attrs["dtype"]).kind in "ib" else np.inf,
    "relu6": _near(0, 6), "huber_loss": lambda attrs, x, y: float(np.abs(np.abs(x - y) - 1).min(initial=np.inf)),
}  # fmt: skip


def eager(program: Program, nudge: float = 0.0, order: int = 1) -> Seen:
    seen = World(program, lambda f: f, nudge, order).run()
    if is_asked(program):
        world = World(program, lambda f: f, nudge, order)
        with contextlib.suppress(RuntimeError, AttributeError):  # there need be no derivative
            for where, x in asked(program, world.state, world.shaken, EAGER, order).items():
                seen.add(where, x)
    return seen


def compiled(program: Program, backend: str, order: int = 1, lives: bool = False, without: tuple[str, ...] = ()) -> Seen:
    """As the back end runs it, and derivatives in all `lives`, without the rewrites that are named. If a trace is refused, that is noted;
    what was seen until then is there."""
    options: dict[str, Any] = {"without": without} if backend in ("interpreter", "xla") else {"backend": backend, "without": without}
    with interpreted() if backend == "interpreter" else contextlib.nullcontext():
        world = World(program, lambda f: sg.compile(f, **options), order=order)
        try:
            world.run()
            if lives:
                other = World(program, lambda f: f)
                for where, x in asked(program, other.state, other.shaken, compiled_lives(options), order).items():
                    world.seen.add(where, x)
            return world.seen
        except RuntimeError as error:
            if not isinstance(error, sg.errors.TraceError) and not any(words in str(error) for words in REFUSALS):
                raise
            world.seen.refused = str(error)
            return world.seen

