"""Runs that reuse the memory of tensors: the kernel consumes the buffers of tensors that the program writes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.runtime.bound_inputs import BoundInputs
from symgrad.device_buffers import DonatedError, DonatedPlaceholder, donations_in_flight
from symgrad.device_tensor import begin_donation


class Donation:
    """Donates the inputs in `donated`. During a run their tensors hold placeholders, and other threads that read them wait."""

    def __init__(self, graph: Graph, inputs: BoundInputs, donated: Sequence[int], name: str) -> None:
        self.inputs, self.name, self.single = inputs, name, len(graph.outputs) == 1
        self.placeholders = {i: DonatedPlaceholder(graph.inputs[i].shape, graph.inputs[i].dtype) for i in donated}
        self.undonated_writes = sorted(inputs.written.difference(donated))
        """Written inputs that are not worth donating."""

    def run(
        self, kernel: Kernel, operands: list[Any], arguments: Sequence[Any], found: list[Any], commit: Callable[[Sequence[Any]], None]
    ) -> Sequence[Any]:
        """Run the kernel, `commit` its outputs and return them. `found` is filled as soon as the buffers have been consumed."""
        given = _own_buffers(kernel, operands)
        owners = [self.inputs.at(i, arguments) for i in given]
        buffers, placeholders = [operands[i] for i in given], [self.placeholders[i] for i in given]
        taken = [*zip(owners, buffers, placeholders, strict=True)]
        in_flight: list[bool] = []
        try:
            if (
                not begin_donation(owners, buffers, placeholders, in_flight)
                or any(self.inputs.at(i, arguments)._storage is not operands[i] for i in self.undonated_writes)
            ):
                raise DonatedError(f"{self.name} is run by another thread")
            kernel.launch(operands, found)
        finally:
            try:
                self._finalize(found, taken, in_flight, commit)
            except BaseException:  # an interrupt: finish what has begun
                self._finalize(found, taken, in_flight, commit)
                raise
        return self._outputs(found)

    def _outputs(self, found: list[Any]) -> Sequence[Any]:
        return found if self.single else found[0]

    def _finalize(
        self, found: list[Any], taken: list[tuple[Any, Any, Any]], in_flight: list[bool], commit: Callable[[Sequence[Any]], None]
    ) -> None:
        """Commit the new values; after a failed run, restore the donated buffers."""
        if in_flight and found:
            commit(self._outputs(found))
        for t, buffer, placeholder in taken if in_flight else ():
            if t._storage is placeholder:
                t._storage = buffer
        with donations_in_flight.lock:
            donations_in_flight.end(in_flight)


def _own_buffers(kernel: Kernel, operands: list[Any]) -> list[int]:
    """Return the donated inputs whose buffers belong to their tensors. A host array, or a buffer that is also another operand, is replaced
    by a copy in `operands`, which the kernel consumes instead."""
    twice, own = len(set(map(id, operands))) < len(operands), []
    for i in kernel.donated:
        x = operands[i]
        if x.__class__ is np.ndarray or (twice and sum(x is y for y in operands) > 1):
            operands[i] = kernel.buffer(np.asarray(x))
        else:
            own.append(i)
    return own
