"""Sources of the inputs that are no arguments: `resolve` finds the operand at every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.device_buffers import DonatedError, donations_in_flight
from symgrad.device_tensor import MAX_HOST_ROUND_TRIPS, is_donated, is_on_device, is_unaliased, to_device
from symgrad.tensor import Tensor

if TYPE_CHECKING:
    from symgrad.compiler.backends.base import Kernel


def ensure_on_device(t: Tensor, kernel: Kernel) -> Any:
    """The storage of `t` as an operand of `kernel`. If the kernel runs on a device, `t` first moves there, since every run reads it, unless
    its memory is shared or it has come back to the host too often."""
    if kernel.on_device and not is_on_device(t):
        moves = t.__dict__.get("_host_round_trips", 0)
        if moves < MAX_HOST_ROUND_TRIPS and is_unaliased(t):
            t.__dict__["_host_round_trips"] = moves + 1
            to_device(t, kernel.buffer(native_order(t._array)))
    return native_order(t._storage)


def native_order(storage: Any) -> Any:
    """`storage` in native byte order: a host array in another order is converted at every run, since it may change between runs."""
    return storage.astype(storage.dtype.newbyteorder("=")) if storage.__class__ is np.ndarray and not storage.dtype.isnative else storage


def launch(kernel: Kernel, tensors: Sequence[Tensor]) -> tuple[list[Any], Sequence[Any]]:
    """Launch `kernel` on the storages of `tensors`; return the operands and the results. If another thread donates a storage meanwhile,
    wait and read it again."""
    while True:
        operands = [m if (m := t._storage).__class__ is not np.ndarray or m.dtype.isnative else native_order(m) for t in tensors]
        try:
            return operands, kernel.launch(operands, [] if kernel.donated else None)
        except DonatedError:
            donations_in_flight.wait()
            if any(map(is_donated, tensors)):
                raise


@dataclass(frozen=True)
class CapturedInput:
    """A tensor that the function captures."""

    tensor: Tensor

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return ensure_on_device(self.tensor, kernel)


@dataclass(frozen=True)
class GradInput:
    """The `.grad` of a tensor, or of the argument at a position."""

    owner: Tensor | int

    def current(self, arguments: Sequence[Tensor]) -> Any:
        return (arguments[self.owner] if isinstance(self.owner, int) else self.owner)._grad

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return self.current(arguments)._storage


@dataclass(frozen=True)
class RngInput:
    """The random draw with this index among the draws of the run."""

    number: int

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return draws[self.number]


class ScalarInput:
    """An external scalar that Python code may change, such as a learning rate. Its device buffer is reused until the number changes."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.cached: tuple[Any, Any] = (None, None)

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        value = self.read()
        known, buffer = self.cached
        if value != known or buffer is None:  # always true for NaN
            buffer = kernel.buffer(np.asarray(value, np.float64))
            self.cached = value, buffer
        return buffer
