"""The inputs of a program with effects: the tensor behind each of them, and what a run reads from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.inputs.sources import CapturedInput, GradInput, RngInput, native_order
from symgrad.compiler.trace.effects import Effects, grad_inputs
from symgrad.compiler.trace.trace import Trace
from symgrad.device_tensor import storage_of, tensor_from_storage
from symgrad.tensor import Tensor


class BoundInputs:
    """The inputs of a program with effects. Arguments are given to each run; all other inputs have a source."""

    def __init__(self, traced: Trace, effects: Effects) -> None:
        capture = traced.capture
        count = self.arguments = capture.arguments
        """Number of inputs that are arguments."""
        self.sources = _input_sources(capture, count)
        captured = capture.input_tensors[count:]
        self.tensors: list[Any] = [None] * count  # later calls have other arguments
        self.tensors += [source if isinstance(source, GradInput) else t for t, source in zip(captured, self.sources, strict=True)]
        self.resident = [i for i, source in enumerate(self.sources, count) if not isinstance(source, RngInput)]
        """Inputs that are on the kernel's device at every run."""
        self.written = {i for i, _ in effects.writes}
        self.writes_grads = any([isinstance(self.tensors[i], GradInput) for i in self.written])
        captured = [*captured, *(t for t, _ in effects.equal_scalars)]
        self.exclusive_ids = {id(x) for t in captured for x in (t, t._base) if x is not None} if effects.writes else set()
        """Ids of captured tensors that must not be arguments as well, since the program writes to tensors."""

    def at(self, i: int, arguments: Sequence[Any]) -> Any:
        """Return the tensor behind an input."""
        t = arguments[i] if i < self.arguments else self.tensors[i]
        return t.current(arguments) if t.__class__ is GradInput else t

    def around(self, i: int, storage: Any, arguments: Sequence[Any]) -> Tensor:
        """Return the tensor behind an input; for inputs without one (random numbers, learning rates), a new tensor around `storage`."""
        if i < self.arguments:
            return arguments[i]  # type: ignore[no-any-return]
        source = self.sources[i - self.arguments]
        return source.tensor if isinstance(source, CapturedInput) else tensor_from_storage(storage)

    def operands(self, arguments: Sequence[Any], kernel: Kernel, draws: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
        """Return the operands of a run: the storages of the arguments, and what the `sources` of other inputs have now."""
        operands = [native_order(t._storage) for t in arguments]
        operands += [source.resolve(kernel, draws, arguments) for source in sources]
        return operands

    def are_exclusive(self, arguments: Sequence[Any]) -> bool:
        """True if no argument is a captured tensor that must not be one as well."""
        for t in arguments if self.exclusive_ids else ():
            if id(t) in self.exclusive_ids or id(t._base) in self.exclusive_ids:
                return False
        return True

    def write_shared_memory(self, arguments: Sequence[Any], operands: Sequence[Any]) -> bool:
        """True if an input that is written to shares host memory with another one: an argument with a captured tensor, or a gradient with
        either. Two arguments that share memory are in the key of a call, two captured tensors were refused when it was traced."""
        written, count = self.written, self.arguments
        if not written or not (self.writes_grads or np.ndarray in [m.__class__ for m in operands]):
            return False
        captured = [storage_of(self.at(i, arguments)) for i in range(count, len(self.tensors))]
        inputs = [(i, m) for i, m in enumerate((*operands, *captured)) if m.__class__ is np.ndarray]
        pairs = [(inputs[i][0], inputs[j][0]) for i, j, _ in aliased_pairs([m for _, m in inputs])]
        grads = [isinstance(t, GradInput) for t in self.tensors]
        for i, j in pairs:  # noqa: SIM110  (an interrupt inside a generator would be unraisable)
            if (i in written or j in written) and (i < count <= j or grads[i] or grads[j]):
                return True
        return False


def _input_sources(capture: Any, arguments: int) -> list[Any]:
    """Return the source of each input besides the arguments: a tensor that was some tensor's `.grad` becomes a GradInput, which reads the
    current `.grad`."""
    sources = list(capture.sources)
    for k, i in grad_inputs(capture).items():
        sources[k - arguments] = GradInput(i if i < arguments else capture.input_tensors[i])
    return sources
