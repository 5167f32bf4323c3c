"""The shortest way to a kernel, for a call like the last one: arguments that are tensors or arrays, and nothing else that has changed.

An executable refuses arguments of other types by itself, so little is compared here; whatever is out of the ordinary takes the long way,
which finds the same program, or says what is wrong. The code is plain for speed: between kernels a call of a function costs more than the
work of a line, and so does `map`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backend import Kernel
from symgrad.compiler.running.program import MISS, Program
from symgrad.compiler.tracing.guards import Guards
from symgrad.compiler.tracing.tree import LEAF, unflatten
from symgrad.mode import local, watched
from symgrad.resident import Resident, new, resident
from symgrad.tensor import Tensor

Run = Callable[[tuple[Any, ...]], Any]
ndarray = np.ndarray
SMALL = 1 << 14
"""Bytes: bringing so much to the host costs less than asking whether to."""
_ELSEWHERE = (None,)
REFUSED = (TypeError, ValueError, RuntimeError)
"""Arguments of other types, or what the long way has words for."""


def no_shortcut(args: tuple[Any, ...]) -> Any:
    return MISS


def shortcut(program: Program) -> Run:
    """What runs a program without effects, or gives MISS."""
    recording, kernel, guards, captured = local.mode.recording, program.operation.kernel, program.guards, program.captured
    if program.operation.giving or (recording and any(t._requires_grad for t in captured)):
        return no_shortcut
    launch = launcher(kernel, guards, captured)
    if launch is None:
        return no_shortcut
    return _any(program, recording, launch) if direct(program) is None else _with_arrays(kernel, recording, launch)


def direct(program: Program) -> Any:
    """The executable of a program that is a function of its arguments alone, with one result: it needs nothing but tensors on the device
    that ask for no gradients, and what it gives is all there is."""
    kernel, alone = program.operation.kernel, not (program.captured or program.guards.any or program.operation.giving)
    return kernel.executable if alone and program.structure is LEAF and kernel.on_device else None


def _any(program: Program, recording: bool, launch: Callable[..., Any]) -> Run:
    structure, single = program.structure, len(program.graph.outputs) == 1

    def run(args: tuple[Any, ...]) -> Any:
        mode = local.mode
        if mode.recording is not recording or mode.capture is not None:
            return MISS
        found = launch(args, recording)
        if found is MISS:
            return MISS
        return unflatten(structure, map(resident, (found,) if single else found))

    return run


def _with_arrays(kernel: Kernel, recording: bool, launch: Callable[..., Any]) -> Run:
    """For a function of its arguments alone, with one result: a small result of NumPy's arrays is an array again at once."""
    execute: Any = kernel.executable
    (out,) = kernel.graph.outputs
    dtypes = [x.dtype for x in kernel.graph.inputs] if kernel.narrow and out.dtype.itemsize * math.prod(out.shape) <= SMALL else []
    count = len(dtypes)

    def run(args: tuple[Any, ...]) -> Any:
        mode = local.mode
        if mode.recording is not recording or mode.capture is not None:
            return MISS
        for i, a in enumerate(args):
            if type(a) is not ndarray or i >= count or a.dtype is not dtypes[i]:
                found = launch(args, recording)
                return MISS if found is MISS else resident(found)
        try:
            return resident(np.array(execute(*args)))
        except REFUSED:
            return MISS

    return run


def derivative(program: Program, kernel: Kernel, form: Callable[[list[Tensor]], Any], asked: bool) -> Run:
    """What runs a kernel of a program's, a derivative, and gives tensors in their form. What it is a derivative in may have been `asked` of
    the arguments."""
    launch = launcher(kernel, program.guards, program.captured)
    if launch is None:
        return no_shortcut
    execute: Any = kernel.executable
    alone, plain = len(kernel.graph.outputs) == 1, not (program.guards.any or asked)
    usual = form is value_and_gradients

    def run(args: tuple[Any, ...]) -> Any:
        if watched.count:
            return MISS
        held = []
        for a in args if plain else _ELSEWHERE:
            if type(a) is not Resident:
                found = launch(args, asked)
                break
            held.append(a._held)
        else:  # all are on the device
            try:
                found = execute(*held)
            except REFUSED:
                return MISS
        if found is MISS:
            return MISS
        tensors: list[Any] = []
        for x in (found,) if alone else found:
            t: Any = new(Tensor if x.__class__ is ndarray else Resident)  # as resident() does
            t._held = x
            t._node = t._base = None
            t._requires_grad = False
            t._cell = []
            tensors.append(t)
        return (tensors[0], tuple(tensors[1:])) if usual else form(tensors)

    return run


def value_and_gradients(found: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The usual form of results."""
    return found[0], tuple(found[1:])


def launcher(kernel: Kernel, guards: Guards, captured: Sequence[Tensor]) -> Callable[[tuple[Any, ...], bool], Any] | None:
    """What runs a kernel with what arguments and captured tensors hold, and gives what its executable gives; MISS if that is not all, or if
    an argument asks for gradients, which makes a difference if `asked`."""
    execute = kernel.executable
    if execute is None or guards.conditions:
        return None
    dtypes = [x.dtype for x in kernel.graph.inputs[: len(kernel.graph.inputs) - len(captured)]]
    guarded, on_device, narrow = guards.any, kernel.on_device, kernel.narrow
    count = len(dtypes)

    def launch(args: tuple[Any, ...], asked: bool) -> Any:
        if len(args) != count or (guarded and not guards.hold()):
            return MISS
        held, host = gather(args, dtypes, asked)
        if held is None or (host and not narrow):
            return MISS
        for t in captured:
            m = t._held
            if on_device and m.__class__ is ndarray:  # it has been looked at, and moves back
                return MISS
            held.append(m)
        try:
            found = execute(*held)
        except REFUSED:
            return MISS
        if host and on_device:
            (found[0] if found.__class__ is list or found.__class__ is tuple else found).block_until_ready()
        return found

    return launch


def gather(args: tuple[Any, ...], dtypes: Sequence[Any], asked: bool) -> tuple[list[Any] | None, bool]:
    """What arguments hold, and whether some of it is the host's; None if one is no tensor and no array of the right type."""
    held: list[Any] = []
    host = False
    try:
        for i, a in enumerate(args):
            m = a
            if a.__class__ is not ndarray:
                m = a._held
                if asked and (a._requires_grad if a._base is None else a.requires_grad):  # a view finds out now
                    return None, host
            if m.__class__ is ndarray:
                if m.dtype is not dtypes[i] and m.dtype != dtypes[i]:  # JAX would take a float64 for a float32
                    return None, host
                host = True
            held.append(m)
    except AttributeError:
        return None, host
    return held, host
