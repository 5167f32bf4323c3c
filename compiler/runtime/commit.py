"""The effects of a run: new values and gradients, prints, and the history of results and written tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.compiler.inputs.sources import GradInput
from symgrad.compiler.runtime.autograd_op import AutogradOp
from symgrad.compiler.runtime.bound_inputs import BoundInputs
from symgrad.compiler.trace.effects import Effects
from symgrad.device_tensor import tensor_from_storage, write_storage
from symgrad.mode import local
from symgrad.tensor import Tensor


class Commit:
    """Applies the effects of a run to the tensors that they concern."""

    def __init__(self, effects: Effects, inputs: BoundInputs, recorded_op: AutogradOp | None) -> None:
        self.effects, self.inputs = effects, inputs
        self.recorded_op = recorded_op
        """Autograd op that records the history of the results and the written tensors; only its backward runs."""

    def write(self, arguments: Sequence[Any], values: Sequence[Any]) -> None:
        """Write the new values and gradients, and print. `values` are the outputs of the kernel after the results."""
        new, tensors, count = iter(values), self.inputs.tensors, self.inputs.arguments
        for i, _ in self.effects.writes:
            t = tensors[i] if i >= count else arguments[i]
            write_storage(t if t.__class__ is not GradInput else t.current(arguments), next(new))
        for i, value in self.effects.grads:
            t = tensors[i] if i >= count else arguments[i]
            t._grad = None if value is None else tensor_from_storage(next(new))
        for t, k in self.effects.equal_scalars:
            write_storage(t, values[k].copy() if values[k].__class__ is np.ndarray else values[k])
        self.show(new)

    def show(self, values: Iterator[Any]) -> None:
        """Repeat the prints of the function with the current values."""
        for printed in self.effects.prints:
            printed.show(values)

    def check_histories(self, arguments: Sequence[Any]) -> None:
        """Raise if a history that the run would change cannot be changed."""
        if self.effects.histories.any:
            self.effects.histories.check(partial(self.inputs.at, arguments=arguments))

    def record(self, operands: Sequence[Any], arguments: Sequence[Any], results: Sequence[Tensor]) -> None:
        """Set requires_grad of leaves and record the history, after the new values are written. `operands` are those of the run."""
        if self.effects.histories.any:
            self.effects.histories.mark_leaves(partial(self.inputs.at, arguments=arguments))
        if self.recorded_op is not None and local.mode.recording:
            self._record(self.recorded_op, operands, arguments, results)

    def _record(self, recorded_op: AutogradOp, operands: Sequence[Any], arguments: Sequence[Any], results: Sequence[Tensor]) -> None:
        histories, keeps_history = self.effects.histories, self.effects.keeps_history
        saved = operands if keeps_history else recorded_op.graph.inputs  # types alone: the function has already called backward()
        inputs = [self.inputs.around(i, x, arguments) for i, x in enumerate(saved)]
        written = [tensor_from_storage(saved[i]) for i, _ in histories.written]
        node = recorded_op.record(inputs, saved, [*results, *written], [i for i, _ in self.effects.writes], len(written))
        if node is not None and not keeps_history:
            node.saved = node.cells = None
        histories.apply(partial(self.inputs.at, arguments=arguments), written)
