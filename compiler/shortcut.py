"""The shortest way to a kernel, for programs that depend on nothing but the types of their arguments.

An executable refuses arguments of other types by itself, so little is compared here; whatever is out of the ordinary takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.program import MISS, Program
from symgrad.compiler.tree import LEAF, unflatten
from symgrad.mode import local
from symgrad.resident import resident

ndarray = np.ndarray


def shortcut(program: Program) -> Callable[[tuple[Any, ...]], Any] | None:
    """What runs a program with arguments that are tensors or arrays, or gives MISS; None if it needs more than that."""
    kernel, guards, structure = program.operation.kernel, program.guards, program.structure
    execute = kernel.executable
    if execute is None or program.captured or program.operation.giving or guards.dependencies or guards.conditions or guards.modules:
        return None
    recording = local.mode.recording  # which traced code may have asked for
    single, plain = len(program.graph.outputs) == 1, structure is LEAF
    dtypes = [x.dtype for x in program.graph.inputs]
    count = len(dtypes)

    def run(args: tuple[Any, ...]) -> Any:
        if len(args) != count or local.mode.recording is not recording:
            return MISS
        held, host = [], False
        try:
            for a, dtype in zip(args, dtypes, strict=True):
                m = a if type(a) is ndarray else a._held
                if m is not a and a._requires_grad:
                    return MISS
                if type(m) is ndarray:
                    if m.dtype != dtype:  # JAX would take a float64 for a float32
                        return MISS
                    host = True
                held.append(m)
        except AttributeError:  # no tensor
            return MISS
        try:
            found = execute(*held)
        except (TypeError, ValueError, RuntimeError):  # other types, or what the long way has words for
            return MISS
        if host and kernel.on_device:
            (found if single else found[0]).block_until_ready()
        if plain:
            return resident(found)
        return unflatten(structure, map(resident, (found,) if single else found))

    return run
