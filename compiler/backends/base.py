"""Who runs a graph: XLA, or NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from symgrad.compiler.backends.packing import Packing
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.options import DEFAULT, Options
from symgrad.typing import Array


class Kernel(Protocol):
    """A graph that can be run: call it with one array for each input, it gives a new one for each output."""

    name: str
    packing: Packing | None
    """How arrays go in and out, if it is not one for each input and output."""

    @property
    def donated(self) -> tuple[int, ...]:
        """Inputs whose memory it uses for results: buffers that nobody else reads."""

    @property
    def graph(self) -> Graph:
        """As it is run: rows that the back end does not know are written as what they are made of."""

    @property
    def on_device(self) -> bool:
        """Whether tensors that it reads at every run had better be buffers."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]: ...

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """The same for arrays and buffers (see `symgrad.device_tensor`), with results where they were computed. If memory is donated, what
        the executable gives is the one element of `found` as soon as it is there, whatever interrupts the call."""

    def buffer(self, array: Array) -> Any:
        """A copy where kernels find it without moving it, which nobody else can write to."""

    @property
    def executable(self) -> Callable[..., Any] | None:
        """What the back end calls with arrays and buffers, once there is such a thing: it refuses those of wrong types with a TypeError."""

    @property
    def x64(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        """Reads and sets a switch of this thread that the executable needs for arrays of the host's and Python numbers."""

    def source(self) -> str: ...


def make_kernel(
    graph: Graph,
    name: str = "forward",
    options: Options = DEFAULT,
    donated: Sequence[int] = (),
    resident_inputs: Sequence[int] = (),
    packing: Packing | None = None,
) -> Kernel:
    """A kernel of the back end that the options ask for; the memory of `donated` inputs may be used for its results, and `resident_inputs`
    inputs are where it wants them at every run. XLA's take and give packed arrays if there is a packing, and donate such; others do
    without. JAX is loaded for XLA's only."""
    if options.backend == "numpy":
        from symgrad.compiler.backends.numpy.kernel import HostKernel as HostKernel

        return HostKernel(graph, name)
    if options.backend == "auto":
        from symgrad.compiler.backends.auto import AutoKernel

        return AutoKernel(graph, name, lambda: _make_xla_kernel(graph, name, options, donated), resident_inputs)
    return _make_xla_kernel(graph, name, options, donated, packing)


def _make_xla_kernel(graph: Graph, name: str, options: Options, donated: Sequence[int], packing: Packing | None = None) -> Kernel:
    from symgrad.compiler.backends.xla.kernel import XlaKernel as XlaKernel

    return XlaKernel(graph, name, options.device, donated, options.roll, packing)
