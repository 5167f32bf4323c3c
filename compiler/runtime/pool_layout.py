"""Which tensors of a program are kept in pooled buffers, and how they are packed into them."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.compiler.backends.base import Kernel, make_kernel
from symgrad.compiler.backends.packing import SMALL_BYTES, Packing
from symgrad.compiler.inputs.sources import CapturedInput, GradInput
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.options import Options
from symgrad.compiler.runtime.bound_inputs import BoundInputs
from symgrad.compiler.runtime.buffer_pool import BufferPool
from symgrad.compiler.trace.effects import Effects


def can_pool(effects: Effects, inputs: BoundInputs, returned: Mapping[int, int]) -> bool:
    """True if a program writes to at least one tensor, and every tensor that it writes to, or whose `.grad` it reads or sets, is captured.
    Recorded histories and results that are written tensors (`returned`) rule pooling out."""
    written, count = [i for i, _ in effects.writes], inputs.arguments
    if not written or returned or effects.recorded or effects.histories.any or any([k >= len(written) for _, k in effects.equal_scalars]):
        return False
    touched = {*written, *(i for i, _ in effects.grads), *(i for i, _ in effects.grad_presence)}
    if any([i < count or isinstance(inputs.tensors[i], GradInput) for i in touched]):
        return False
    return all([isinstance(inputs.sources[i - count], CapturedInput) and inputs.tensors[i]._base is None for i in written])


class PoolLayout:
    """The layout of the pooled buffers of a program: kernels for a packing, and the pool that feeds them."""

    def __init__(self, graph: Graph, effects: Effects, inputs: BoundInputs, results: int, options: Options) -> None:
        self.graph, self.effects, self.inputs, self.options = graph, effects, inputs, options
        self._written = {i: results + k for k, (i, _) in enumerate(effects.writes)}
        """Maps written inputs to the outputs that are their new values."""
        left = [i for i, value in effects.grads if value is not None]
        self._left = {i: results + len(self._written) + k for k, i in enumerate(left)}
        """Maps inputs to the outputs that are their gradients."""

    def kernel(self, small: int = SMALL_BYTES) -> Kernel:
        """Return a kernel in which tensors of up to `small` bytes share buffers; with 0 every tensor has its own, which compiles faster."""
        packing = Packing.of(self.graph, self._written, list(self._left.values()), small)
        first = len(self.graph.inputs) - len(self._written)
        return make_kernel(
            self.graph, options=self.options, donated=range(first, len(packing.inputs)), resident_inputs=self.inputs.resident,
            packing=packing
        )

    def pool(self, kernel: Kernel) -> BufferPool | None:
        """Return a pool for such a kernel; None if it has no packing."""
        if kernel.packing is None:
            return None
        at = self.inputs.tensors
        tensors, owners = {i: [at[i]] for i in self._written}, {k: [at[i]] for i, k in self._left.items()}
        for t, k in self.effects.equal_scalars:
            tensors[self.effects.writes[k][0]].append(t)
        return BufferPool(kernel, self.graph, kernel.packing, tensors, owners, [at[i] for i, value in self.effects.grads if value is None])
