"""Where a program finds its inputs besides the arguments, at every run."""

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
    """What a tensor holds. It moves to the device if kernels read it at every run, unless its memory is shared or it always comes back."""
    if kernel.on_device and not is_on_device(t):
        moves = t.__dict__.get("_host_round_trips", 0)
        if moves < MAX_HOST_ROUND_TRIPS and is_unaliased(t):
            t.__dict__["_host_round_trips"] = moves + 1
            to_device(t, kernel.buffer(native_order(t._array)))
    return native_order(t._storage)


def native_order(storage: Any) -> Any:
    """What a kernel reads for memory of the host: an array in another byte order is converted at every run, since it may change."""
    return storage.astype(storage.dtype.newbyteorder("=")) if storage.__class__ is np.ndarray and not storage.dtype.isnative else storage


def launch(kernel: Kernel, tensors: Sequence[Tensor]) -> tuple[list[Any], Sequence[Any]]:
    """What tensors hold, and what a kernel makes of it. What another thread donates meanwhile is read again."""
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
    """What is in the `.grad` of a tensor, or of an argument, given by its position."""

    owner: Tensor | int

    def current(self, arguments: Sequence[Tensor]) -> Any:
        return (arguments[self.owner] if isinstance(self.owner, int) else self.owner)._grad

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return self.current(arguments)._storage


@dataclass(frozen=True)
class RngInput:
    """The number of a draw of random numbers."""

    number: int

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        return draws[self.number]


class ScalarInput:
    """A number that Python code may change, such as a learning rate; its buffer is kept as long as it does not."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.cached: tuple[Any, Any] = (None, None)

    def resolve(self, kernel: Kernel, draws: Sequence[Any], arguments: Sequence[Tensor]) -> Any:
        value = self.read()
        known, buffer = self.cached
        if value != known or buffer is None:  # NaN is never known
            buffer = kernel.buffer(np.asarray(value, np.float64))
            self.cached = value, buffer
        return buffer
