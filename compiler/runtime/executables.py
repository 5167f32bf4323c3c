"""Executables that the fast path launches, each with everything that a call needs besides the leaves of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.backends.base import Kernel
from symgrad.compiler.inputs.sources import ensure_on_device, native_order
from symgrad.compiler.runtime.program import CACHE_MISS, Program
from symgrad.compiler.runtime.return_types import array_of, returns_arrays
from symgrad.device_tensor import MAX_HOST_ROUND_TRIPS, DeviceTensor, allocate
from symgrad.pytree import LEAF, unflatten
from symgrad.tensor import Tensor

ndarray = np.ndarray
SMALL_BYTES = 1 << 14
"""Bytes: copying up to this much to the host right away costs less than blocking now and copying later."""
_MAX_COMPARED_BYTES = 1 << 10
"""Bytes of a captured tensor: comparing up to this much takes less time than a host-to-device copy."""
LAUNCH_ERRORS = (TypeError, ValueError, RuntimeError, OverflowError)
"""Errors that send a call to the slow path, which reports them in detail or runs arguments of other types."""
Unflatten = Callable[[list[Any]], Any]


class DeviceCopies:
    """Device copies of small captured tensors whose host memory is aliased.

    A copy is reused as long as the values are the same: comparing them takes less time than a transfer. Once the values have changed
    several times, they are passed from the host at every call.
    """

    __slots__ = ("changes", "known")

    def __init__(self) -> None:
        self.known: dict[int, tuple[bytes, Any]] = {}
        self.changes = 0

    def lookup(self, t: Tensor, array: Any, kernel: Kernel) -> Any:
        """Return the operand for a captured tensor: a device copy, its host array, or its buffer after it was moved to the device."""
        if array.nbytes > _MAX_COMPARED_BYTES or self.changes > MAX_HOST_ROUND_TRIPS:
            return ensure_on_device(t, kernel)
        numbers = array.tobytes()
        known = self.known.get(id(t))
        if known is not None and known[0] == numbers:
            return known[1]
        operands = ensure_on_device(t, kernel)
        if operands.__class__ is ndarray:
            self.changes += known is not None
            operands = kernel.buffer(operands)
            self.known[id(t)] = numbers, operands
        return operands


class LaunchTarget:
    """An executable, with everything that a call needs besides the leaves."""

    __slots__ = (
        "as_arrays", "captured", "check_guards", "conditions", "device_copies", "dtypes", "execute", "kernel", "launches_directly",
        "names", "on_device", "program", "returns_arrays", "single", "small", "types", "unflatten", "x64",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, program: Program, form: Unflatten | None, returns_arrays: bool | None) -> None:
        assert kernel.executable is not None
        self.kernel, self.execute, self.x64 = kernel, kernel.executable, kernel.x64
        self.program = program
        guards = program.guards
        self.check_guards: Any = guards.check if guards.any else None
        """Checks the program's guards; None if it has none."""
        by_name = not (guards.modules or guards.captured or guards.scalar_conditions or guards.other_guards)
        self.names = tuple([(read, value) for read, value, _ in guards.name_guards]) if by_name else ()
        """Name guards as (read, value): if every name still refers to the same object, the guards hold."""
        self.conditions: Any = None if by_name else self.check_guards
        """Checks the guards if there are others than name guards; else None."""
        captured = program.captured
        self.captured, self.unflatten, self.on_device = captured, form, kernel.on_device
        outputs, inputs = kernel.graph.outputs, kernel.graph.inputs
        self.single = len(outputs) == 1
        self.as_arrays = _as_arrays(np.array if kernel.on_device else array_of, form, self.single)
        """Converts the executable's outputs to arrays in the result structure."""
        self.launches_directly = kernel.on_device and not captured and not returns_arrays and (by_name or not guards.any)
        """True if, for leaves on the device, the results are the executable's outputs wrapped as tensors, provided that `names` hold."""
        self.small = all([v.dtype.itemsize * math.prod(v.shape) <= SMALL_BYTES for v in outputs])
        self.device_copies = DeviceCopies()
        self.returns_arrays = returns_arrays
        """None if the arguments decide."""
        self.types = [(x.shape, x.dtype) for x in inputs[: len(inputs) - len(captured)]]
        self.dtypes = [x.dtype for x in inputs]

    def run(self, operands: list[Any], host: bool, arrays: bool) -> Any:
        """Return the results for the storages of the leaves, or CACHE_MISS. `host`: an operand is a host array or a Python number;
        `arrays`: the arguments hold arrays and no tensors."""
        try:
            for now, value in self.names:
                if now() is not value and not self.check_guards():
                    return CACHE_MISS
            if self.conditions is not None and not self.conditions():
                return CACHE_MISS
            if self.captured:
                host = self._append_captured(operands, host)
            from_host = host and self.on_device
            if from_host:
                for m, dtype in zip(operands, self.dtypes):  # noqa: B905  (there are as many)
                    if m.__class__ is ndarray and m.dtype is not dtype and m.dtype != dtype:
                        return CACHE_MISS  # JAX would convert it, or misread another byte order
            if not from_host or self.x64 is None:
                found = self.execute(*operands)
            else:
                get, put = self.x64
                before = get()
                try:
                    put(True)
                    found = self.execute(*operands)
                    put(before)
                except BaseException:  # also an interrupt right before the line above
                    put(before)
                    raise
        except LAUNCH_ERRORS:
            return CACHE_MISS
        if arrays if self.returns_arrays is None else self.returns_arrays:
            return self.as_arrays(found)
        return self.wrap_results((found,) if self.single else found, host)

    def _append_captured(self, operands: list[Any], host: bool) -> bool:
        """Append the storages of captured tensors; return True if any operand is in host memory."""
        for t in self.captured:
            m = t._storage
            if m.__class__ is ndarray:
                m = self.device_copies.lookup(t, m, self.kernel) if self.on_device else native_order(m)
                host = host or m.__class__ is ndarray
            operands.append(m)
        return host

    def wrap_results(self, found: Sequence[Any], host: bool) -> Any:
        """Return the results as tensors in the result structure. The kernel has read all host operands when this returns."""
        if host and self.on_device:
            if self.small:
                found = [np.array(x) for x in found]
            else:
                found[0].block_until_ready()  # the results of one run are ready together
        tensors: list[Any] = []
        for x in found:
            t: Any = allocate(Tensor if x.__class__ is ndarray else DeviceTensor)  # inlined tensor_from_storage(): benchmarks/calls.py
            t._storage = x
            t._node = t._base = None
            t._requires_grad = False
            t._version_cell = []
            tensors.append(t)
        return tensors[0] if self.unflatten is None else self.unflatten(tensors)


def _as_arrays(convert: Callable[[Any], Any], form: Unflatten | None, single: bool) -> Callable[[Any], Any]:
    if form is None:
        return convert
    return lambda found: form([convert(x) for x in ((found,) if single else found)])


def make_target(kernel: Kernel, program: Program, form: Unflatten | None, returns: str | None) -> LaunchTarget | None:
    """Return a launch target for the kernel; None if it is not compiled yet, or if the values of arguments are checked at every call."""
    if kernel.executable is None or program.guards.scalar_conditions or program.assumptions is not None:
        return None
    return LaunchTarget(kernel, program, form, returns_arrays(returns, program.requires_grad))


def unflattener(structure: Any) -> Unflatten | None:
    """Return a function that puts results into the result structure; None if the result is one leaf."""
    if structure is LEAF:
        return None
    if type(structure) in (list, tuple) and all(part is LEAF for part in structure):
        return type(structure)
    return lambda found: unflatten(structure, found)
