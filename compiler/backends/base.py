"""The back ends: what runs the graphs of compiled functions. `register` adds one; `BACKENDS` has them by name.

A back end makes kernels. What the compiler must know before there is a kernel is a field of `Backend`; everything else, which may depend on
the graph, is asked of the `Kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from symgrad.compiler.backends.packing import Packing
from symgrad.compiler.ir.graph import Graph
from symgrad.typing import Array

if TYPE_CHECKING:
    from symgrad.compiler.options import Options


class Kernel(Protocol):
    """A graph that can be run: call it with one array for each input; it returns a new array for each output."""

    name: str
    packing: Packing | None
    """How inputs and outputs are packed into arrays; None if each has its own array."""

    @property
    def donated(self) -> tuple[int, ...]:
        """Inputs whose memory is reused for results: buffers that nothing else reads."""

    @property
    def graph(self) -> Graph:
        """The graph as it runs: rows that the back end does not have are decomposed."""

    @property
    def on_device(self) -> bool:
        """True if tensors that the kernel reads at every run should be device buffers, as its results are: arrays with the methods
        `block_until_ready` and `is_deleted` of JAX's, whose type is in `symgrad.graph.ARRAYS`. If False, results are NumPy arrays."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]: ...

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """Run the kernel on arrays and buffers (see `symgrad.device_tensor`); return the results where they were computed. If inputs are
        donated, `found` gets the executable's result as its one element as soon as there is one, even if the call is interrupted."""

    def buffer(self, array: Array, /) -> Any:
        """Return a copy in the memory from which kernels read directly; nothing else can write to it. Buffer pools keep this function, so
        it should not keep the kernel alive."""

    @property
    def executable(self) -> Callable[..., Any] | None:
        """The function that runs the kernel on arrays, buffers and Python scalars, once it is compiled, and returns the result, or a
        sequence of several: it raises TypeError for wrong types. None sends every call to the slow path, which uses `launch`."""

    @property
    def x64(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        """Functions that read and set JAX's thread-local x64 flag, which the executable needs for host arrays and Python scalars; None if
        it needs no flag."""

    def source(self) -> str:
        """Return the program that runs, as text."""


@dataclass(frozen=True)
class KernelRequest:
    """What a back end makes a kernel from."""

    graph: Graph
    name: str
    options: Options
    donated: Sequence[int] = ()
    """Inputs whose memory may be reused for results; empty if the back end does not donate."""
    resident_inputs: Sequence[int] = ()
    """Inputs that are on the kernel's device at every run."""
    packing: Packing | None = None
    """Arrays that the kernel takes, returns and donates instead of single tensors; None if the back end has no pools."""


@dataclass(frozen=True)
class Backend:
    """A back end: its name in `compile(backend=...)`, the function that makes its kernels, and its capabilities."""

    name: str
    make_kernel: Callable[[KernelRequest], Kernel] | str
    """The function, or "module:function", which is imported when the first kernel is made."""
    title: str = ""
    """The name in messages and in `explain()`; by default `name`."""
    donates: bool = False
    """True if kernels can reuse the memory of inputs for results."""
    pools: bool = False
    """True if a training step may keep the tensors that it writes to in buffers of this back end (see `runtime/buffer_pool.py`): kernels
    take a packing, donate, and run on a device."""
    candidate: bool = False
    """True if `backend="auto"` measures this back end."""
    pipeline: str = ""
    """The name of the pipeline that its kernels run (see `symgrad.compiler.rewrite.pipeline`); empty if they take graphs as they are."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a back end has a name, which compile(backend=...) takes")
        if self.pools and not self.donates:
            raise ValueError(f"back end {self.name!r}: pooled buffers are donated at every run, so pools=True needs donates=True")
        object.__setattr__(self, "title", self.title or self.name)


class _Registry(dict[str, Backend]):
    """Back ends by name. Looking up an unknown name is a ValueError that lists the names; a hit costs no call of a Python function."""

    def refuse(self, name: object) -> NoReturn:
        """Raise ValueError: there is no such back end."""
        close = get_close_matches(name, self, 1) if isinstance(name, str) else ()
        hint = f"did you mean {close[0]!r}? There are" if close else "there are"
        raise ValueError(f"backend={name!r} is not registered: {hint} {', '.join(map(repr, self))}")

    __missing__ = refuse


BACKENDS = _Registry()
"""The registered back ends."""


def register(backend: Backend) -> None:
    """Register a back end: from now on `compile(backend=...)` takes its name. Raise ValueError if the name is taken."""
    if backend.name in BACKENDS:
        raise ValueError(f"a back end {backend.name!r} is registered already: choose another name, or unregister({backend.name!r}) first")
    BACKENDS[backend.name] = backend


def unregister(name: str) -> None:
    """Remove a back end. Functions that are compiled for it keep the kernels that they have."""
    del BACKENDS[BACKENDS[name].name]


def make_kernel(
    graph: Graph,
    name: str = "forward",
    *,
    options: Options,
    donated: Sequence[int] = (),
    resident_inputs: Sequence[int] = (),
    packing: Packing | None = None,
) -> Kernel:
    """Return a kernel of the back end in the options; see `KernelRequest` for the arguments."""
    make, request = BACKENDS[options.backend].make_kernel, KernelRequest(graph, name, options, donated, resident_inputs, packing)
    if not isinstance(make, str):
        return make(request)
    module, _, function = make.partition(":")
    loaded: Callable[[KernelRequest], Kernel] = getattr(import_module(module), function)
    return loaded(request)
