"""The kernel interface of the back ends, XLA and NumPy, and the function that makes kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from symgrad.compiler.backends.packing import Packing
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.options import DEFAULT, Options
from symgrad.typing import Array


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
        """True if tensors that the kernel reads at every run should be device buffers."""

    def __call__(self, arrays: Sequence[Array]) -> list[Array]: ...

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """Run the kernel on arrays and buffers (see `symgrad.device_tensor`); return the results where they were computed. If inputs are
        donated, `found` gets the executable's result as its one element as soon as there is one, even if the call is interrupted."""

    def buffer(self, array: Array) -> Any:
        """Return a copy in the memory from which kernels read directly; nothing else can write to it."""

    @property
    def executable(self) -> Callable[..., Any] | None:
        """The function that runs the kernel on arrays and buffers, once it is compiled: it raises TypeError for wrong types."""

    @property
    def x64(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        """Functions that read and set JAX's thread-local x64 flag, which the executable needs for host arrays and Python scalars; None if
        it needs no flag."""

    def source(self) -> str: ...


def make_kernel(
    graph: Graph,
    name: str = "forward",
    options: Options = DEFAULT,
    donated: Sequence[int] = (),
    resident_inputs: Sequence[int] = (),
    packing: Packing | None = None,
) -> Kernel:
    """Return a kernel for the back end in the options.

    The memory of `donated` inputs may be reused for results, and `resident_inputs` are on the kernel's device at every run. With a packing,
    XLA kernels take, return and donate packed arrays; other kernels ignore it. JAX is imported for XLA kernels only.
    """
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
